"""Events of a random walk that other walks do not have: mishaps, and what people do by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from day_world import DayWorld
from restore_world import backup
from space_world import QUOTA
from walking import Walking
from world_switch import BOTH, OFF, ON

from etcd_stateful import naming
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.objects import Foreign

KINDS = ("StatefulSet", "Service", "PodDisruptionBudget", "Pod", "PersistentVolumeClaim")
NAMES = (("Service", "c-client"), ("PodDisruptionBudget", "c"), ("Service", "c"))


class Mishaps(Walking[DayWorld]):
    recreated = 0
    kept_status: Any = None

    # The cluster as a whole.

    def cluster_is_recreated(self) -> None:
        world = self.world
        self.recreated += 1
        spec = {"size": self.chance.choice((1, 3, 3, 5)), "TLS": self.chance.choice((ON, OFF))}
        if self.chance.random() < 0.7 and world.version:
            spec["version"] = world.version
        world.recreate(f"again-{self.recreated}", **spec)
        self.views = [world.observe()] * 2
        self.retained_claims_are_decided()

    def retained_claims_are_decided(self) -> None:
        own = self.world.cluster.uid
        found = {one.cluster_uid for one in self.world.observe().claims if one.record}
        if (left := sorted(found - {own})) and self.chance.random() < 0.8:
            word = self.chance.choice(("adopt", "adopt", "discard"))
            self.world.edit(retainedClaims={word: self.chance.choice(left)})

    def status_is_from_a_backup(self) -> None:
        earlier = self.kept_status or {}
        self.status()
        self.kept_status = self.world.body["status"]
        self.world.body["status"] = earlier

    # Nodes and volumes.

    def node_is_silent(self) -> None:
        if there := sorted(self.world.pods):
            pod = self.world.pods[self.chance.choice(there)]
            pod.deleting = pod.overdue = True
            if self.chance.random() < 0.6:
                self.world.powered_off.add(pod.uid)

    def nodes_are_back(self) -> None:
        for pod in self.world.pods.values():
            pod.overdue = False

    def node_is_removed(self) -> None:
        if there := self.bound():
            ordinal = self.chance.choice(there)
            self.world.gone.add(self.world.claims[ordinal].uid)
            self.world.restart_pod(ordinal)

    def volume_is_gone_from_under_its_claim(self) -> None:
        if there := self.bound():
            ordinal = self.chance.choice(there)
            self.world.claims[ordinal].phase = "Lost"
            self.world.wipe(ordinal)

    def claim_is_restored_from_a_copy(self) -> None:
        if there := self.bound():
            self.world.restore_from_copy(self.chance.choice(there))

    def record_on_a_claim_is_damaged(self) -> None:
        stay = (one for one in self.world.claims.values() if not one.deleting)
        if noted := [one for one in stay if naming.EPOCH in one.annotations]:
            one = self.chance.choice(noted)
            one.annotations = one.annotations | {naming.EPOCH: "?"}
            one.resource_version += 10000

    def records_on_claims_are_mended(self) -> None:
        for ordinal, one in self.world.claims.items():
            if one.annotations.get(naming.EPOCH) == "?":
                epoch = self.world.epoch_on(ordinal)
                one.annotations = one.annotations | {naming.EPOCH: str(epoch)}
                one.resource_version += 10000

    def bound(self) -> list[int]:
        return sorted(self.world.pods.keys() & self.world.claims.keys())

    def hurry(self) -> None:
        self.world.hasty = self.chance.random() < 0.5

    # Records.

    def secret_is_damaged(self) -> None:
        self.world.damage = "it is no JSON" if self.world.secret else ""

    def secret_is_mended(self) -> None:
        self.world.damage = ""

    def secret_is_put_back(self) -> None:
        """As it was at some earlier moment; now and then together with another mishap."""
        if not self.world.earlier:
            return
        record = self.chance.choice(self.world.earlier)
        self.world.secret, self.world.damage = (self.world._next(), record), ""
        if self.chance.random() < 0.3:
            beside = self.chance.choice(BESIDE)
            self.log.append(f"  with {beside.__name__}")
            beside(self)

    def all_objects_are_lost(self) -> None:
        if self.chance.random() < 0.8:
            self.status()
        if self.has("StatefulSet", "c"):
            self.world.delete_stateful_set(with_pods=self.chance.random() < 0.5)
        self.world.lose_secret()
        self.world.damage = ""

    # etcd.

    def member_is_removed_by_hand(self) -> None:
        etcd = self.world.etcd
        if etcd and etcd.leader and len(etcd.voters) > 2 and not self.world.cut_off:
            etcd.remove(self.chance.choice(sorted(etcd.members)))

    def quota_is_reached(self) -> None:
        """Nobody acts on an earlier look: to disarm the alarm too soon does no harm, as etcd raises
        it again, but breaks a rule here."""
        etcd = self.world.etcd
        if etcd and etcd.leader and not etcd.alarms:
            etcd.sizes = dict.fromkeys(etcd.members, (QUOTA, QUOTA // 4))
            etcd.alarms = [Alarm("NOSPACE", self.chance.choice(sorted(etcd.members)))]
            self.views = [self.world.observe()] * 2

    def downgrade_is_enabled_by_hand(self) -> None:
        etcd = self.world.etcd
        if etcd and etcd.leader and not etcd.downgrade and etcd.minor in ("3.6", "3.7"):
            etcd.enable_downgrade({"3.6": "3.5", "3.7": "3.6"}[etcd.minor])

    def container_restarts_on_an_emptied_volume(self) -> None:
        if there := self.bound():
            ordinal = self.chance.choice(there)
            self.world.claims[ordinal].data = None
            if self.world.pods[ordinal].where == "etcd":
                self.world.run_start(ordinal)

    # Images and versions.

    def operator_is_upgraded(self) -> None:
        self.world.operator_image = self.chance.choice(("operator:1", "operator:2"))
        bad = self.chance.random() < 0.3
        self.world.bad_starts = {"operator:2"} if bad else set()

    def images_are_missing(self) -> None:
        missing = {self.chance.choice(("3.5.33", "3.6.14", "3.7.3"))}
        self.world.bad_images = missing if self.chance.random() < 0.4 else set()
        self.world.late_images = missing if self.chance.random() < 0.2 else set()

    def version_fails(self) -> None:
        failing = {self.chance.choice(("3.5.33", "3.6.14", "3.7.3"))}
        self.world.failing = failing if self.chance.random() < 0.5 else set()

    # Objects and the API server.

    def write_is_refused(self) -> None:
        some = self.chance.random() < 0.6
        self.world.refused = {self.chance.choice(KINDS)} if some else set()

    def name_is_taken(self) -> None:
        kind, name = self.chance.choice(NAMES)
        self.world.foreign = ()
        if self.chance.random() < 0.5 and not self.has(kind, name):
            passing = self.chance.random() < 0.5
            self.world.foreign = (Foreign(kind, name, "Deployment x", passing=passing),)

    def object_is_deleted(self) -> None:
        self.world.objects.pop(self.chance.choice(NAMES), None)

    def finalizer_keeps_an_object(self) -> None:
        kind, name = self.chance.choice(NAMES)
        if self.has(kind, name):
            metadata = self.world.alter(kind, name)["metadata"]
            metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}

    def labels_of_a_pod_are_removed(self) -> None:
        if there := sorted(self.world.pods):
            self.world.pods[self.chance.choice(there)].hidden = True

    def labels_are_put_back(self) -> None:
        for pod in self.world.pods.values():
            pod.hidden = False

    def service_is_altered(self) -> None:
        kind, name = self.chance.choice(NAMES[::2])
        if self.has(kind, name):
            self.world.alter(kind, name)["spec"]["selector"]["x"] = "y"

    # Time, authorities, backups.

    def time_passes(self) -> None:
        self.world.now += self.chance.choice((3600.0, 40 * 86400.0, 400 * 86400.0))

    def rotation_is_requested(self) -> None:
        turn = {"overlapSeconds": 60, "peer": self.chance.randrange(1, 3)}
        self.world.edit(TLS={**self.chance.choice((ON, BOTH)), "rotation": turn})

    def restore_by_name_is_requested(self) -> None:
        if self.world.secret is not None and self.world.record.latched:
            self.world.ask(uid=f"uid-n{len(self.log)}", backupRef={"name": "b"})

    def backup_comes_and_goes(self) -> None:
        self.world.backups = {"b": backup()} if self.chance.random() < 0.5 else {}


BESIDE: tuple[Callable[[Mishaps], None], ...] = (
    Mishaps.pod_dies,
    Mishaps.volume_is_lost,
    Mishaps.stateful_set_is_deleted,
    Mishaps.status_is_from_a_backup,
    Mishaps.node_is_removed,
    Mishaps.claim_is_restored_from_a_copy,
    Mishaps.container_restarts_on_an_emptied_volume,
)
"""What may happen in the moment in which a Secret is put back."""
