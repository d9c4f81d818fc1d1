"""A stored backup on its way into a file."""

from __future__ import annotations

import asyncio
import contextlib
from typing import BinaryIO

from etcd_operator.backup.sink import Sink
from etcd_stateful.backup.integrity import Checked


async def save(sink: Sink, key: str, file: BinaryIO) -> Checked:
    """All of it, written and seen by the check; raises StoreFailed and OSError.

    Both are the work of threads, in which Python does not hold them up, while the next pieces come.
    """
    checked = Checked()
    async with contextlib.aclosing(sink.read(key)) as pieces:
        async for piece in pieces:
            await asyncio.gather(
                asyncio.to_thread(file.write, piece), asyncio.to_thread(checked.update, piece)
            )
    return checked
