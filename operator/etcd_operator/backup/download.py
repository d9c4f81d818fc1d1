"""Downloads a stored backup into a file."""

from __future__ import annotations

import asyncio
import contextlib
from typing import BinaryIO

from etcd_operator.backup.sink import Sink
from etcd_stateful.backup.integrity import Checked


class BrokenOff(Exception):
    """The store has sent less than it had said, or more, and called that no error."""


async def download(sink: Sink, key: str, file: BinaryIO, size: int | None) -> Checked:
    """All of it, written and seen by the check; raises StoreFailed, BrokenOff and OSError.

    Both are the work of threads, in which Python does not hold them up, while the next pieces come.

    Args:
        size: in bytes, as the store has said.
    """
    checked = Checked()
    async with contextlib.aclosing(sink.read(key)) as pieces:
        async for piece in pieces:
            if size is not None and checked.size + len(piece) > size:
                raise BrokenOff(f"{key}: the store sends more than the {size} bytes it had said")
            await asyncio.gather(
                asyncio.to_thread(file.write, piece), asyncio.to_thread(checked.update, piece)
            )
    if checked.size != size:
        raise BrokenOff(f"{key}: the store sent {checked.size} of {size} bytes")
    return checked
