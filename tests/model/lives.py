"""Runs a workload to its end, and counts the operator's creates, deletes and membership changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from etcd_stateful.membership import steps
from etcd_stateful.membership.steps import Step
from model.trace import Trace
from model.workloads import Workload
from model.world import tables
from model.world.actions import LONGEST, beginning, perform, to_rest
from model.world.goal import rests_well
from model.world.moves import Broken
from model.world.seen import Planner
from model.world.state import State, member_at
from model.world.world import Naming
from model.world.writes import is_write

COUNTED = (
    steps.CreateJob,
    steps.CreateSecret,
    steps.DeleteClaim,
    steps.DeleteJob,
    steps.DeletePod,
    steps.MemberAddLearner,
    steps.MemberPromote,
    steps.MemberRemove,
    steps.PushTicket,
)
"""Steps whose number must be the same in every run of a workload."""

Interruption = Callable[["Life", Step], bool]
"""Called before each write; returns True if it has done the write itself."""


@dataclass
class Life:
    """A run of a workload."""

    workload: Workload
    planner: Planner
    state: State
    actions: list[str] = field(default_factory=list)
    past: list[State] = field(default_factory=list)
    """The states in which the operator decided on a write."""
    runs: list[int] = field(default_factory=list)
    """For each of those states, the number of runs of `start` before it."""
    places: list[int] = field(default_factory=list)
    """For each of those states, the number of actions before it."""
    counts: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    """Writes of each kind since the last event."""
    served: str = ""
    """What came of a stale read, as `stale` puts it."""

    @property
    def writes(self) -> int:
        return len(self.past)

    def do(self, action: str) -> bool:
        """Performs the action; returns whether it changed anything. Raises Broken."""
        self.actions.append(action)
        after = perform(self.state, action, self.planner)
        if after is None:
            self.actions.pop()
            return False
        if action == "operator":
            self.count(self.planner(self.state))
        self.state = after
        return True

    def count(self, step: Step) -> None:
        self.done[type(step).__name__] += 1
        if isinstance(step, steps.DeletePod) and not self._is_members(step.name):
            return  # Whether this pod has to be deleted depends on timing.
        if isinstance(step, COUNTED):
            self.counts[type(step).__name__] += 1
        if isinstance(step, steps.ApplyChild) and "resourceVersion" not in str(step.manifest):
            self.counts[f"create {step.kind} {step.name}"] += 1

    def _is_members(self, name: str) -> bool:
        return member_at(self.state, tables.ordinal_of(name)) is not None

    def trace(self, words: str, *more: str) -> Trace:
        return Trace(self.workload.width, self.workload.spec, [*self.actions, *more], words)


def begin(workload: Workload, planner: Planner) -> Life:
    Naming.runs.clear()
    state = beginning(workload.width, **workload.spec)
    life = Life(workload, planner, state)
    if workload.settled:
        life.actions.append("rest")
        life.state = to_rest(state, planner)
    return life


def live(workload: Workload, planner: Planner, interrupt: Interruption | None = None) -> Life:
    """Runs the whole workload until the cluster is at rest. Raises Broken."""
    life = begin(workload, planner)
    for wait, action in workload.events:
        _go_on(life, interrupt, wait)
        if wait:
            world_goes_on(life)  # So that the action comes at the same point in each run.
        life.do(action)
        life.done.clear()
    _go_on(life, interrupt, "")
    if words := rests_well(life.state, planner(life.state)):
        raise Broken(f"rest: {words}")
    return life


def _go_on(life: Life, interrupt: Interruption | None, until: str) -> None:
    """Continues until there were so many writes of a kind, or else until the cluster is at rest."""
    number, _, kind = until.partition(" ")
    for _ in range(3 * LONGEST):
        if until and life.done[kind] >= int(number):
            return
        step = life.planner(life.state)
        if is_write(step):
            before = life.state
            life.past.append(before)
            life.runs.append(len(Naming.runs))
            life.places.append(len(life.actions))
            if (interrupt and interrupt(life, step)) or life.do("operator"):
                continue
            life.past.pop()
            life.runs.pop()
            life.places.pop()
        if not life.do("world") and not life.do("heal"):
            return
    raise Broken(f"rest: not within {3 * LONGEST} steps; now {life.planner(life.state)}")


def world_goes_on(life: Life) -> None:
    """Lets the world move without the operator, until nothing moves any more."""
    while life.do("world"):
        pass


def unlike(one: Life, other: Life) -> str:
    """How the ends of two runs differ; empty if they are the same. The leader may differ."""
    if one.counts != other.counts:
        less, more = one.counts - other.counts, other.counts - one.counts
        return f"counts: {dict(less)} less, {dict(more)} more"
    if _end(one.state) != _end(other.state):
        return f"the end state differs: {_end(one.state)} and {_end(other.state)}"
    return ""


def _end(state: State) -> tuple[object, ...]:
    """The visible end state, without IDs that depend on chance."""
    members = state.etcd.members if state.etcd else ()
    listed = tuple((one.ordinal, one.learner, one.started) for one in members)
    pods = tuple(pod and (pod.where, pod.template, pod.deleting) for pod in state.pods)
    claims = tuple(
        claim and (claim.record is not None, claim.deleting, claim.content is not None)
        for claim in state.claims
    )
    return (
        state.spec,
        state.told,
        state.sts,
        state.headless,
        state.client,
        state.budget,
        listed,
        pods,
        claims,
    )
