"""Serves the progress of the backup to anyone who connects, as one line of JSON.

The operator asks now and then. The backup does not depend on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from etcd_stateful.backup.outcome import Progress, serialise_progress

log = logging.getLogger(__name__)


class Meter:
    """Counts the bytes that were read, and how fast."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._size = 0
        self._passed = 0

    def begin(self, size: int) -> None:
        self._since, self._size, self._passed = time.monotonic(), size, 0

    def add(self, count: int) -> None:
        self._passed += count

    def progress(self) -> Progress:
        seconds = max(time.monotonic() - self._since, 0.001)
        return Progress(self._passed, max(self._size, self._passed), int(self._passed / seconds))


@contextlib.asynccontextmanager
async def served(meter: Meter, port: int) -> AsyncIterator[None]:
    """Serves the progress on `port`. If the port is taken, the backup goes on without this."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(serialise_progress(meter.progress()).encode() + b"\n")
            await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, None, port)
    except OSError as error:
        log.warning("cannot listen on port %d, so the progress is not served: %s", port, error)
        yield
        return
    try:
        yield
    finally:
        server.close()
