"""Stale reads: one kind of read at a time returns what was true some calls ago.

The planner sees everything else as it is now. Its step then meets the preconditions of the shell:
if the object has changed since, the write is a conflict, and an irreversible step is decided again
from fresh reads before it is applied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.steps import Step, WriteBootstrap
from model.lives import Interruption, Life
from model.workloads import WORKLOADS
from model.world import steps_held, tables
from model.world.actions import carry_out
from model.world.seen import Planner, Visible, visible
from model.world.state import NONE, State
from model.world.world import Naming
from model.world.writes import is_write

READS: Final[dict[str, tuple[int, ...]]] = {
    "custom resource": (0, 1),
    "Secret": (2,),
    "StatefulSet": (3,),
    "Services": (4, 5),
    "claims": (6,),
    "pods and start": (7,),
    "statuses": (8,),
    "member list": (9, 10),
    "all of etcd": (8, 9, 10),
    "disruption budget": (12,),
    "Job": (13,),
    "all of Kubernetes": (0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13),
    "everything": tuple(range(14)),
}
"""For each read, the places in `visible` that it fills."""

_PLACES: Final[dict[object, int]] = {
    "secret": 2,
    "StatefulSet": 3,
    "Service": 4,
    "claim": 6,
    "pod": 7,
    "pod uid": 7,
    "PodDisruptionBudget": 12,
    "job": 13,
}
"""The place in `visible` of the object that a precondition refers to."""

AGES: Final = (1, 2, 3, 5, 8)
"""How many calls ago."""

NOTHING_DIFFERS: Final = "stale, nothing differs"
NO_WRITE: Final = "stale, no write"
"""The read was served, and the operator decided to write nothing."""
SAME: Final = "stale, same step"
OTHER: Final = "stale, other step"
REFUSED: Final = "stale, other step, refused"
"""Whether the write was that of a fresh read, and whether something kept it from being applied."""


def differs(calm: Life, call: int, read: str, age: int) -> bool:
    """Whether that read shows anything else than a fresh one. Until then all runs are alike."""
    old, now = calm.past[call - 1 - age], calm.past[call - 1]
    return not _same(visible(old), visible(now), READS[read])


def served(call: int, read: str, age: int) -> Interruption:
    """Before the call of that number, one decision is made on a stale read."""

    def interruption(life: Life, step: Step) -> bool:
        if life.writes != call:
            return False
        at = call - 1 - age
        old, now = visible(life.past[at]), visible(life.state)
        mixed = tuple(
            old[place] if place in READS[read] else now[place] for place in range(len(now))
        )
        return _decide(life, mixed, at, read)

    return interruption


def once_more(states: list[State], runs: list[int], read: str, at: int, planner: Planner) -> State:
    """Such a decision as a trace tells of it. `states` and `runs`: before each action."""
    life = Life(WORKLOADS[0], planner, states[-1], past=states[at:-1], runs=runs[at:-1])
    life.places = [0] * len(life.past)
    old, now = visible(states[at]), visible(states[-1])
    mixed = tuple(old[one] if one in READS[read] else now[one] for one in range(len(now)))
    _decide(life, mixed, 0, read)
    return life.state


def _same(old: Visible, now: Visible, places: tuple[int, ...]) -> bool:
    return all(old[place] == now[place] for place in places)


def _decide(life: Life, mixed: Visible, at: int, read: str) -> bool:
    """One pass of the operator on that view; never instead of the call itself."""
    step, fresh = life.planner.on(mixed), life.planner(life.state)
    if not is_write(step) or tables.specs[life.state.spec].cluster.paused:
        life.served = NO_WRITE  # docs/model.md: a pause is never seen late
        return False
    life.served = SAME if step == fresh else REFUSED
    if is_final(step) and step != fresh:
        return False
    held = _since(life, steps_held.hold(step), at, READS[read])
    if held == NONE:
        return False
    held_step = steps_held.step(held)
    life.actions.append(f"stale {life.places[at]} {read}")
    after = carry_out(life.state, held_step, late=True)
    if after is None:
        life.actions.pop()
        return False
    life.served = SAME if step == fresh else OTHER
    life.count(held_step)
    life.state = after
    return True


def _since(life: Life, held: int, at: int, places: tuple[int, ...]) -> int:
    """The step as it is good for now; NONE when what it goes by has changed since it was read."""
    states = [*life.past[at:], life.state]
    for guard in steps_held.guards(held):
        if _PLACES[guard[0]] in places and any(
            _part(one, guard) != _part(states[0], guard) for one in states[1:]
        ):
            return NONE
    if _PLACES["pod"] not in places:
        return held
    gone = {tables.run_of(ordinal) for ordinal in Naming.runs[life.runs[at] :]}
    step = steps_held.step(held)
    if isinstance(step, WriteBootstrap) and _PLACES["secret"] not in places:
        return steps_held.hold(_with_runs_gone(step, life.state, gone))
    for run in gone:
        held = steps_held.without_run(held, run) if held != NONE else NONE
    return held


def _with_runs_gone(step: WriteBootstrap, state: State, gone: set[str]) -> WriteBootstrap:
    """Only what it adds to the ledger comes from the stale read."""
    known = tables.bootstraps[state.secret].issued if state.secret != NONE else ()
    issued = tuple(
        (member, tables.GONE if run in gone and (member, run) not in known else run)
        for member, run in step.record.issued
    )
    return replace(step, record=replace(step.record, issued=issued))


def _part(state: State, guard: steps_held.Guard) -> object:
    match guard:
        case ("StatefulSet", _):
            return state.sts
        case ("PodDisruptionBudget", _):
            return state.budget
        case ("Service", name):
            return state.headless if name == tables.NAME else state.client
        case ("secret" | "job" as name,):
            return getattr(state, name)
        case ("claim", int(ordinal)):
            return state.claims[ordinal]
        case (_, int(ordinal)):
            return state.pods[ordinal]
    raise AssertionError(guard)
