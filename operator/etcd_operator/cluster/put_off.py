"""Remembers which writes of children failed recently, so that other steps do not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from etcd_operator.kube.api import Key
from etcd_stateful.membership import put_off
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.put_off import Postponable
from etcd_stateful.observed.put_off import PutOff

RECENT_SECONDS: Final = 60.0
"""How long after a retry was due the same failure counts as a repetition and is not logged
again."""

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Until:
    put_off: PutOff
    due: float


class Postponed:
    """The writes of each cluster that are put off. If this memory is lost, they are retried at
    once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all: dict[Key, dict[Name, _Until]] = {}

    def begin(
        self, key: Key, step: Postponable, why: str, seconds: float, *, undone: bool = False
    ) -> bool:
        """Puts a write off, because it failed or others have undone it several times. Returns
        whether this is news."""
        mine, name = self._all.setdefault(key, {}), put_off.name_of(step)
        before = mine.get(name)
        known = before is not None and before.put_off.why == why and self._is_recent(before)
        mine[name] = _Until(PutOff(put_off.made_by(step), why, undone), self._clock() + seconds)
        return not known

    def begin_needed(self, key: Key, step: Postponable, why: str, seconds: float) -> None:
        """Notes that a write has failed which all else waits for. It is tried in each pass, unless
        there are users or roles to be changed."""
        found = PutOff(put_off.made_by(step), why)
        mine = self._all.setdefault(key, {})
        mine[put_off.name_if_needed(step)] = _Until(found, self._clock() + seconds)

    def knows(self, key: Key, step: Postponable) -> bool:
        """Whether the same write failed a moment ago."""
        before = self._all.get(key, {}).get(put_off.name_of(step))
        if before is None or not self._is_recent(before):
            return False
        return before.put_off.is_of(put_off.made_by(step))

    def _is_recent(self, one: _Until) -> bool:
        return self._clock() < one.due + RECENT_SECONDS

    def onto(self, key: Key, base: Observation) -> Observation:
        now, mine = self._clock(), self._all.get(key, {})
        found = {name: one.put_off for name, one in mine.items() if one.due > now}
        return replace(base, put_off=found) if found else base

    def next(self, key: Key) -> float:
        """Seconds until the next of the cluster's writes is retried; infinite if there is none."""
        now = self._clock()
        waits = (one.due - now for one in self._all.get(key, {}).values() if one.due > now)
        return min(waits, default=inf)

    def forget(self, key: Key) -> None:
        self._all.pop(key, None)
