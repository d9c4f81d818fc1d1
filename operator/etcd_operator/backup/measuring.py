"""What a member, or a restored one, holds at a revision: as far as it tells."""

from __future__ import annotations

import logging
from typing import Any, Final

from aetcd import rpc

from etcd_operator.backup.channel import answered
from etcd_stateful.backup.measurement import Hash, Measured

log = logging.getLogger(__name__)

SECONDS: Final = 30.0
"""Both go through all keys."""


async def measure(channel: Any, revision: int) -> Measured:
    """Never raises for what etcd refuses: with users it may, and what is compacted is gone."""
    found = await hashed(channel, revision)
    return Measured(await _count(channel, revision), (found,) if found else ())


async def hashed(channel: Any, revision: int) -> Hash | None:
    try:
        request = rpc.HashKVRequest(revision=revision)
        call = rpc.MaintenanceStub(channel).HashKV.future(request, timeout=SECONDS)
        reply = await answered(call)
    except rpc.RpcError as error:
        log.warning("etcd gives no hash of revision %d: %s", revision, error.details())
        return None
    return Hash(reply.compact_revision, reply.hash)


async def _count(channel: Any, revision: int) -> int | None:
    every = rpc.RangeRequest(
        key=b"\0", range_end=b"\0", revision=revision, count_only=True, serializable=True
    )
    try:
        reply = await answered(rpc.KVStub(channel).Range.future(every, timeout=SECONDS))
    except rpc.RpcError as error:
        log.warning("etcd does not count keys of revision %d: %s", revision, error.details())
        return None
    return int(reply.count)
