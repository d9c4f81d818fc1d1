"""Counts and hashes the keys that a member, or a restored one, holds at a revision.

A question that etcd does not answer raises an error. Only a revision that is compacted has no
result.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from aetcd import rpc
from grpc import StatusCode

from etcd_operator.backup.channel import asked
from etcd_operator.backup.idle_timeout import SILENT_SECONDS
from etcd_stateful.backup.measurement import Hash, Measured

SECONDS_PER_GIB: Final = 100.0
"""For both questions etcd goes through all its keys, and answers only at the end. In memory it
hashes a GiB within a second (etcd-io/etcd#8910). Data that it has to read from a disk first comes
at 10 MB/s from the slowest disks that etcd.io/docs/latest/op-guide/hardware mentions."""


def patience(size: int, timeout: float) -> float:
    """How many seconds one of the questions may take in a database of `size` bytes. After that,
    etcd counts as hung.

    It is at most a third of `timeout`, though never less than SILENT_SECONDS: the data is also read
    for the snapshot, and then hashed once more.
    """
    by_size = SILENT_SECONDS + SECONDS_PER_GIB * size / 2**30
    return max(SILENT_SECONDS, min(by_size, timeout / 3))


async def measure(channel: Any, revision: int, seconds: float) -> Measured:
    """Counts and hashes the keys; leaves out what is compacted. Raises RpcError.

    Args:
        seconds: for each of the two questions.
    """
    found = await hashed(channel, revision, seconds)
    # Counted last, right before the snapshot: what is compacted in between is not in it.
    count = await _counted(channel, revision, seconds)
    return Measured(count, (found,) if found else ())


async def hashed(channel: Any, revision: int, seconds: float) -> Hash | None:
    """The hash of the keys; None if the revision is compacted. Raises RpcError."""
    request, hash_all = rpc.HashKVRequest(revision=revision), rpc.MaintenanceStub(channel).HashKV
    reply = await _unless_compacted(asked(hash_all, request, seconds, "hashed its keys"))
    return None if reply is None else Hash(reply.compact_revision, reply.hash)


async def _counted(channel: Any, revision: int, seconds: float) -> int | None:
    every = rpc.RangeRequest(
        key=b"\0", range_end=b"\0", revision=revision, count_only=True, serializable=True
    )
    count = rpc.KVStub(channel).Range
    reply = await _unless_compacted(asked(count, every, seconds, "counted its keys"))
    return None if reply is None else int(reply.count)


async def _unless_compacted(answer: Awaitable[Any]) -> Any:
    """The answer; None if the revision that it is about is compacted. Raises RpcError."""
    try:
        return await answer
    except rpc.RpcError as error:
        if error.code() == StatusCode.OUT_OF_RANGE and "compacted" in str(error.details()):
            return None
        raise
