"""A trace: the actions that led to a broken rule, in a file that can be replayed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from model.world.actions import beginning, perform
from model.world.moves import Broken
from model.world.seen import Planner
from model.world.state import State
from model.world.world import Naming

FOLDER = Path(__file__).parents[2] / "build" / "model"


@dataclass(frozen=True)
class Trace:
    width: int
    spec: dict[str, Any]
    actions: list[str]
    broken: str = ""
    notes: list[str] = field(default_factory=list)

    def write(self, folder: Path = FOLDER) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1)
        path = folder / f"trace-{hashlib.sha256(text.encode()).hexdigest()[:10]}.json"
        path.write_text(text + "\n")
        return path


def read(path: Path) -> Trace:
    return Trace(**json.loads(path.read_text()))


def replay(trace: Trace, planner: Planner | None = None) -> State:
    """The last state of the trace. Raises Broken if it breaks a rule."""
    return list(retold(trace, planner or Planner()))[-1]


def retold(trace: Trace, planner: Planner) -> Iterator[State]:
    """The first state, and the state after each action. Raises Broken."""
    stale = [one for one in trace.actions if one.startswith("stale")]
    Naming.canonical = not stale  # Old steps use the old names of members.
    Naming.runs.clear()
    states, runs = [beginning(trace.width, **trace.spec)], [0]
    try:
        yield states[0]
        for action in trace.actions:
            states.append(_after(states, runs, action, planner))
            runs.append(len(Naming.runs))
            yield states[-1]
    finally:
        Naming.canonical = True


def _after(states: list[State], runs: list[int], action: str, planner: Planner) -> State:
    if action.startswith("stale"):
        from model.stale import once_more

        _, at, read = action.split(" ", 2)
        return once_more(states, runs, read, int(at), planner)
    return perform(states[-1], action, planner) or states[-1]


def still_breaks(trace: Trace) -> str:
    try:
        replay(trace)
    except Broken as broken:
        return str(broken)
    return ""


def shortened(trace: Trace, *, tries: int = 400) -> Trace:
    """The trace without actions that are not needed to break the same rule."""
    rule, actions = trace.broken.partition(":")[0], list(trace.actions)
    at = len(actions) - 1
    while at >= 0 and tries > 0:
        shorter = Trace(trace.width, trace.spec, actions[:at] + actions[at + 1 :])
        words, tries = still_breaks(shorter), tries - 1
        if words.partition(":")[0] == rule and rule:
            actions = shorter.actions
        at -= 1
    words = still_breaks(Trace(trace.width, trace.spec, actions))
    return Trace(trace.width, trace.spec, actions, words)
