"""Pieces that a thread reads, one ahead of whoever takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


async def read_ahead(
    pieces: Iterator[bytes], stop: Callable[[], object]
) -> AsyncGenerator[bytes, None]:
    """While one is hashed and sent, the next is received; whoever is slower waits for the other.

    Args:
        pieces: may block.
        stop: makes it end soon, called from another thread, and at the end in any case.
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
