"""Which backups an EtcdBackupSchedule deletes, and what keeps it from that."""

from __future__ import annotations

import pytest

from etcd_operator.backup_controllers.schedule import AGAIN_SECONDS
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    Conflict,
    Json,
    Listing,
    Resource,
)
from etcd_stateful import naming
from etcd_stateful.backup import in_use
from etcd_stateful.backup.deletion import FINALIZER
from unit.backup_controllers.schedule.one_schedule import KEY, UID, World


class TestWhatIsBeingRestored:
    """The oldest backup was chosen, as from before the damage. The next run of its schedule came
    before the restore had read it, and it was deleted for good."""

    SOURCES = ("by name", "by place")

    def source(self, world: World, how: str, kind: str) -> Json:
        if how == "by name":
            return {"backupRef": {"name": world.name("03:00")}}
        return {kind: "S3", "s3": {"path": "mybucket/03:00", "awsSecret": "aws"}}

    def is_kept(self, world: World) -> bool:
        body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        return "deletionPolicy" not in body["spec"] and "deletionTimestamp" not in body["metadata"]

    async def another_run(self, world: World) -> None:
        """Of the two that there are then, retention keeps one."""
        oldest = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        oldest["status"]["location"] = "s3://mybucket/03:00"
        world.kube.put(ETCD_BACKUPS, oldest)
        await world.runs("03:01")

    @pytest.mark.parametrize("how", SOURCES)
    async def test_a_backup_named_by_an_etcdrestore_is_kept_until_that_is_over(
        self, world: World, how: str
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        spec = {"etcdCluster": {"name": "c"}, **self.source(world, how, "backupStorageType")}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
        await self.another_run(world)
        assert self.is_kept(world)
        assert world.kube.calls["list EtcdBackup"] == 0, "nothing is about to be deleted"

        status = {"succeeded": True}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec, "status": status})
        await world.settle()
        assert not self.is_kept(world)

    @pytest.mark.parametrize("how", SOURCES)
    async def test_a_backup_named_by_a_new_cluster_is_kept_until_that_serves(
        self, world: World, how: str
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        spec = {"size": 3, "bootstrap": {"restore": self.source(world, how, "storageType")}}
        cluster: Json = {"metadata": {"namespace": "default", "name": "d", "uid": "d"}}
        world.kube.put(ETCD_CLUSTERS, cluster | {"spec": spec})
        await self.another_run(world)
        assert self.is_kept(world)

        serves = {"conditions": [{"type": "Available", "status": "True"}]}
        world.kube.put(ETCD_CLUSTERS, cluster | {"spec": spec, "status": serves})
        await world.settle()
        assert not self.is_kept(world)

    @pytest.mark.parametrize("how", SOURCES)
    @pytest.mark.parametrize("kind", [ETCD_RESTORES, ETCD_CLUSTERS], ids=lambda kind: kind.kind)
    async def test_a_backup_was_deleted_while_the_spec_of_who_reads_it_was_refused(
        self, world: World, kind: Resource, how: str
    ) -> None:
        """Once the mistake in another field was corrected, there was nothing left to restore."""
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        source = self.source(world, how, "backupStorageType")
        spec: Json = {"etcdCluster": {"name": "c"}, "replace": {"clusterID": "none"}, **source}
        if kind == ETCD_CLUSTERS:
            source = self.source(world, how, "storageType")
            spec = {"size": 3, "version": "3.3.27", "bootstrap": {"restore": source}}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.put(kind, {"metadata": metadata, "spec": spec})
        await self.another_run(world)

        assert self.is_kept(world)

    @pytest.mark.parametrize("kind", [ETCD_RESTORES, ETCD_CLUSTERS], ids=lambda kind: kind.kind)
    async def test_a_backup_is_kept_while_the_watch_of_who_reads_it_is_behind(
        self, world: World, kind: Resource
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        named = self.source(world, "by name", "")
        spec: Json = {"etcdCluster": {"name": "c"}, **named}
        if kind == ETCD_CLUSTERS:
            spec = {"size": 3, "bootstrap": {"restore": named}}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.watching = False
        world.kube.put(kind, {"metadata": metadata, "spec": spec})
        world.kube.watching = True
        await self.another_run(world)

        assert self.is_kept(world)

    async def test_a_backup_of_that_name_in_another_namespace_is_not_kept(
        self, world: World
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        spec = {"etcdCluster": {"name": "c"}, **self.source(world, "by name", "")}
        metadata = {"namespace": "elsewhere", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
        await self.another_run(world)

        assert not self.is_kept(world)


@pytest.mark.parametrize(
    "edit",
    [{"suspend": True}, {"retention": {"count": 2}}, None, "being deleted", "created again"],
    ids=str,
)
async def test_an_edit_that_the_watch_had_not_reported_yet_did_not_keep_a_backup(
    world: World, edit: Json | str | None
) -> None:
    """Nor did the deletion of the schedule. What is deleted is gone for good."""
    world.declare(retention={"count": 1})
    await world.runs("03:00")
    await world.until("03:01:00")
    world.kube.watching = False
    if edit is None:
        world.kube.remove(ETCD_SCHEDULES, "default", "s")
    elif isinstance(edit, str):
        world.declare(uid=UID if edit == "being deleted" else "next", retention={"count": 1})
        body = world.kube.live(ETCD_SCHEDULES, "s")
        if edit == "being deleted":
            body["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
        world.kube.put(ETCD_SCHEDULES, body)
    else:
        world.declare(**{"retention": {"count": 1}} | edit)
    world.kube.watching = True
    world.end("03:01")
    await world.settle()

    oldest = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert "deletionPolicy" not in oldest["spec"]


async def test_retention_deletes_the_oldest_with_its_files(world: World) -> None:
    world.declare(retention={"count": 2})
    await world.runs("03:00", "03:01", "03:02")

    held = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert held["spec"]["deletionPolicy"] == "Delete"
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert "deletionTimestamp" in held["metadata"]
    for minute in ("03:01", "03:02"):
        assert "deletionPolicy" not in world.kube.live(ETCD_BACKUPS, world.name(minute))["spec"]


async def test_failed_runs_do_not_displace_good_backups(world: World) -> None:
    world.declare(retention={"count": 1})
    await world.runs("03:00")
    await world.runs("03:01", "03:02", "03:03", "03:04", "03:05", good=False)

    assert world.backups() == ["03:00", "03:03", "03:04", "03:05"]
    assert world.condition()["message"].endswith("no bucket")


async def test_unproven_files_of_failed_runs_are_deleted_with_them(world: World) -> None:
    world.declare(retention={"count": 1})
    for minute in ("03:00", "03:01", "03:02", "03:03"):
        await world.runs(minute, good=False)
        body = world.kube.live(ETCD_BACKUPS, world.name(minute))
        left = {"unproven": f"s3://{minute}"}
        world.kube.put(ETCD_BACKUPS, body | {"status": body["status"] | left})
    await world.settle()

    held = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert held["spec"]["deletionPolicy"] == "Delete"
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert naming.LET_GO in held["metadata"]["annotations"], "or it would be begun again"
    assert "deletionTimestamp" in held["metadata"]


async def test_backups_that_the_schedule_did_not_create_are_never_touched(world: World) -> None:
    """Its labels would make it one of them, but not its name. Its name would, but not the UID."""
    labels = {naming.SCHEDULE: "s", naming.SCHEDULE_UID: UID}
    notes = {naming.SCHEDULED_TIME: "2026-11-20T00:00:00Z"}
    for name, changed in (("before-the-upgrade", {}), ("s-100", {naming.SCHEDULE_UID: "before"})):
        metadata = {"namespace": "default", "name": name, "labels": labels | changed}
        world.kube.put(ETCD_BACKUPS, {
            "metadata": metadata | {"annotations": notes},
            "spec": {},
            "status": {"succeeded": True},
        })  # fmt: skip
    world.declare(retention={"count": 1, "maxAgeDays": 1})
    await world.runs("03:00", "03:01", "03:02")

    for name in ("before-the-upgrade", "s-100"):
        body = world.kube.live(ETCD_BACKUPS, name)
        assert "deletionTimestamp" not in body["metadata"]
        assert body["spec"] == {}
    assert len(world.status["backups"]) == 3


async def test_a_backup_is_read_again_before_it_is_deleted(world: World) -> None:
    """The newest verified backup was deleted while the watch was behind. The last good one
    stays."""
    await world.runs("03:00")
    await world.runs("03:01", verified=False)
    await world.runs("03:02")
    world.kube.watching = False
    world.kube.remove(ETCD_BACKUPS, "default", world.name("03:02"))
    world.kube.watching = True
    world.declare(retention={"count": 1})

    assert await world.settle() == AGAIN_SECONDS

    assert world.backups() == ["03:00", "03:01"]
    assert world.kube.calls["delete EtcdBackup"] == world.kube.calls["patch EtcdBackup"] == 0


async def test_a_backup_without_the_label_of_its_schedule_ended_the_deletion_of_all_others(
    world: World,
) -> None:
    """It was the oldest of those that were listed, and unknown to the decision before. So nothing
    was ever deleted, and all of them were listed again each second."""
    await world.runs("03:00", "03:01", "03:02")
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    del body["metadata"]["labels"][naming.SCHEDULE]
    world.kube.put(ETCD_BACKUPS, body)
    world.declare(retention={"count": 1})
    await world.settle()

    assert "deletionTimestamp" not in world.kube.live(ETCD_BACKUPS, world.name("03:00"))["metadata"]
    assert "deletionTimestamp" in world.kube.live(ETCD_BACKUPS, world.name("03:01"))["metadata"]
    assert world.kube.calls["list EtcdBackup"] <= 2


async def test_a_backup_that_has_changed_is_not_deleted(world: World) -> None:
    await world.runs("03:00", "03:01")
    world.kube.failures["patch EtcdBackup"] = [Conflict("resourceVersion is 5", status=409)]
    world.declare(retention={"count": 1})

    assert await world.settle() == AGAIN_SECONDS

    assert world.kube.calls["delete EtcdBackup"] == 0


@pytest.mark.parametrize("good", [True, False], ids=["to be kept", "to begin again"])
async def test_a_backup_that_was_edited_after_the_last_look_is_not_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch, *, good: bool
) -> None:
    minutes = ("03:00", "03:01", "03:02", "03:03")
    await world.runs(*minutes, good=good)
    oldest, list_now = world.kube.live(ETCD_BACKUPS, world.name("03:00")), world.kube.list
    edited = oldest | {"spec": oldest["spec"] | {"deletionPolicy": "Retain"}}

    async def then_edited(kind: Resource, *of: str) -> Listing:
        found = await list_now(kind, *of)
        if kind == ETCD_BACKUPS:
            world.kube.put(ETCD_BACKUPS, edited)
        return found

    monkeypatch.setattr(world.kube, "list", then_edited)
    world.declare(retention={"count": 3})
    await world.schedules.reconcile(KEY)

    live = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert live["spec"]["deletionPolicy"] == "Retain"
    assert "deletionTimestamp" not in live["metadata"]


@pytest.mark.parametrize("reason", ["DeletionFailed", "Refused", "StepFailed", "JobOfAnother"])
async def test_a_backup_that_cannot_be_deleted_is_reported(world: World, reason: str) -> None:
    """It was reported as kept as declared if the Job that deletes what is stored was refused."""
    world.declare(retention={"count": 1})
    await world.runs("03:00", "03:01")
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    said = {"type": "Complete", "status": "False", "reason": reason, "message": "denied"}
    world.kube.put(ETCD_BACKUPS, body | {"status": body["status"] | {"conditions": [said]}})
    await world.settle()

    told = world.condition("Retained")
    assert (told["status"], told["reason"]) == ("False", "DeletionFailed")
    assert told["message"].endswith("denied")


async def test_a_deletion_that_failed_counted_as_done_while_it_was_tried_again(
    world: World,
) -> None:
    """The condition came and went every ten minutes."""
    world.declare(retention={"count": 1})
    await world.runs("03:00", "03:01")
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    for reason in ("DeletionFailed", "Starting", "Deleting"):
        said = {"type": "Complete", "status": "False", "reason": reason, "message": "words"}
        world.kube.put(ETCD_BACKUPS, body | {"status": body["status"] | {"conditions": [said]}})
        await world.settle()
        told = world.condition("Retained")
        assert (told["reason"], told["message"][-5:]) == ("DeletionFailed", "words"), reason

    world.kube.remove(ETCD_BACKUPS, "default", world.name("03:00"))
    await world.settle()
    assert world.condition("Retained")["reason"] == "Kept"


@pytest.mark.parametrize("gone", [True, False])
def test_a_restore_that_is_being_deleted_reads_nothing_any_more(*, gone: bool) -> None:
    metadata = {"deletionTimestamp": "2026-11-21T03:00:00Z"} if gone else {}
    spec = {"etcdCluster": {"name": "c"}, "backupRef": {"name": "b"}}

    assert (in_use.read_from([{"metadata": metadata, "spec": spec}], []) == {"b"}) is not gone
