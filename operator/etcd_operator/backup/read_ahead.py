"""Reads pieces in a thread, one ahead of the consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


async def read_ahead(
    pieces: Iterator[bytes], stop: Callable[[], object]
) -> AsyncGenerator[bytes, None]:
    """Yields the pieces. While one is hashed and sent, the next is received.

    Args:
        pieces: reading one may block.
        stop: makes a read that blocks end soon. It is called from another thread, and always once
            at the end.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as thread:
        coming = loop.run_in_executor(thread, next, pieces, None)
        try:
            while (piece := await coming) is not None:
                coming = loop.run_in_executor(thread, next, pieces, None)
                yield piece
        finally:
            stop()
            await asyncio.gather(coming, return_exceptions=True)
