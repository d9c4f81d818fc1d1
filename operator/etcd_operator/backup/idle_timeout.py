"""Ends a stream whose other end hangs or cannot be reached any more.

TCP alone would notice only after a quarter of an hour, and gRPC not at all: its pings would need a
thread that reads even while no data is wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

SILENT_SECONDS: Final = 20.0
"""How long a member or a store may be silent, after a request or in the middle of its answer. This
is a third of the default time for a backup, so that another member can still send it all."""

LOOK_SECONDS: Final = 1.0


class WithIdleTimeout:
    """Iterates over the replies of a gRPC call, which is cancelled if none comes for some seconds.

    A thread reads the replies. Only the time for which it waits for one counts, not the time that
    it spends in between.
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
        """Cancels the call, even while a read waits. The thread that reads must not call this."""
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
