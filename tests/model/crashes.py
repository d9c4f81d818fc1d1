"""Interrupts the operator at every single call of every workload.

- `before`: it is killed before the call. The world goes on without it, and another one starts.
- `after`: it is killed after the call.
- `lost`: the call takes effect, but its answer is lost. It is sent again, from the same old view.
- `twice`: a second operator decided on the same step at that moment, and applies it before each
  later call.
- `stale`: one read returns what was true some calls ago, and is something else now. It counts as a
  plan if the operator decides on a write.

Every run must end as the undisturbed run does, with the same number of creates, deletes and changes
of the membership. The one exception: a stale report of a run of `start` may cost one replacement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from etcd_stateful.membership.steps import Step
from model import stale
from model.lives import Interruption, Life, live, unlike, world_goes_on
from model.trace import Trace
from model.workloads import Workload
from model.world.moves import Broken
from model.world.seen import Planner
from model.world.world import Naming


@dataclass
class Outcome:
    plans: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    """What is no plan: stale reads of what has not changed, and those that lead to no write."""
    failures: list[Trace] = field(default_factory=list)
    replaced_again: int = 0
    """Runs that were unlike the undisturbed one, and excused: see `_once_more`."""

    def add(self, kind: str) -> None:
        (self.idle if kind in (stale.NOTHING_DIFFERS, stale.NO_WRITE) else self.plans)[kind] += 1


def campaign(workload: Workload, planner: Planner, *, thorough: bool = True) -> Outcome:
    """Runs one workload once for each way to interrupt it."""
    outcome = Outcome()
    Naming.canonical = False
    try:
        calm = _calm(workload, planner, outcome)
        if calm is None:
            return outcome
        for kind, interruption in _plans(calm, thorough=thorough):
            if interruption is None:
                outcome.add(kind)
            else:
                _try(workload, planner, calm, kind, interruption, outcome)
    finally:
        Naming.canonical = True
    return outcome


def _calm(workload: Workload, planner: Planner, outcome: Outcome) -> Life | None:
    """The undisturbed run; None if it fails, which is recorded."""
    kept: list[Life] = []

    def keep(life: Life, _step: Step) -> bool:
        kept[:] = [life]
        return False

    try:
        return live(workload, planner, keep)
    except Broken as broken:
        if kept:
            outcome.failures.append(kept[0].trace(f"undisturbed: {broken}", "rest"))
        return None


def _try(
    workload: Workload,
    planner: Planner,
    calm: Life,
    kind: str,
    interruption: Interruption,
    outcome: Outcome,
) -> None:
    kept: list[Life] = []

    def interrupted(life: Life, step: Step) -> bool:
        kept[:] = [life]
        return interruption(life, step)

    try:
        words = _wrong(kind, calm, live(workload, planner, interrupted), outcome)
    except Broken as broken:
        words = f"{broken} [{kind}]"
    outcome.add(kept[0].served or kind)
    if words:
        outcome.failures.append(kept[0].trace(words))


def _wrong(kind: str, calm: Life, life: Life, outcome: Outcome) -> str:
    words = unlike(calm, life)
    if words and kind == "stale" and _once_more(calm, life):
        outcome.replaced_again += 1
        return ""
    return f"{kind}: {words}" if words else ""


def _once_more(calm: Life, life: Life) -> bool:
    """Whether one member was replaced, because its ticket was recorded for a run of `start` that
    was over by then."""
    more = life.counts - calm.counts
    return more == Counter(MemberAddLearner=1, MemberRemove=1) and not calm.counts - life.counts


def _plans(calm: Life, *, thorough: bool) -> Iterator[tuple[str, Interruption | None]]:
    """The interruptions by kind; None where one would be none."""
    calls = range(1, calm.writes + 1)
    for call in calls:
        yield "before", _at(call, _before)
        yield "after", _at(call, _after)
        yield "lost", _at(call, _lost)
        yield "before, soon back", _at(call, _soon)
    for call in calls:
        for later in calls[call:] if thorough else calls[call : call + 1]:
            yield "twice", _twice(call, later)
    for call in calls:
        for read in stale.READS:
            for age in stale.AGES if thorough else stale.AGES[:1]:
                if age < call and stale.differs(calm, call, read, age):
                    yield "stale", stale.served(call, read, age)
                elif age < call:
                    yield stale.NOTHING_DIFFERS, None


def _at(call: int, then: Callable[[Life], bool]) -> Interruption:
    return lambda life, _step: life.writes == call and then(life)


def _before(life: Life) -> bool:
    world_goes_on(life)
    return False


def _soon(life: Life) -> bool:
    """Another operator takes over after a moment."""
    life.do("world")
    return False


def _after(life: Life) -> bool:
    done = life.do("operator")
    world_goes_on(life)
    return done


def _lost(life: Life) -> bool:
    life.do("hold")
    done = life.do("operator")
    life.do("late")
    return done


def _twice(call: int, later: int) -> Interruption:
    """The old one holds the step of `call` and applies it before that of `later`."""

    def interruption(life: Life, step: Step) -> bool:
        if life.writes == call:
            life.do("hold")
        if life.writes == later:
            life.do("late")
        return False

    return interruption
