"""Random walks around a recovery.

No order of events breaks a rule, and each walk ends with the cluster as declared, or with a
message. `recovery_world` checks every write against the rules.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest
from recovery_world import RecoveryWorld, formed
from worlds import Conflict, drive, is_write

from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait

WALKS = 200
EVENTS = 40
REASONS = {
    "ClaimDeleted",
    "ForeignData",
    "LastMember",
    "QuorumLost",
    "RecoveryFailed",
    "RecoveryNotNeeded",
    "RecoveryRefused",
}


class Day:
    """One cluster, and everything that may happen to it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world: RecoveryWorld = formed(self.chance.choice((1, 2, 3, 3, 5)))
        self.late: list[Step] = []
        """Writes that an operator has decided on before it lost its lease."""

    def events(self) -> list[Callable[[], None]]:
        return [
            *(self.operate,) * 8,
            *(self.world.turn,) * 6,
            self.write_late,
            self.stop_before_the_write,
            self.ask,
            self.ask,
            self.ask_for_the_next,
            self.take_back,
            self.lose_volumes,
            self.lose_secret,
            self.lose_job,
            self.stop_job,
            self.be_silent,
            self.delay_pods,
            self.delay_pods,
            self.resize,
        ]

    def operate(self) -> None:
        step = decide(self.world.observe())
        if is_write(step):
            self.world.apply(step)

    def stop_before_the_write(self) -> None:
        step = decide(self.world.observe())
        if is_write(step) and not is_final(step):
            self.late.append(step)

    def write_late(self) -> None:
        """Irreversible steps would be decided again."""
        if self.late and self.world.secret is not None:
            step = self.late.pop(self.chance.randrange(len(self.late)))
            with contextlib.suppress(Conflict):
                self.world.apply(step)

    def ordinal(self) -> int:
        return self.chance.randrange(self.world.cluster.size)

    def ask(self) -> None:
        if self.world.secret is not None:
            self.world.ask(self.ordinal())

    def ask_for_the_next(self) -> None:
        if self.world.secret is not None:
            self.world.ask(self.ordinal(), epoch=self.world.record.epoch + 1)

    def take_back(self) -> None:
        if "recovery" in self.world.body["spec"]:
            self.world.take_back()

    def lose_volumes(self) -> None:
        there = [one for one in self.world.claims if one in self.world.pods]
        for ordinal in self.chance.sample(there, min(len(there), 2)):
            self.world.wipe(ordinal)

    def lose_secret(self) -> None:
        if self.world.record.latched if self.world.secret else False:
            self.world.secret = None

    def lose_job(self) -> None:
        self.world.job = None

    def stop_job(self) -> None:
        self.world.job_runs = not self.world.job_runs

    def be_silent(self) -> None:
        for pod in self.world.pods.values():
            pod.silent = self.chance.random() < 0.3

    def delay_pods(self) -> None:
        """Some cannot be made for a while: their volumes stay as they are. Others come back."""
        delays = self.chance.random() < 0.5
        self.world.stuck = {one for one in self.world.pods if delays and self.chance.random() < 0.6}
        for ordinal in self.world.stuck:
            self.world.restart_pod(ordinal)

    def resize(self) -> None:
        self.world.edit(size=self.chance.choice((1, 3, 5)))

    def calm_down(self) -> None:
        self.world.job_runs, self.world.stuck = True, set()
        for pod in self.world.pods.values():
            pod.silent = False


@pytest.mark.parametrize("seed", range(WALKS))
def test_no_walk_breaks_a_rule_and_each_ends_with_a_reason(seed: int) -> None:
    day = Day(seed)
    for _ in range(EVENTS):
        day.chance.choice(day.events())()
    day.calm_down()

    rest = drive(day.world)

    if isinstance(rest, Hold):
        assert rest.reason in REASONS, rest
    elif isinstance(rest, Wait):
        assert "quorum" in rest.reason or "to serve" in rest.reason, rest
    else:
        assert rest == Settled()
    held = day.world.record
    assert not held.survivor or isinstance(rest, Hold)
