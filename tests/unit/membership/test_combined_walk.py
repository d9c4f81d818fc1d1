"""Random walks in which everything may happen to one cluster, also at once.

A recovery, a restore in place and its cancellation, edits of size, version and TLS, a lost Secret,
a wiped status, a deleted StatefulSet, claims that a finalizer keeps, emptied and damaged volumes, a
pause, two operators with old views and no memory, and what `mishaps` adds. `day_world` checks every
write and every state against the rules. Once the faults are over, the cluster must come to rest and
say what it lacks; doing what it says must lead on.
"""

from __future__ import annotations

import functools
import os
import random
import re
from collections.abc import Callable

import pytest
from day_world import DayWorld
from mishaps import Mishaps
from ways_out import follow, name_another_survivor
from world_switch import BOTH, OFF, ON
from worlds import drive

from etcd_stateful.membership.steps import Hold, Settled, Step, Wait

FEW = 40
WALKS = int(os.environ.get("WALKS", FEW))
"""`make verify` sets it: a thousand find more."""

EVENTS = 70
WAITS = re.compile(
    "a quorum|its volume cannot be read|to serve, so that|to be gone|what keeps it|no node has its|"
    "has lost its volume|is only assumed|name another survivor|kubectl label pod|kubectl delete pod"
)
"""What a cluster may wait for for good, once all faults but lost volumes and kept claims are
over."""


class Walk(Mishaps):
    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        world = DayWorld(chance.choice((1, 2, 3, 3, 5)))
        assert drive(world, idle=2) == Settled()
        super().__init__(chance, world)
        self.restores = 0

    def run(self) -> None:
        for _ in range(EVENTS):
            (event,) = self.chance.choices(list(LIKELY), weights=list(LIKELY.values()))
            self.log.append(event.__name__)
            event(self)
            self.world.check_safe()

    def operator_works(self) -> None:
        for _ in range(self.chance.randrange(12)):
            self.operator()
            if self.chance.random() < 0.4:
                self.world.turn()

    def status_is_wiped(self) -> None:
        self.world.body["status"] = {}

    def recovery_is_requested(self) -> None:
        if self.world.secret is not None:
            later = self.chance.random() < 0.2
            survivor = self.chance.randrange(self.world.cluster.size)
            epoch = self.world.record.epoch + later
            fenced = self.world.fence(beside=survivor)
            self.world.ask_for_recovery(survivor, epoch=epoch, fenced=fenced)

    def recovery_is_taken_back(self) -> None:
        if "recovery" in self.world.body["spec"]:
            self.world.take_back()

    def restore_is_requested(self) -> None:
        if self.world.secret is not None and self.world.record.latched:
            self.restores += 1
            self.world.ask(uid=f"uid-{self.restores}")

    def restore_is_cancelled(self) -> None:
        self.world.restore = None

    def job_stops(self) -> None:
        self.world.job_runs = not self.world.job_runs

    def job_is_lost(self) -> None:
        self.world.job = None

    def quorum_is_lost(self) -> None:
        there = sorted(self.world.pods.keys() & self.world.claims.keys())
        for ordinal in self.chance.sample(there, len(there) // 2 + 1 if there else 0):
            self.world.wipe(ordinal)

    def volume_is_emptied(self) -> None:
        if there := sorted(self.world.pods.keys() & self.world.claims.keys()):
            self.world.wipe(self.chance.choice(there))

    def log_is_damaged(self) -> None:
        there = [one for one, claim in sorted(self.world.claims.items()) if claim.data]
        if there:
            ordinal = self.chance.choice(there)
            self.world.claims[ordinal].damaged = "cut short"
            if ordinal in self.world.pods:
                self.world.restart_pod(ordinal)

    def finalizers_keep_claims(self) -> None:
        self.world.stuck_claims = {one for one in range(7) if self.chance.random() < 0.4}

    def secret_is_lost(self) -> None:
        """Never together with the StatefulSet: then nothing would tell the version."""
        if self.has("StatefulSet", "c"):
            if self.chance.random() < 0.8:
                self.status()
            self.world.lose_secret()

    def size_is_edited(self) -> None:
        self.world.edit(size=self.chance.choice((1, 2, 3, 4, 5)))

    def tls_is_edited(self) -> None:
        self.world.edit(TLS=self.chance.choice((ON, OFF, BOTH)))

    def template_is_edited(self) -> None:
        self.world.edit(pod={"labels": {"n": str(self.chance.randrange(9))}})

    def pause(self) -> None:
        self.world.edit(paused=self.chance.random() < 0.4)

    def network(self) -> None:
        self.world.cut_off = self.chance.random() < 0.4

    def calm_down(self) -> None:
        self.world.cut_off, self.world.stuck, self.world.job_runs = False, set(), True
        self.world.calm_down()
        for pod in self.world.pods.values():
            pod.silent, pod.hangs, pod.overdue = False, None, False
        if self.chance.random() < 0.6:
            self.world.stuck_claims = set()
        if self.chance.random() < 0.6:
            self.labels_are_put_back()
        self.world.edit(paused=False)


LIKELY: dict[Callable[[Walk], None], float] = {
    Walk.operator: 25,
    Walk.operator_works: 12,
    Walk.turn: 15,
    Walk.status: 3,
    Walk.status_is_wiped: 0.5,
    Walk.recovery_is_requested: 2.5,
    Walk.recovery_is_taken_back: 1.2,
    Walk.restore_is_requested: 2.5,
    Walk.restore_is_cancelled: 1.2,
    Walk.job_stops: 1,
    Walk.job_is_lost: 0.5,
    Walk.quorum_is_lost: 1,
    Walk.pod_dies: 2,
    Walk.volume_is_emptied: 0.7,
    Walk.volume_is_lost: 0.5,
    Walk.claim_is_deleted_under_a_pod: 0.6,
    Walk.log_is_damaged: 0.4,
    Walk.finalizers_keep_claims: 1,
    Walk.secret_is_lost: 1,
    Walk.stateful_set_is_deleted: 0.8,
    Walk.stateful_set_is_scaled: 0.6,
    Walk.etcd_hangs: 1,
    Walk.disk_hangs: 1,
    Walk.size_is_edited: 1,
    Walk.version_is_edited: 0.6,
    Walk.tls_is_edited: 0.6,
    Walk.template_is_edited: 0.5,
    Walk.pause: 1,
    Walk.network: 1.2,
    Walk.scheduling: 1,
    Walk.cluster_is_recreated: 0.5,
    Walk.retained_claims_are_decided: 0.5,
    Walk.status_is_from_a_backup: 0.5,
    Walk.node_is_silent: 0.8,
    Walk.nodes_are_back: 0.5,
    Walk.node_is_removed: 0.5,
    Walk.volume_is_gone_from_under_its_claim: 0.3,
    Walk.claim_is_restored_from_a_copy: 0.2,
    Walk.hurry: 0.5,
    Walk.all_objects_are_lost: 0.4,
    Walk.member_is_removed_by_hand: 0.5,
    Walk.volume_differs: 0.3,
    Walk.quota_is_reached: 0.4,
    Walk.downgrade_is_enabled_by_hand: 0.3,
    Walk.container_restarts_on_an_emptied_volume: 0.3,
    Walk.operator_is_upgraded: 0.6,
    Walk.images_are_missing: 0.4,
    Walk.version_fails: 0.5,
    Walk.write_is_refused: 0.6,
    Walk.secret_is_damaged: 0.2,
    Walk.secret_is_mended: 0.3,
    Walk.secret_is_put_back: 1,
    Walk.record_on_a_claim_is_damaged: 0.2,
    Walk.records_on_claims_are_mended: 0.5,
    Walk.name_is_taken: 0.4,
    Walk.object_is_deleted: 0.4,
    Walk.finalizer_keeps_an_object: 0.3,
    Walk.labels_of_a_pod_are_removed: 0.5,
    Walk.labels_are_put_back: 0.4,
    Walk.service_is_altered: 0.2,
    Walk.time_passes: 0.5,
    Walk.rotation_is_requested: 0.3,
    Walk.restore_by_name_is_requested: 0.6,
    Walk.backup_comes_and_goes: 0.5,
}
"""The events of a walk, with their relative frequency."""


@functools.lru_cache(maxsize=FEW)
def end_of(seed: int) -> tuple[Walk, Step]:
    """A walk whose faults are over, and the step at which the cluster rests."""
    walk = Walk(seed)
    walk.run()
    walk.calm_down()
    return walk, at_rest(walk.world)


def at_rest(world: DayWorld) -> Step:
    """The step at which it rests, also once its pods are no longer young."""
    rest = drive(world, idle=14, limit=700)
    if isinstance(rest, Wait):
        for pod in world.pods.values():
            pod.age += 1000.0
        rest = drive(world, idle=14, limit=700)
    return rest


def put_labels_back(walk: Walk, message: str) -> bool:
    """Does so, if the message asks for it."""
    asked = "kubectl label pod" in message
    if asked:
        walk.labels_are_put_back()
    return asked


@pytest.mark.parametrize("seed", range(WALKS))
def test_no_walk_breaks_a_rule_and_each_comes_to_rest_with_a_reason(seed: int) -> None:
    walk, rest = end_of(seed)

    if isinstance(rest, Settled):
        seen = walk.world.observe()
        assert all((pod := seen.pod(one)) and pod.ready for one in range(seen.cluster.size))
    elif isinstance(rest, Hold):
        assert rest.reason.isidentifier()
        assert len(rest.message) > 40
        if follow(walk.world, rest):
            assert at_rest(walk.world) != rest
    else:
        assert isinstance(rest, Wait)
        assert WAITS.search(rest.reason)
        if name_another_survivor(walk.world, rest.reason) or put_labels_back(walk, rest.reason):
            assert at_rest(walk.world) != rest


def test_walks_come_to_different_ends() -> None:
    """Walks that all end the same way would test nothing."""
    rests = [end_of(seed)[1] for seed in range(FEW)]
    ends = {rest.reason if isinstance(rest, Hold) else type(rest).__name__ for rest in rests}

    assert {"Settled", "QuorumLost", "RecoveryNotNeeded", "RecoveryRefused"} <= ends
