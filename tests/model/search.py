"""Breadth-first search through all states, until there are no new ones.

What counts is the state of the world, and not the way to it: a state that is reached again is only
explored again if more faults, edits or late steps are left than before.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from etcd_stateful.membership.steps import Step
from model.trace import Trace
from model.world import faults, faults_of_others
from model.world.actions import (
    LONGEST,
    act,
    checked,
    edit,
    forward,
    hold,
    late,
    recover,
    went_round,
)
from model.world.goal import rests_well
from model.world.identity import identity
from model.world.moves import Broken, candidates, elect, next_move
from model.world.seen import Planner
from model.world.state import NONE, UNREADABLE, State

Left = tuple[int, int, int]
"""Faults, edits and late steps that may still come."""


@dataclass(frozen=True)
class Scenario:
    """The initial state of a search, and what may happen.

    `faults`: by name, each with the ordinals that it may hit. `eager`: the world stands still while
    the operator has something to write; other scenarios cover a slow operator.
    """

    name: str
    width: int
    spec: dict[str, object]
    before: tuple[str, ...] = ()
    faults: tuple[tuple[str, tuple[int, ...]], ...] = ()
    edits: tuple[str, ...] = ()
    left: Left = (0, 0, 0)
    eager: bool = False
    elections: bool = True


@dataclass
class Report:
    states: int = 0
    nodes: int = 0
    edges: int = 0
    longest: int = 0
    """Steps from the worst state to rest."""
    seconds: float = 0.0
    """CPU seconds."""
    rests: dict[str, int] = field(default_factory=dict)
    failures: list[Trace] = field(default_factory=list)
    closed: bool = False


class Search:
    def __init__(self, scenario: Scenario, planner: Planner, *, failures: int = 3) -> None:
        self._scenario = scenario
        self._planner = planner
        self._most_failures = failures
        self._parents: dict[int, tuple[int, str]] = {}
        self._left: dict[int, tuple[Left, ...]] = {}
        self._distance: dict[int, int] = {}
        self._restless: dict[int, str] = {}
        self._said: set[str] = set()
        self.identities = array("q")
        """Of the states, as `identity` tells them apart: the same in every search and process."""
        self.report = Report()

    @property
    def reached(self) -> set[int]:
        """Hashes of the states, including their pending late steps."""
        return set(self._left)

    def run(self, begin: State, *, limit: int = 0) -> Report:
        """Searches until nothing is left, or until there are `limit` states."""
        began, report = time.process_time(), self.report
        levels: list[deque[tuple[State, Left]]] = [deque() for _ in range(32)]
        self._reach(begin, self._scenario.left, levels, None, "")
        for level in levels:
            while level:
                state, left = level.popleft()
                if left not in self._left[hash(state)]:
                    continue  # It was reached again meanwhile, with more left.
                report.nodes += 1
                self._expand(state, left, levels)
                if len(report.failures) >= self._most_failures or (
                    limit and len(self._left) >= limit
                ):
                    return self._ended(began, closed=False)
        return self._ended(began, closed=True)

    def _ended(self, began: float, *, closed: bool) -> Report:
        self.report.states, self.report.closed = len(self._left), closed
        self.report.seconds = round(time.process_time() - began, 1)
        return self.report

    def _expand(self, state: State, left: Left, levels: list[deque[tuple[State, Left]]]) -> None:
        key = hash(state)
        for action, cost, happens in self._choices(state, left):
            after, then = None, ""
            try:
                after = happens()
                if after is not None:
                    then = "rest"
                    self._rests(after)
            except Broken as broken:
                self._fail(key, action, then, str(broken))
                continue
            if after is not None:
                self.report.edges += 1
                rest = (left[0] - cost[0], left[1] - cost[1], left[2] - cost[2])
                self._reach(after, rest, levels, key, action)

    def _reach(
        self,
        state: State,
        left: Left,
        levels: list[deque[tuple[State, Left]]],
        parent: int | None,
        action: str,
    ) -> None:
        key = hash(state)
        known = self._left.get(key)
        if known is None:
            self._left[key] = (left,)
            self.identities.append(identity(state))
            if parent is not None:
                self._parents[key] = (parent, action)
        else:
            if any(_covers(one, left) for one in known):
                return
            self._left[key] = (*(one for one in known if not _covers(left, one)), left)
        spent = sum(self._scenario.left) - sum(left)
        levels[spent].append((state, left))

    def _choices(
        self, state: State, left: Left
    ) -> Iterator[tuple[str, Left, Callable[[], State | None]]]:
        planner, given, free = self._planner, self._scenario, (0, 0, 0)
        acted = [False]

        def operator() -> State | None:
            after = act(state, planner)
            acted[0] = after is not None
            return after

        yield "operator", free, operator
        if not (given.eager and acted[0]):
            yield "world", free, lambda: checked(next_move(state))
            if given.elections and len(able := candidates(state)) > 1:
                last = able[-1]
                yield f"elect {last.ordinal}", free, lambda: checked(elect(state, last))
        if left[2]:
            yield "hold", (0, 0, 1), lambda: hold(state, planner)
        if state.pending != NONE:
            yield "late", free, lambda: late(state, planner)
        yield from self._faults(state, left)
        if left[1]:
            for fields in given.edits:
                yield self._edit(state, fields)

    def _edit(self, state: State, fields: str) -> tuple[str, Left, Callable[[], State | None]]:
        """Of the spec; or a human's word for a recovery, as `actions` reads it."""
        words, planner = fields.partition("recover ")[2], self._planner
        if words:
            return fields, (0, 1, 0), lambda: recover(state, words, planner)
        return f"edit {fields}", (0, 1, 0), lambda: edit(state, fields)

    def _faults(
        self, state: State, left: Left
    ) -> Iterator[tuple[str, Left, Callable[[], State | None]]]:
        hit = [(name, at, (1, 0, 0)) for name, ordinals in self._scenario.faults for at in ordinals]
        ends = [(name, at, (0, 0, 0)) for name, at in _ends(state)]
        for name, at, cost in (hit if left[0] else []) + ends:
            yield (
                f"fault {name} {at}",
                cost,
                lambda n=name, o=at: checked(faults.happen(state, n, o)),
            )

    # Rest.

    def _rests(self, state: State) -> None:
        """Walks on without faults until a state whose distance is known. Raises Broken."""
        walked: dict[int, State] = {}
        try:
            known = self._walk(state._replace(pending=NONE), walked)
        except Broken as broken:
            self._restless.update(dict.fromkeys(walked, str(broken)))
            raise
        for steps, key in enumerate(reversed(walked), known + 1):
            self._distance[key] = steps
            self.report.longest = max(self.report.longest, steps)

    def _walk(self, state: State, walked: dict[int, State]) -> int:
        """The distance from rest of the last state that was walked, less one."""
        while True:
            key = hash(state)
            if (known := self._distance.get(key)) is not None:
                return known
            if words := self._restless.get(key):
                raise Broken(words)
            if key in walked:
                keys = list(walked)
                round_ = keys[keys.index(key) :]
                went_round([walked[one] for one in round_], self._planner)
                self.report.rests["round"] = self.report.rests.get("round", 0) + 1
                return -1
            walked[key] = state
            if len(walked) > LONGEST:
                raise Broken(f"rest: not within {LONGEST} steps; now {self._planner(state)}")
            after = forward(state, self._planner)
            if after is None:
                self._rested(state, self._planner(state))
                return -1
            state = after

    def _rested(self, state: State, step: Step) -> None:
        if words := rests_well(state, step):
            raise Broken(f"rest: {words}")
        kind = getattr(step, "reason", "") if type(step).__name__ == "Hold" else ""
        name = f"{type(step).__name__} {kind}".strip()
        self.report.rests[name] = self.report.rests.get(name, 0) + 1

    # Failures.

    def _fail(self, key: int, action: str, then: str, words: str) -> None:
        gist = "".join(one for one in words.partition("(")[0] if not one.isdigit())[:200]
        if gist in self._said:
            return
        self._said.add(gist)
        actions = [*self._path(key), action, *([then] if then else [])]
        given = self._scenario
        trace = Trace(given.width, given.spec, [*given.before, *actions], words)
        self.report.failures.append(trace)

    def _path(self, key: int) -> list[str]:
        actions: list[str] = []
        while key in self._parents:
            key, action = self._parents[key]
            actions.append(action)
        return actions[::-1]


def _covers(one: Left, other: Left) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] >= other[2]


def _ends(state: State) -> Iterator[tuple[str, int]]:
    """Passing faults that may end now."""
    if state.cut:
        yield "reconnected", 0
    if faults_of_others.passing(state):
        yield "others_gone", 0
    for ordinal, claim in enumerate(state.claims):
        if state.slow >> ordinal & 1:
            yield "scheduled", ordinal
        if state.away >> ordinal & 1:
            yield "node_answers", ordinal
        if claim is not None and claim.hidden:
            yield "right_mount", ordinal
        if claim is not None and claim.content and claim.content.harm == UNREADABLE:
            yield "readable", ordinal
