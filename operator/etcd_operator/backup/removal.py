"""Deletes what one EtcdBackup has stored: only backups whose manifest names it as the owner."""

from __future__ import annotations

import logging

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import UNREADABLE, Whose, owners, whose
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import names
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Removed

log = logging.getLogger(__name__)


async def remove(order: Order, sink: Sink) -> Removed | Failure:
    """Deletes each manifest after its backup, so that another try can continue this one."""
    removed = 0
    try:
        await _reach(sink)
        if not order.scheduled:  # A schedule's next run may be writing, and clears up itself.
            await sink.clear()
        async for key, told in owners(sink, await _keys(order, sink)):
            # Since they were read, another object may have replaced one of them.
            if _is_own(order, key, told) and _is_own(order, key, await whose(sink, key)):
                await sink.delete((key, names.manifest_of(key)))
                removed += 1
    except StoreFailed as error:
        return error.failure
    if out_of_reach := [one for one in order.also if not order.store.key_at(one)]:
        return _not_here(order.store, out_of_reach[0])
    return Removed(removed)


async def _reach(sink: Sink) -> None:
    """Raises StoreFailed, early, if the store does not answer. If it refuses, or the bucket is gone
    with all that was stored, the requests that follow show whether that matters."""
    try:
        await sink.check()
    except StoreFailed as error:
        if error.failure.reason == "StoreUnreachable":
            raise


async def _keys(order: Order, sink: Sink) -> list[str]:
    """The keys at its path, and at further locations in `order.also`; raises StoreFailed."""
    path = order.store.key
    keys = await _of_interval(sink, path) if order.stamped else []
    if not path.endswith("/"):  # Also with an interval: the spec may have had none before.
        keys.append(path)
    for key in filter(None, map(order.store.key_at, order.also)):
        base = names.path_of(key)
        keys += [key] if base == key else await _of_interval(sink, base)
    return list(dict.fromkeys(keys))


async def _of_interval(sink: Sink, path: str) -> list[str]:
    found = await sink.names(f"{path}_v")
    return names.newest_first(path, (one.removesuffix(names.MANIFEST) for one in found))


def _not_here(store: Store, location: str) -> Failure:
    words = f"{store.path_field}: the status says that {location!r} was stored, which is not in "
    words += f"the store that the spec names by now, {store.location('')}: set that back"
    return Failure("DeletionFailed", words, final=True)


def _is_own(order: Order, key: str, told: Whose) -> bool:
    owner = told.owner_uid
    if owner not in (order.owner_uid, UNREADABLE):
        log.info("the backup %s is left alone: its owner has UID %s", key, owner or "(unknown)")
    return owner == order.owner_uid
