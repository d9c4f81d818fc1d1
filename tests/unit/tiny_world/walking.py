"""What random walks have in common: a world, two operators with views of any age, and events."""

from __future__ import annotations

import random
from typing import Generic, TypeVar

from worlds import Conflict, World, is_write

from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.planner import decide
from etcd_stateful.observed.members import Alarm, is_corrupt
from etcd_stateful.status.outcome import Outcome
from etcd_stateful.status.rendering import render

W = TypeVar("W", bound=World)


class Walking(Generic[W]):
    def __init__(self, chance: random.Random, world: W) -> None:
        self.chance = chance
        self.world = world
        self.views = [world.observe()] * 2
        self.log: list[str] = []
        """What has happened, to read when a walk breaks a rule."""

    def operator(self) -> None:
        """One of two operators looks, or acts on an earlier look."""
        which = self.chance.randrange(2)
        if self.chance.random() < 0.7:
            self.views[which] = self.world.observe()
        step = decide(self.views[which])
        if not is_write(step) or self.world.cluster.paused:
            return
        if is_final(step) and decide(self.world.observe()) != step:
            return
        self.log.append(f"  {step.reason}")
        try:
            self.world.apply(step)
        except Conflict:
            self.log.append("  conflict")
            self.views[which] = self.world.observe()

    def turn(self) -> None:
        self.world.turn()

    def status(self) -> None:
        seen = self.world.observe()
        self.world.body["status"] = render(self.world.body, Outcome(seen, decide(seen)), "now")

    def pod_dies(self) -> None:
        if there := sorted(self.world.pods):
            self.world.restart_pod(self.chance.choice(there))

    def volume_is_lost(self) -> None:
        if there := sorted(self.world.pods):
            self.world.empty(self.chance.choice(there))

    def claim_is_deleted_under_a_pod(self) -> None:
        if there := sorted(self.world.claims):
            self.world.claims[self.chance.choice(there)].deleting = True

    def etcd_hangs(self) -> None:
        if there := sorted(self.world.pods):
            self.world.pods[self.chance.choice(there)].silent = self.chance.random() < 0.5

    def disk_hangs(self) -> None:
        """Or those that hung go on. Not a learner's, nor one under CORRUPT: the probe fails anyway,
        so nothing tells."""
        etcd, serving = self.world.etcd, self.world.serving()
        serving = set() if etcd and is_corrupt(tuple(etcd.alarms)) else serving
        for ordinal, pod in sorted(self.world.pods.items()):
            if pod.hangs:
                pod.hangs = None
            elif etcd and ordinal in serving and self.chance.random() < 0.4:
                pod.hangs = (etcd.leader, etcd.term)

    def volume_differs(self) -> None:
        """One member is corrupt, and etcd blames any of them. Not while a disk hangs: see there."""
        etcd = self.world.etcd
        if any(pod.hangs for pod in self.world.pods.values()):
            return
        if etcd and len(etcd.voters) > 2 and not etcd.alarms and not etcd.differing:
            etcd.differing = {self.chance.choice(etcd.voters): 2}
            etcd.alarms = [Alarm("CORRUPT", self.chance.choice(etcd.voters))]

    def stateful_set_is_deleted(self) -> None:
        if self.has("StatefulSet", "c") and self.world.secret:
            self.world.delete_stateful_set(with_pods=self.chance.random() < 0.5)

    def stateful_set_is_scaled(self) -> None:
        if self.has("StatefulSet", "c"):
            replicas = self.chance.randrange(7)
            self.world.alter("StatefulSet", "c")["spec"]["replicas"] = replicas

    def version_is_edited(self) -> None:
        self.world.edit(version=self.chance.choice(["3.5.33", "3.6.14", "3.7.3"]))

    def scheduling(self) -> None:
        self.world.stuck = {one for one in range(7) if self.chance.random() < 0.3}

    def has(self, kind: str, name: str) -> bool:
        return (kind, name) in self.world.objects
