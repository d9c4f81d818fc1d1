"""Ends a stream on which nothing comes any more: its other end hangs, or cannot be reached.

TCP alone would not tell for a quarter of an hour, and gRPC not at all: pings would need a thread
that reads while nobody wants anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

SILENT_SECONDS: Final = 20.0
"""For which a member or a store may say nothing, once it was asked or in the middle of its answer.
A third of the time that a backup has unless more is given: another member can still send it all."""

LOOK_SECONDS: Final = 1.0


class WithIdleTimeout:
    """The replies to a gRPC call, read by a thread, until none has come for some seconds.

    Only the time counts for which the thread waits for a reply, not what it does in between.
    """

    def __init__(self, call: Any, seconds: float) -> None:
        self._call = call
        self._seconds = seconds
        self._since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(min(seconds, LOOK_SECONDS), self._look)
        self.is_silent = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._since = time.monotonic()
        try:
            return next(self._call)
        finally:
            self._since = None

    def end(self) -> None:
        """Cancels the call, whatever it waits for. Not to be called by the thread that reads."""
        self._timer.cancel()
        self._call.cancel()

    def _look(self) -> None:
        since = self._since
        if since is not None and time.monotonic() - since >= self._seconds:
            self.is_silent = True
            self._call.cancel()
        else:
            again = min(self._seconds, LOOK_SECONDS)
            self._timer = self._loop.call_later(again, self._look)
