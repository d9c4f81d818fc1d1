"""Limits how often a write is repeated that someone else keeps undoing.

Two controllers that disagree about a field would otherwise write as fast as the API server answers.
Each write of a cluster may happen five times in a row, and after that once every ten seconds. Two
writes are the same if they would have the same effect on the same object. A cluster that grows by
four members makes many writes of one kind, but none of them twice.
"""

from __future__ import annotations

import json
from typing import Final

from etcd_stateful.membership.steps import ApplyChild, MemberAddLearner, Write

BURST: Final = 5.0
SECONDS_PER_WRITE: Final = 10.0


class RateLimit:
    """A token bucket for each write: a step of one cluster, or any other by a name of its own."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, float]] = {}
        """For each write: how much of the burst is used up, and when that was computed."""

    def pause(self, step: Write | str, now: float) -> float:
        """Seconds to wait before this write; 0 to go ahead."""
        return max(0.0, (self._left(step, now) - (BURST - 1)) * SECONDS_PER_WRITE)

    def happened(self, step: Write | str, now: float) -> None:
        """Counts a write that succeeded. Nobody can undo one that was refused or outdated."""
        spent = self._left(step, now) + 1
        rested = now - BURST * SECONDS_PER_WRITE
        self._spent = {name: mark for name, mark in self._spent.items() if mark[1] > rested}
        self._spent[_signature(step)] = (spent, now)

    def _left(self, step: Write | str, now: float) -> float:
        spent, since = self._spent.get(_signature(step), (0.0, now))
        return max(0.0, spent - (now - since) / SECONDS_PER_WRITE)


def _signature(step: Write | str) -> str:
    match step:
        case str():
            return step
        case ApplyChild():
            return f"{step.kind} {step.name} {_content(step)}"
        case MemberAddLearner():
            return step.peer_url  # the same member added again has a new ID, but the same peer URL
        case _:
            return f"{type(step).__name__} {getattr(step, 'name', '')} {step.reason}"


def _content(step: ApplyChild) -> int:
    """A hash of the manifest without the resourceVersion that it is applied to."""
    metadata = dict(step.manifest["metadata"])
    metadata.pop("resourceVersion", None)
    return hash(json.dumps({**step.manifest, "metadata": metadata}, sort_keys=True))
