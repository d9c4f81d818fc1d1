"""What a member, or a restored one, holds at a revision.

Both questions make etcd go through all its keys, which takes as long as it takes: they have no time
of their own and end with their task. What etcd does not answer is no answer, and raised; only what
is compacted away is known to be gone.
"""

from __future__ import annotations

from typing import Any

from aetcd import rpc
from grpc import StatusCode

from etcd_operator.backup.channel import answered
from etcd_stateful.backup.measurement import Hash, Measured


async def measure(channel: Any, revision: int) -> Measured:
    """Without what is compacted away; raises RpcError."""
    found = await hashed(channel, revision)
    # Last, as the next to come is the snapshot: what is compacted until then is not in it.
    return Measured(await _count(channel, revision), (found,) if found else ())


async def hashed(channel: Any, revision: int) -> Hash | None:
    """None where it is compacted away; raises RpcError."""
    try:
        request = rpc.HashKVRequest(revision=revision)
        reply = await answered(rpc.MaintenanceStub(channel).HashKV.future(request))
    except rpc.RpcError as error:
        if not _is_compacted(error):
            raise
        return None
    return Hash(reply.compact_revision, reply.hash)


async def _count(channel: Any, revision: int) -> int | None:
    every = rpc.RangeRequest(
        key=b"\0", range_end=b"\0", revision=revision, count_only=True, serializable=True
    )
    try:
        reply = await answered(rpc.KVStub(channel).Range.future(every))
    except rpc.RpcError as error:
        if not _is_compacted(error):
            raise
        return None
    return int(reply.count)


def _is_compacted(error: Any) -> bool:
    return error.code() == StatusCode.OUT_OF_RANGE and "compacted" in str(error.details())
