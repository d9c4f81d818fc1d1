"""Downloads a stored backup into a file."""

from __future__ import annotations

import asyncio
import contextlib
from typing import BinaryIO

from etcd_operator.backup.sink import Sink
from etcd_stateful.backup.integrity import SnapshotCheck


class BrokenOff(Exception):
    """The store sent fewer or more bytes than it had announced, without an error."""


async def download(sink: Sink, key: str, file: BinaryIO, size: int | None) -> SnapshotCheck:
    """Writes the backup to `file` and returns its check; raises StoreFailed, BrokenOff and OSError.

    Threads write and hash, without holding the GIL, while the next pieces arrive.

    Args:
        size: in bytes, as the store has announced it.
    """
    checked = SnapshotCheck()
    async with contextlib.aclosing(sink.read(key)) as pieces:
        async for piece in pieces:
            if size is not None and checked.size + len(piece) > size:
                raise BrokenOff(
                    f"{key}: the store sent more than the {size} bytes it had announced"
                )
            await asyncio.gather(
                asyncio.to_thread(file.write, piece), asyncio.to_thread(checked.update, piece)
            )
    if checked.size != size:
        raise BrokenOff(f"{key}: the store sent {checked.size} of {size} bytes")
    return checked
