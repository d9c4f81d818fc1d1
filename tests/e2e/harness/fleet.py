"""What users have when they upgrade the operator: clusters, changes half-way, backups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness import backups
from harness.api import BACKUPS, SCHEDULES, Json
from harness.backups import Backup
from harness.clusters import PREFIX, Cluster, is_up, restarts, start_image
from harness.conditions import condition
from harness.gate import Gate
from harness.membership import settles
from harness.place import PLAINTEXT, Place
from harness.users import AUTH, etcdctl, password, settled
from harness.waiting import eventually
from localkube.s3 import S3Server

VERSION, A_MINOR_BELOW = "3.7.3", "3.6.16"
CHANGE_SECONDS = 120
WEB = ("--user", "web:w-1")


@dataclass
class Fleet:
    """Clusters in the forms that users have them, each with a key in it."""

    place: Place
    etcd: Cluster
    plain: Cluster
    guarded: Cluster

    @classmethod
    def declared(cls, place: Place) -> Fleet:
        for name, text in (("root", "r-1"), ("web", "w-1")):
            password(place, name, text)
        return cls(
            place,
            place.declare(size=3),
            place.declare(size=1, name="plain", TLS=PLAINTEXT, pod={"emptyDir": {}}),
            place.declare(size=1, name="guarded", auth=AUTH),
        )

    def comes_up(self) -> Fleet:
        for cluster in (self.etcd, self.plain):
            cluster.comes_up(CHANGE_SECONDS).client.put("before", "kept")
        settled(self.guarded, "it asks for passwords", enabled=True, seconds=CHANGE_SECONDS)
        etcdctl(self.place, *WEB, "put", "/web/before", "kept", member="guarded-0")
        return self

    def is_taken_on(self, image: str, before: Json) -> None:
        """Another operator has gone over each cluster, is content with it, and has left it as it
        was seen before."""
        for cluster in self._all:
            renders(cluster, image)
        assert self.seen() == before
        for cluster in self._all:
            eventually(f"{cluster.name} is up", cluster.body, is_up, CHANGE_SECONDS)
            assert cluster.condition("Available")["status"] == "True"

    def has_its_data(self) -> None:
        assert [one.client.get("before") for one in (self.etcd, self.plain)] == ["kept", "kept"]
        ask = ("get", "/web/before", "--print-value-only")
        assert etcdctl(self.place, *WEB, *ask, member="guarded-0") == "kept"

    def opens(self) -> None:
        """For the checks after a test, which have no password."""
        self.guarded.change(auth=None)
        settled(self.guarded, "it asks for none", enabled=False, seconds=CHANGE_SECONDS)

    def seen(self) -> Json:
        return {one.name: seen(one) for one in self._all}

    @property
    def _all(self) -> tuple[Cluster, ...]:
        return self.etcd, self.plain, self.guarded


@dataclass
class Begun:
    """Changes that stand still half-way, each before a pod that finds no node."""

    gate: Gate
    growing: Cluster
    turning: Cluster

    @classmethod
    def declared(cls, place: Place, gate: Gate) -> Begun:
        pod = gate.WANTED
        return cls(
            gate,
            place.declare(size=3, name="growing", pod=pod),
            place.declare(size=3, name="turning", version=A_MINOR_BELOW, pod=pod),
        )

    def comes_up(self) -> Begun:
        for cluster in (self.growing, self.turning):
            cluster.comes_up(CHANGE_SECONDS)
        return self

    def begin(self) -> None:
        """Five members instead of three; another minor of etcd, by restarts."""
        self.gate.shut()
        self.growing.scale(5)
        self.turning.change(version=VERSION)
        self.gate.holds(self.growing.namespace, "growing", 2)
        self.gate.holds(self.turning.namespace, "turning")

    def end(self) -> None:
        settles(self.growing, 5, CHANGE_SECONDS)
        settles(self.turning, 3, CHANGE_SECONDS)
        for ordinal in range(3):
            assert self.turning.member(ordinal).status()["version"] == VERSION

    def pod_uids(self) -> dict[str, dict[str, str]]:
        return {one.name: one.pod_uids() for one in (self.growing, self.turning)}


@dataclass
class Stored:
    """What there is in stores, and what makes it."""

    place: Place
    s3: S3Server
    once: Backup
    goes: Backup

    @classmethod
    def declared(cls, place: Place, s3: S3Server) -> Stored:
        """Of cluster `etcd`: one on a volume, one that goes with its object, one each minute."""
        backups.secret(place, s3)
        backups.claim(place, "backups")
        template = cls._of_etcd(place, s3, "often/etcd")
        often = {"schedule": "* * * * *", "jitterSeconds": 0, "template": template}
        manifest = {"metadata": {"name": "often"}, "spec": often}
        place.kube.create(SCHEDULES, manifest, place.namespace)
        volume = {"claimName": "backups", "path": "etcd.db"}
        to_volume = {"clusterRef": {"name": "etcd"}, "storageType": "Volume", "volume": volume}
        once = backups.declare(place, "once", **to_volume)
        spec = cls._of_etcd(place, s3, "goes")
        goes = backups.declare(place, "goes", **spec, deletionPolicy="Delete")
        return cls(place, s3, once, goes)

    def is_made(self) -> Stored:
        for one in (self.once, self.goes):
            one.succeeds()
        self.made_often(frozenset())
        return self

    def begin(self, gate: Gate) -> None:
        """A backup and a restore, whose Jobs stand still before pods that find no node."""
        spec = self._of_etcd(self.place, self.s3, "begun")
        backups.declare(self.place, "begun", **spec, pod=gate.WANTED)
        self._restored_as("reborn", pod=gate.WANTED)
        for name in ("begun", "reborn"):
            gate.holds(self.place.namespace, name)

    def end(self) -> None:
        Backup(self.place.kube, self.place.namespace, "begun").succeeds()
        self._has_the_data(self.place.cluster("reborn"))

    def made_often(self, before: frozenset[str]) -> frozenset[str]:
        """The names of those that the schedule has had made, once there are others."""
        return eventually(
            "the schedule has had another made",
            self._often,
            lambda names: names - before,
            seconds=100,
        )

    def is_restored_again(self) -> None:
        self._has_the_data(self._restored_as("again"))

    def goes_with_its_object(self) -> None:
        file: Path = self.s3.folder / "data" / "mybucket" / self.place.namespace / "goes"
        assert file.exists()
        assert file.with_name("goes.manifest.json").exists()
        self.place.kube.delete(BACKUPS, self.place.namespace, self.goes.name)
        eventually(
            "the EtcdBackup goes",
            lambda: self.place.kube.get(BACKUPS, self.place.namespace, self.goes.name),
            lambda found: found is None,
            seconds=60,
        )
        assert not file.exists()
        assert not file.with_name("goes.manifest.json").exists()

    def _restored_as(self, name: str, **spec: Json) -> Cluster:
        """By the name of the backup."""
        born = {"restore": {"backupRef": {"name": self.once.name}}}
        return self.place.declare(1, name, version=VERSION, bootstrap=born, **spec)

    def _has_the_data(self, cluster: Cluster) -> None:
        settles(cluster, 1, CHANGE_SECONDS)
        assert cluster.client.get("before") == "kept"

    def _often(self) -> frozenset[str]:
        found = self.place.kube.list(BACKUPS, self.place.namespace, f"{PREFIX}/schedule=often")
        done = (one for one in found if condition(one, "Complete").get("status") == "True")
        return frozenset(one["metadata"]["name"] for one in done)

    @staticmethod
    def _of_etcd(place: Place, s3: S3Server, path: str) -> Json:
        """Below the namespace, as a backup is never stored over that of another cluster."""
        where = backups.s3_place(s3, f"mybucket/{place.namespace}/{path}")
        return {"clusterRef": {"name": "etcd"}, "storageType": "S3", "s3": where}


def seen(cluster: Cluster) -> Json:
    """What another operator must leave as it is. The template may change, but for its digest of
    the spec: with that it would restart the members."""
    stateful_set = cluster.stateful_set()
    assert stateful_set is not None
    template = stateful_set["spec"]["template"]["metadata"]
    return {
        "pods": cluster.pod_uids(),
        "restarts": {name: restarts(pod) for name, pod in cluster.pods().items()},
        "claims": cluster.claim_uids(),
        "StatefulSet": stateful_set["metadata"]["uid"],
        "digest": template["annotations"][f"{PREFIX}/spec-hash"],
    }


def renders(cluster: Cluster, image: str) -> None:
    eventually(
        f"{cluster.name} is rendered with {image}",
        cluster.stateful_set,
        lambda found: start_image(found["spec"]["template"]) == image,
        CHANGE_SECONDS,
    )
