"""An EtcdRestore from an EtcdBackup by name, and with an image of a private registry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_CLUSTERS, ETCD_RESTORES, JOBS, Json
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.stores import Store as Place
from etcd_stateful.backup import order
from etcd_stateful.backup.outcome import Described
from etcd_stateful.backup.restores import AWAIT_SECONDS
from unit.backup_controllers.restore.one_restore import BY_NAME, OLD, S3, SPEC, World, backup

STORED = Place("S3", "mybucket", "a/nightly_1", "aws", "http://minio:9000")


class TestABackupByName:
    @pytest.fixture
    def world(self) -> World:
        world = World()
        body = world.kube.live(ETCD_RESTORES, "c")
        world.kube.put(ETCD_RESTORES, body | {"spec": BY_NAME})
        return world

    def jobs(self, world: World) -> list[str]:
        return [name for kind, *_, name in world.kube.objects if kind == JOBS]

    def told(self, world: World) -> Place:
        job = world.kube.live(JOBS, "c-backup-d1")
        environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
        return order.parse(environment[0]["value"]).store

    async def test_the_cluster_is_created_from_the_files_of_the_backup(self, world: World) -> None:
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        assert self.told(world) == STORED
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

        assert parse_cluster(world.kube.live(ETCD_CLUSTERS, "c")).restore == STORED

    async def test_a_file_that_took_the_backups_place_before_the_cluster_was_created_was_restored(
        self, world: World
    ) -> None:
        """The spec of the cluster names the path, and not which file is meant there."""
        world.kube.put(ETCD_BACKUPS, backup(sha256="ff"))
        await world.settle()
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        assert parse_cluster(cluster).restore == replace(STORED, sha256="ff")

    async def test_the_store_column_shows_where_the_backup_is_stored(self, world: World) -> None:
        await world.settle()
        assert "backupStorageType" not in world.status
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        assert world.status["backupStorageType"] == "S3"

        world.kube.remove(ETCD_BACKUPS, "default", "nightly-1")
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()
        world.serve()
        await world.settle()
        assert world.status["succeeded"] is True
        assert world.status["backupStorageType"] == "S3"

    async def test_the_store_column_follows_an_edit(self, world: World) -> None:
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        world.edit({**BY_NAME, "backupRef": {"name": "another"}})
        await world.settle()
        assert "backupStorageType" not in world.status

    @pytest.mark.parametrize("then", ["deleted", "changed", "failed"])
    async def test_a_backup_that_changes_during_the_restore_does_not_affect_it(
        self, world: World, then: str
    ) -> None:
        """The Job's order is its record, and after that the cluster's own spec."""
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        if then == "deleted":
            world.kube.remove(ETCD_BACKUPS, "default", "nightly-1")
        elif then == "changed":
            other = backup(location="s3://another/b")
            other["spec"]["s3"] = S3 | {"path": "another/b"}
            world.kube.put(ETCD_BACKUPS, other)
        else:
            world.kube.put(ETCD_BACKUPS, backup(succeeded=False, location="", reason="full"))
        await world.settle()
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

        assert self.jobs(world) == ["c-backup-d1"]
        assert parse_cluster(world.kube.live(ETCD_CLUSTERS, "c")).restore == STORED

    @pytest.mark.parametrize(
        ("found", "status", "words"),
        [
            (None, "False", "EtcdBackup nightly-1 does not exist"),
            ({"succeeded": None}, "Unknown", "EtcdBackup nightly-1 to succeed"),
            ({"succeeded": False, "reason": "the store is full"}, "False", "the store is full"),
            ({"location": ""}, "False", "status.location"),
        ],
    )
    async def test_a_missing_backup_is_reported_and_nothing_is_created(
        self, world: World, found: Any, status: str, words: str
    ) -> None:
        if found is not None:
            world.kube.put(ETCD_BACKUPS, backup(**found))

        assert await world.settle() == AWAIT_SECONDS

        told = world.condition()
        assert (told["reason"], told["status"]) == ("BackupAwaited", status)
        assert told["message"].startswith("spec.backupRef.name: ")
        assert words in told["message"]
        assert not self.jobs(world)
        assert "succeeded" not in world.status
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        assert self.told(world) == STORED

    async def test_an_existing_cluster_is_reported_before_a_missing_backup(
        self, world: World
    ) -> None:
        """No backup should be needed to learn that nothing is done with it."""
        metadata = {"namespace": "default", "name": "c"}
        world.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
        await world.settle()

        assert world.condition()["reason"] == "ClusterExists"

    async def test_a_backup_in_another_namespace_is_not_found(self, world: World) -> None:
        other = backup()
        other["metadata"]["namespace"] = "other"
        world.kube.put(ETCD_BACKUPS, other)
        await world.settle()

        assert "does not exist" in world.condition()["message"]

    async def test_a_job_that_names_no_store_is_unreadable(self, world: World) -> None:
        """The EtcdBackup may have stored another backup by now."""
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        job = world.kube.live(JOBS, "c-backup-d1")
        job["spec"]["template"]["spec"]["containers"][0]["env"] = []
        world.kube.put(JOBS, job)
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

        assert world.condition()["reason"] == "JobUnreadable"
        assert world.kube.find(ETCD_CLUSTERS, "c") is None


class TestAPrivateRegistry:
    """The pod that reads the manifest had no registry credentials, and there was no way to give it
    any."""

    OWN: ClassVar[Json] = {
        "imagePullSecrets": [{"name": "own"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "own", "operator": "Exists"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }

    async def pod(self, spec: Json, of_backup: Json | None = None) -> Json:
        world = World()
        body = world.kube.live(ETCD_RESTORES, "c")
        world.kube.put(ETCD_RESTORES, body | {"spec": spec})
        stored = backup()
        stored["spec"]["pod"] = of_backup or {}
        world.kube.put(ETCD_BACKUPS, stored)
        await world.settle()
        pod: Json = world.kube.live(JOBS, "c-backup-d1")["spec"]["template"]["spec"]
        return pod

    def is_own(self, pod: Json) -> bool:
        [container] = pod["containers"]
        said = {key: pod.get(key) for key in self.OWN if key != "resources"}
        return said | {"resources": container["resources"]} == self.OWN

    @pytest.mark.parametrize("spec", [SPEC, BY_NAME], ids=["by place", "by name"])
    async def test_a_restore_sets_the_placement_and_pull_secrets_of_its_pod(
        self, spec: Json
    ) -> None:
        others = {key: [] if isinstance(value, list) else {} for key, value in self.OWN.items()}

        assert self.is_own(await self.pod({**spec, "pod": self.OWN}, others))

    async def test_omitted_settings_are_those_of_the_named_backup(self) -> None:
        assert self.is_own(await self.pod(BY_NAME, self.OWN))
        partly = {"imagePullSecrets": [{"name": "another"}]}
        pod = await self.pod({**BY_NAME, "pod": partly}, self.OWN)
        assert pod["imagePullSecrets"] == [{"name": "another"}]
        assert pod["nodeSelector"] == {"disk": "ssd"}

    async def test_the_labels_of_the_backups_pods_are_not_inherited(self) -> None:
        """They tell the user's own budgets and policies whose pod it is."""
        world = World()
        world.kube.put(ETCD_RESTORES, world.kube.live(ETCD_RESTORES, "c") | {"spec": BY_NAME})
        stored = backup()
        stored["spec"]["pod"] = {"labels": {"team": "a"}, "annotations": {"team": "a"}}
        world.kube.put(ETCD_BACKUPS, stored)
        await world.settle()

        described = world.kube.live(JOBS, "c-backup-d1")["spec"]["template"]["metadata"]
        assert "team" not in {*described["labels"], *described["annotations"]}

    async def test_an_invalid_placement_is_refused_with_its_field(self) -> None:
        world = World()
        world.edit({**BY_NAME, "pod": {"tolerations": ["all"]}})
        await world.settle()

        [accepted] = [one for one in world.status["conditions"] if one["type"] == "Accepted"]
        assert "spec.pod.tolerations[0]: must be an object" in accepted["message"]
