"""Tracks how long pods have been missing although the StatefulSet controller could create them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from etcd_operator.kube.api import PODS, Key
from etcd_operator.kube.finder import Finder
from etcd_operator.objects import reading
from etcd_stateful import naming
from etcd_stateful.membership import stalled
from etcd_stateful.membership.observation import Observation
from etcd_stateful.metadata import annotations_of
from etcd_stateful.observed.objects import Foreign

FIRST_SECONDS: Final = 0.25
"""The first wait. A controller that is not backing off recreates a pod within milliseconds."""

PACE: Final = 4.0
"""The factor by which each wait is longer than the one before."""

LAST_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Stall:
    since: Mapping[str, float]
    """Since when each of the pods is missing."""

    touched: str
    """When the StatefulSet was last touched, by its annotation."""

    wait: float
    due: float
    namesakes: tuple[Foreign, ...] = ()
    """Looked up after each touch."""


class MissingPods:
    """The missing pods of each cluster. If this memory is lost, the first wait starts again."""

    def __init__(self, finder: Finder, clock: Callable[[], float]) -> None:
        self._finder = finder
        self._clock = clock
        self._stalls: dict[Key, _Stall] = {}

    async def onto(self, key: Key, base: Observation) -> Observation:
        """The observation, with `stalled` set once the StatefulSet should be touched."""
        names = stalled.missing(base)
        if not names:
            self.forget(key)
            return base
        now, stall = self._clock(), self._stalls.get(key)
        known = stall.since if stall else {}
        since = {name: known.get(name, now) for name in names}
        if stall is None or known.keys() != since.keys():
            stall = _Stall(since, _touched(base), FIRST_SECONDS, now + FIRST_SECONDS)
        elif stall.touched != _touched(base):
            wait, found = min(stall.wait * PACE, LAST_SECONDS), await self._namesakes(base, names)
            stall = _Stall(since, _touched(base), wait, now + wait, found)
        self._stalls[key] = stall
        return replace(
            base,
            stalled=now >= stall.due,
            missing={name: now - at for name, at in since.items()},
            namesakes=stall.namesakes,
        )

    async def _namesakes(self, base: Observation, names: Iterable[str]) -> tuple[Foreign, ...]:
        """Other pods of these names. One without our labels is not watched."""
        cluster, live = base.cluster, base.stateful_set
        found = await self._finder.find_all(PODS, cluster.namespace, names)
        others = (one for one in found if not reading.is_own_pod(cluster.name, one, live))
        return tuple(filter(None, (reading.foreign(cluster, "Pod", one) for one in others)))

    def next(self, key: Key) -> float:
        """Seconds until the StatefulSet may have to be touched; infinite if no pod is missing."""
        stall = self._stalls.get(key)
        return inf if stall is None else max(stall.due - self._clock(), 0.0)

    def forget(self, key: Key) -> None:
        self._stalls.pop(key, None)


def _touched(base: Observation) -> str:
    notes = annotations_of(base.stateful_set) if base.stateful_set else {}
    return str(notes.get(naming.TOUCHED, ""))
