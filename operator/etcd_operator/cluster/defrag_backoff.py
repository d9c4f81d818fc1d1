"""Remembers which members were defragmented recently, and until when that is not repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from etcd_operator.kube.api import Key
from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation

PAUSE_SECONDS: Final = 600.0
"""The first pause between two defragmentations of a member, which copies all its data and does not
serve meanwhile."""

LONGEST_SECONDS: Final = 3600.0
"""The longest pause. It doubles each time that a member's file soon has its old size again, because
the disk is full or clients fill it again. A leader hands over its leadership each time."""


@dataclass(frozen=True, slots=True)
class _Asked:
    at: float
    pause: float
    in_use: int
    size: int = 0
    """The size of its file when the call timed out, while the result is unknown; else 0."""

    @property
    def rested(self) -> float:
        return self.at + self.pause


class DefragBackoff:
    """The pauses of each cluster's members. If this memory is lost, members may be defragmented
    again at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: dict[Key, dict[str, _Asked]] = {}

    def begin(self, key: Key, member: str, in_use: int) -> None:
        """Records that the member is asked now, with so many bytes of its file in use."""
        known = self._asked.setdefault(key, {})
        before = known.get(member)
        pause = min(2 * before.pause, LONGEST_SECONDS) if before else PAUSE_SECONDS
        known[member] = _Asked(self._clock(), pause, in_use)

    def unanswered(self, key: Key, member: str, seen: Observation) -> None:
        """Records that the call timed out. The member answers only once it has rewritten its
        file."""
        known, seat = self._asked.get(key, {}), roster.seat_named(seen, member)
        if member in known and seat and seat.status:
            known[member] = replace(known[member], size=seat.status.db_size)

    def ended(self, key: Key, seen: Observation) -> list[str]:
        """Members whose call timed out, and whose file is smaller by now. Each is returned once."""
        known = self._asked.get(key, {})
        found = [name for name, one in known.items() if _is_smaller(seen, name, one.size)]
        known.update({name: replace(known[name], size=0) for name in found})
        return found

    def onto(self, key: Key, base: Observation) -> Observation:
        now, known = self._clock(), self._asked.pop(key, {})
        kept = {name: one for name, one in known.items() if now < one.rested + LONGEST_SECONDS}
        if not kept:
            return base
        self._asked[key] = kept
        resting = {name: one.in_use for name, one in kept.items() if now < one.rested}
        return replace(base, defragmented=resting)

    def forget(self, key: Key) -> None:
        self._asked.pop(key, None)


def _is_smaller(seen: Observation, member: str, size: int) -> bool:
    seat = roster.seat_named(seen, member) if size else None
    return bool(seat and seat.status and seat.status.db_size < size)
