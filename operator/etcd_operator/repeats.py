"""Tells what was said a moment ago, so that the same log line or Event is not repeated all the
time."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class Repeats:
    """What was said within so many seconds, by a monotonic clock."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._said: dict[Hashable, float] = {}

    def is_new(self, what: Hashable) -> bool:
        """Whether this was not said lately; from now on it was."""
        now = self._clock()
        self._said = {one: at for one, at in self._said.items() if now - at < self._seconds}
        if what in self._said:
            return False
        self._said[what] = now
        return True
