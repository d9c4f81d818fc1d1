"""When an EtcdRestore is done, and what it says of what the API server refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from etcd_operator.kube.api import (
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    EVENTS,
    JOBS,
    SECRETS,
    Json,
    Rejected,
)
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.backup.outcome import Described
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import Bootstrap
from unit.backup_controllers.outages import fail_until_reported
from unit.backup_controllers.restore.one_restore import OLD, S3, SPEC, World, secret_with


async def begins_by(world: World, record: Bootstrap, **edits: Any) -> None:
    """The cluster is created from the manifest, edited, begins with this record, and serves."""
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    body = world.kube.live(ETCD_CLUSTERS, "c")
    world.kube.put(ETCD_CLUSTERS, body | {"spec": body["spec"] | edits})
    cluster = parse_cluster(body)
    own = replace(record, cluster_uid=cluster.uid)
    world.kube.put(SECRETS, secret_with(cluster, own))
    world.serve()
    await world.settle()


FIRST = records.first_attempt("uid", {"c-0": "https://c-0:2380"}, "3.7.3")
FILLED = records.restored(
    records.restoring(records.first_attempt("uid", {"c-0": "https://c-0:2380"}, "3.7.3"), size=3), 3
)
FOUND = records.adopted("uid", 0xAB, "3.7.3", 3)
BEGUN = {
    "the field was removed, and it began empty": (records.latch(FIRST), {}),
    "claims of the one before were adopted": (
        FOUND,
        {"retainedClaims": {"adopt": "uid-of-before"}},
    ),
    "the field was removed, and the Secret lost later": (FOUND, {"bootstrap": {}}),
}


@pytest.mark.parametrize(("record", "edits"), BEGUN.values(), ids=BEGUN)
async def test_a_cluster_not_created_from_the_backup_was_reported_as_restored(
    world: World, record: Bootstrap, edits: Json
) -> None:
    await begins_by(world, record, **edits)

    assert world.condition()["reason"] == "BegunOtherwise"
    assert "does not have the data of the backup" in world.condition()["message"]
    assert world.status["succeeded"] is False


async def test_the_secret_of_a_cluster_of_that_name_that_was_deleted_tells_nothing(
    world: World,
) -> None:
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    cluster = parse_cluster(world.kube.live(ETCD_CLUSTERS, "c"))
    world.kube.put(SECRETS, secret_with(cluster, replace(records.latch(FIRST), cluster_uid="old")))
    world.serve()
    await world.settle()

    assert world.status["succeeded"] is True


async def test_a_restore_that_is_over_is_announced_once(world: World) -> None:
    await world.succeed()
    await world.settle()

    said = [one for (kind, *_), one in world.kube.objects.items() if kind == EVENTS]
    assert [(one["type"], one["reason"]) for one in said] == [("Normal", "Restored")]


async def test_a_cluster_created_from_the_backup_is_reported_as_restored(world: World) -> None:
    await begins_by(world, FILLED)

    assert world.status["succeeded"] is True


async def test_a_restored_cluster_whose_secret_was_lost_was_reported_as_not_restored(
    world: World,
) -> None:
    """The record that is rebuilt does not tell of the backup, and only an edit of the spec could
    have led past it. The message asked for another restore, over what had been written since."""
    await begins_by(world, FOUND)

    assert world.status["succeeded"] is True


class TestEditedOnceItsClusterWasMade:
    """The path was corrected while the volume was being filled from the one before. The cluster
    served with what nobody asked for any more, and `succeeded` was true."""

    OTHER: ClassVar = S3 | {"path": "mybucket/corrected"}

    async def make(self, world: World) -> None:
        await world.settle()
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

    @pytest.mark.parametrize("how", ["by place", "by name"])
    async def test_another_backup_was_reported_as_restored(self, world: World, how: str) -> None:
        await self.make(world)
        edited = SPEC | {"s3": self.OTHER}
        if how == "by name":
            edited = {"etcdCluster": {"name": "c"}, "backupRef": {"name": "corrected"}}
        world.edit(edited)
        await world.settle()
        told = world.condition()
        assert (told["reason"], "succeeded" in world.status) == ("BegunOtherwise", False)
        assert "starts from s3://mybucket/etcd.backup" in told["message"]
        assert "corrected" in told["message"]

        world.serve()
        await world.settle()
        assert world.status["succeeded"] is False

    async def test_the_same_path_in_another_store_was_named_as_if_it_were_the_same_backup(
        self, world: World
    ) -> None:
        await self.make(world)
        world.edit(SPEC | {"s3": S3 | {"endpoint": "https://elsewhere.example.com"}})
        await world.settle()

        told, path = world.condition(), "s3://mybucket/etcd.backup"
        assert told["reason"] == "BegunOtherwise"
        assert f"not from {path} at https://elsewhere.example.com" in told["message"]

    async def test_a_cluster_that_is_to_begin_without_a_backup_is_waited_for(
        self, world: World
    ) -> None:
        """Until it has formed, the field may come back."""
        await self.make(world)
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        del cluster["spec"]["bootstrap"]
        world.kube.put(ETCD_CLUSTERS, cluster)
        await world.settle()

        assert world.condition()["reason"] == "Restoring"

    async def test_it_goes_on_once_the_cluster_is_edited_too(self, world: World) -> None:
        await self.make(world)
        world.edit(SPEC | {"s3": self.OTHER})
        await world.settle()
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        cluster["spec"]["bootstrap"]["restore"]["s3"] = self.OTHER
        world.kube.put(ETCD_CLUSTERS, cluster)
        await world.settle()
        assert world.condition()["reason"] == "Restoring"

        world.serve()
        await world.settle()
        assert world.status["succeeded"] is True

    async def test_another_edit_changes_nothing(self, world: World) -> None:
        await self.make(world)
        world.edit(SPEC | {"pod": {"nodeSelector": {"disk": "ssd"}}})
        world.serve()
        await world.settle()

        assert world.status["succeeded"] is True

    async def test_a_restore_in_place_of_its_own_cluster_was_reported_as_done(
        self, world: World
    ) -> None:
        await self.make(world)
        world.serve()
        replaced = {"replace": {"clusterID": "00000000000000ab"}}
        world.edit(SPEC | replaced | {"s3": self.OTHER})
        await world.settle()

        assert world.condition()["reason"] == "Restoring"
        assert "succeeded" not in world.status


async def test_a_refused_cluster_is_reported(world: World) -> None:
    await world.settle()
    world.end(Described({"size": 99}, "3.7.3", 42))
    world.kube.failures["create EtcdCluster"] = [Rejected("spec.size: 1 to 7", status=422)]
    assert await world.settle() == 30.0

    assert "1 to 7" in world.condition()["message"]


async def test_a_read_refused_by_the_api_server_is_reported(world: World) -> None:
    world.kube.failures["get EtcdCluster"] = [Rejected("c is forbidden", status=403)]

    assert await world.settle() == 30.0
    assert world.condition()["reason"] == "Refused"
    assert "forbidden" in world.condition()["message"]

    await world.settle()
    assert world.condition()["reason"] == "Reading"


async def test_a_refusal_was_logged_again_every_half_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    refused = Rejected("c is forbidden", status=403)
    for times in (3, 1):
        world.kube.failures["get EtcdCluster"] = [refused] * times
        for _ in range(times):
            assert await world.settle() == 30.0
        await world.settle()
    said = [one.getMessage() for one in caplog.records]

    assert sum("forbidden" in one for one in said) == 2, "once each time that it begins"


async def test_a_job_that_the_api_server_fails_to_create_is_reported(world: World) -> None:
    """A webhook was down, and the status said nothing for days."""
    await fail_until_reported(world, "create Job")
    await world.settle()

    assert world.condition()["reason"] == "Reading"


async def test_a_namespace_that_is_being_deleted_does_not_fail_the_restore(world: World) -> None:
    words = "unable to create: namespace default is being terminated"
    world.kube.failures["create Job"] = [Rejected(words, status=403)]

    assert await world.settle() == 30.0
    assert not world.kube.live(ETCD_RESTORES, "c").get("status")


async def test_a_restore_with_another_name_than_its_cluster_is_refused(world: World) -> None:
    body = world.kube.live(ETCD_RESTORES, "c")
    body["spec"] = SPEC | {"etcdCluster": {"name": "other"}}
    world.kube.put(ETCD_RESTORES, body)
    await world.settle()

    assert world.condition()["reason"] == "InvalidSpec"
    assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]
