"""Deletes what one EtcdBackup of an interval has stored beyond `maxBackups`.

Two objects may write below one path, here or in another cluster: the UID in the manifest tells
whose a backup is. One without is the coreos operator's, and goes by its name as it did there.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from etcd_operator.backup.beside import manifest_beside
from etcd_operator.backup.sink import Sink
from etcd_stateful.backup import names
from etcd_stateful.backup.manifest import BadManifest
from etcd_stateful.backup.order import Order

log = logging.getLogger(__name__)

SECONDS: Final = 20.0
"""The backup is made by then, and must not fail for want of time: the next one goes on with it."""


async def prune(order: Order, sink: Sink, made: str) -> int:
    """How many were deleted, never `made` itself; raises StoreFailed and TimeoutError."""
    path = order.store.key
    async with asyncio.timeout(SECONDS):
        found = names.made_at(path, await sink.names(f"{path}_v"))
        if len(found) <= order.keep:
            return 0
        own = [key for key in found if await _may_go(order, sink, key)]
        old = names.beyond(path, own, order.keep, {order.spare, made})
        for key in old:
            # The manifest first: what is left of one that is cut short is found by its name.
            await sink.delete((names.manifest_of(key), key))
    return len(old)


async def _may_go(order: Order, sink: Sink, key: str) -> bool:
    try:
        told = await manifest_beside(sink, key)
    except BadManifest as error:
        log.warning("%s is left alone: %s", key, error)
        return False
    return told is None or told.owner_uid == order.owner_uid
