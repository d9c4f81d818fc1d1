"""Keeps a write that someone else undoes from being repeated at full speed.

Two controllers that disagree about a field would otherwise write as fast as the API server answers.
Each kind of write of a cluster may happen five times in a row; after that it earns one more every
ten seconds.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.membership.steps import ApplyChild, Write

BURST: Final = 5.0
SECONDS_PER_WRITE: Final = 10.0


class Brake:
    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, float]] = {}
        """By kind of write: what is spent of the burst, and as of when."""

    def pause(self, step: Write, now: float) -> float:
        """Seconds to wait before this write; 0 to go ahead, which is then counted."""
        name = _signature(step)
        spent, since = self._spent.get(name, (0.0, now))
        spent = max(0.0, spent - (now - since) / SECONDS_PER_WRITE)
        if spent > BURST - 1:
            return (spent - (BURST - 1)) * SECONDS_PER_WRITE
        self._forget(now)
        self._spent[name] = (spent + 1, now)
        return 0.0

    def _forget(self, now: float) -> None:
        rested = now - BURST * SECONDS_PER_WRITE
        self._spent = {name: mark for name, mark in self._spent.items() if mark[1] > rested}


def _signature(step: Write) -> str:
    if isinstance(step, ApplyChild):
        return f"{step.kind} {step.name}"
    return f"{type(step).__name__} {step.reason}"
