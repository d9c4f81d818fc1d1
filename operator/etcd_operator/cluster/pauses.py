"""Which members were asked to defragment their databases a moment ago."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from etcd_operator.kube.api import Key
from etcd_stateful.membership.observation import Observation

PAUSE_SECONDS: Final = 600.0
"""Between two times of one member: it copies all that it holds, and serves nobody meanwhile."""

LONGEST_SECONDS: Final = 3600.0
"""What a pause that doubles each time comes to, where a member's file is soon as it was: the disk
is full, or clients fill it anew. A leader hands over each time."""


@dataclass(frozen=True, slots=True)
class _Asked:
    at: float
    pause: float

    @property
    def rested(self) -> float:
        return self.at + self.pause


class Pauses:
    """Of each cluster. It may be lost at any moment: then members may be asked again at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[Key, dict[str, _Asked]] = {}

    def begin(self, key: Key, member: str) -> None:
        """The member is asked now."""
        known = self._asked.setdefault(key, {})
        before = known.get(member)
        pause = min(2 * before.pause, LONGEST_SECONDS) if before else PAUSE_SECONDS
        known[member] = _Asked(self._clock(), pause)

    def onto(self, key: Key, base: Observation) -> Observation:
        now, known = self._clock(), self._asked.pop(key, {})
        kept = {name: one for name, one in known.items() if now < one.rested + LONGEST_SECONDS}
        if not kept:
            return base
        self._asked[key] = kept
        resting = frozenset(name for name, one in kept.items() if now < one.rested)
        return replace(base, defragmented=resting)

    def forget(self, key: Key) -> None:
        self._asked.pop(key, None)
