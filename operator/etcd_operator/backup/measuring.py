"""What a member, or a restored one, holds at a revision.

What etcd does not answer is no answer, and raised; only what is compacted away is known to be gone.
"""

from __future__ import annotations

from typing import Any, Final

from aetcd import rpc
from grpc import StatusCode

from etcd_operator.backup.channel import asked
from etcd_operator.backup.idle_timeout import SILENT_SECONDS
from etcd_stateful.backup.measurement import Hash, Measured

SECONDS_PER_GIB: Final = 100.0
"""Both questions make etcd go through all its keys, and show nothing before their end. In memory it
hashes a GiB within a second (etcd-io/etcd#8910); what has to be read from a disk first comes at
10 MB/s from the slowest that etcd.io/docs/latest/op-guide/hardware has a word for."""


def patience(size: int, timeout: float) -> float:
    """How long one of them may take, in a database of `size` bytes; after that, it hangs.

    A third of all the time at most: what is hashed is also read for the snapshot, and hashed again.
    """
    by_size = SILENT_SECONDS + SECONDS_PER_GIB * size / 2**30
    return max(SILENT_SECONDS, min(by_size, timeout / 3))


async def measure(channel: Any, revision: int, seconds: float) -> Measured:
    """Without what is compacted away; raises RpcError.

    Args:
        seconds: for each of the two questions.
    """
    found = await hashed(channel, revision, seconds)
    # Last, as the next to come is the snapshot: what is compacted until then is not in it.
    count = await _counted(channel, revision, seconds)
    return Measured(count, (found,) if found else ())


async def hashed(channel: Any, revision: int, seconds: float) -> Hash | None:
    """None where it is compacted away; raises RpcError."""
    request = rpc.HashKVRequest(revision=revision)
    try:
        hash_all = rpc.MaintenanceStub(channel).HashKV
        reply = await asked(hash_all, request, seconds, "hashed its keys")
    except rpc.RpcError as error:
        if not _is_compacted(error):
            raise
        return None
    return Hash(reply.compact_revision, reply.hash)


async def _counted(channel: Any, revision: int, seconds: float) -> int | None:
    every = rpc.RangeRequest(
        key=b"\0", range_end=b"\0", revision=revision, count_only=True, serializable=True
    )
    try:
        reply = await asked(rpc.KVStub(channel).Range, every, seconds, "counted its keys")
    except rpc.RpcError as error:
        if not _is_compacted(error):
            raise
        return None
    return int(reply.count)


def _is_compacted(error: Any) -> bool:
    return error.code() == StatusCode.OUT_OF_RANGE and "compacted" in str(error.details())
