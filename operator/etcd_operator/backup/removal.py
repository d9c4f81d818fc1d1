"""Deletes what one EtcdBackup has stored: what a manifest says is its own, and nothing else."""

from __future__ import annotations

import logging

from etcd_operator.backup.beside import UNREADABLE, owner_of
from etcd_operator.backup.sink import Sink, StoreFailed
from etcd_stateful.backup import names
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Removed

log = logging.getLogger(__name__)


async def remove(order: Order, sink: Sink) -> Removed | Failure:
    """The manifest goes last, so that a removal that is cut short is gone on with."""
    path = order.store.key
    removed = 0
    try:
        if not order.scheduled:  # Of a schedule the next run may be under way, and clears up.
            sink.clear()
        keys = [path]
        if order.stamped:
            found = await sink.names(f"{path}_v")
            bare = (one.removesuffix(names.MANIFEST) for one in found)
            keys = names.newest_first(path, bare)
        for key in keys:
            if await _is_own(order, sink, key):
                await sink.delete((key, names.manifest_of(key)))
                removed += 1
    except StoreFailed as error:
        return error.failure
    return Removed(removed)


async def _is_own(order: Order, sink: Sink, key: str) -> bool:
    owner = await owner_of(sink, key)
    if owner not in (order.owner_uid, UNREADABLE):
        log.info("%s is left alone: it is of UID %s", key, owner or "nobody known")
    return owner == order.owner_uid
