"""Random walks: no order of events breaks a rule, and no state goes unreported.

There are two operators with views of any age, pods and claims that come and go, a Secret and a
StatefulSet that vanish, and specs that are edited half-way. `worlds` checks every write against the
rules. Once the faults are over, the cluster must come to rest and report what it waits for. A write
that repeats for good shows as a walk that never rests.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable

import pytest
from walking import Walking
from worlds import World, body, drive

from etcd_stateful.membership.beginning import ledger
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait

WAITS = re.compile("a quorum|its volume cannot be read|to serve, so that")
"""What a cluster may wait for for good, when all faults but lost volumes are over."""

WALKS = 110
EVENTS = 60


class Walk(Walking[World]):
    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        storage = {"pod": {"emptyDir": {}}} if seed % 3 == 0 else {}
        super().__init__(chance, World(body(chance.choice([1, 2, 3, 3, 5]), **storage)))

    def run(self) -> None:
        for _ in range(EVENTS):
            (event,) = self.chance.choices(list(LIKELY), weights=list(LIKELY.values()))
            event(self)

    def container_restarts_on_an_emptied_volume(self) -> None:
        if (ordinal := self._one(self.world.claims)) and ordinal - 1 in self.world.pods:
            self.world.claims[ordinal - 1].data = None
            if self.world.pods[ordinal - 1].where == "etcd":
                self.world.run_start(ordinal - 1)

    def log_is_damaged(self) -> None:
        if (ordinal := self._one(self.world.claims)) and self.world.data(ordinal - 1):
            self.world.claims[ordinal - 1].damaged = "cut short"

    def member_is_removed_by_hand(self) -> None:
        etcd = self.world.etcd
        if etcd and len(etcd.voters) > 2 and not self.world.cut_off:
            etcd.remove(self.chance.choice(sorted(etcd.members)))

    def template_is_edited(self) -> None:
        storage = {"emptyDir": {}} if not self.world.cluster.durable else {}
        self.world.edit(pod=storage | {"labels": {"n": str(self.chance.randrange(9))}})

    def secret_is_lost(self) -> None:
        """Never together with the StatefulSet: then nothing would tell the version."""
        self.status()
        if self.has("StatefulSet", "c"):
            self.world.lose_secret()

    def service_is_altered(self) -> None:
        name = self.chance.choice(["c", "c-client"])
        if self.has("Service", name):
            self.world.alter("Service", name)["spec"]["selector"]["x"] = "y"

    def size_is_edited(self) -> None:
        self.world.edit(size=self.chance.randint(1, 7))

    def pause(self) -> None:
        self.world.edit(paused=self.chance.random() < 0.5)

    def network(self) -> None:
        self.world.cut_off = self.chance.random() < 0.5

    def _one(self, ordinals: dict[int, object]) -> int:
        """An ordinal plus one; 0 if there is none."""
        return self.chance.choice(sorted(ordinals)) + 1 if ordinals else 0


LIKELY: dict[Callable[[Walk], None], float] = {
    Walk.operator: 40,
    Walk.turn: 20,
    Walk.status: 3,
    Walk.pod_dies: 3,
    Walk.container_restarts_on_an_emptied_volume: 0.4,
    Walk.volume_is_lost: 0.6,
    Walk.claim_is_deleted_under_a_pod: 0.5,
    Walk.secret_is_lost: 0.5,
    Walk.stateful_set_is_deleted: 1,
    Walk.stateful_set_is_scaled: 1,
    Walk.service_is_altered: 1,
    Walk.size_is_edited: 0.7,
    Walk.version_is_edited: 0.7,
    Walk.log_is_damaged: 0.3,
    Walk.member_is_removed_by_hand: 0.3,
    Walk.etcd_hangs: 1,
    Walk.disk_hangs: 1,
    Walk.volume_differs: 0.3,
    Walk.template_is_edited: 0.7,
    Walk.pause: 1,
    Walk.network: 2,
    Walk.scheduling: 2,
}
"""The events of a walk, with their relative frequency."""


@functools.cache
def end_of(seed: int) -> tuple[World, Step]:
    """The world at rest after a walk, when its faults are over, and the step at which it rests."""
    walk = Walk(seed)
    walk.run()
    walk.world.cut_off, walk.world.stuck = False, set()
    for pod in walk.world.pods.values():
        pod.silent, pod.hangs = False, None
    walk.world.edit(paused=False)
    return walk.world, drive(walk.world, idle=35, limit=600)


@pytest.mark.parametrize("seed", range(WALKS))
def test_no_walk_breaks_a_rule_and_each_comes_to_rest_with_a_reason(seed: int) -> None:
    world, rest = end_of(seed)

    if isinstance(rest, Settled):
        seen = world.observe()
        assert all(seen.pod(one).ready for one in range(seen.cluster.size))
    elif isinstance(rest, Hold):
        assert rest.reason.isidentifier()
        assert len(rest.message) > 40
    else:
        assert isinstance(rest, Wait)
        assert WAITS.search(rest.reason)


@pytest.mark.parametrize("seed", range(24))
def test_no_walk_breaks_a_rule_with_a_ledger_that_forgets_what_it_may(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MANY", 0)

    end_of.__wrapped__(seed)


def test_walks_come_to_different_ends() -> None:
    """Walks that all end the same way would test nothing."""
    rests = [end_of(seed)[1] for seed in range(WALKS)]
    ends = {rest.reason if isinstance(rest, Hold) else type(rest).__name__ for rest in rests}

    assert {"Settled", "VersionJump", "QuorumLost"} <= ends
