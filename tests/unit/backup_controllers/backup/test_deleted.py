"""EtcdBackups that are deleted, with or without their files, and applied again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from worlds import body as cluster_body

from etcd_operator.backup_controllers import jobs
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_RESTORES,
    EVENTS,
    JOBS,
    REJECTED_SECONDS,
    SECRETS,
    Json,
    Rejected,
    Unavailable,
)
from etcd_stateful import naming
from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.stores import Store as Place
from etcd_stateful.backup import deletion, order, outcome
from etcd_stateful.backup.deletion import AGAIN_SECONDS
from etcd_stateful.backup.outcome import Failure
from etcd_stateful.backup.plan import SLOW_SECONDS
from etcd_stateful.backup.reference import Chosen
from etcd_stateful.records import bootstrap as records
from unit.backup_controllers.backup.one_backup import KEY, STORED, Skewed, World, made
from unit.backup_controllers.restore.one_restore import secret_with


class TestWithTheObject:
    """deletionPolicy."""

    async def gone(self, world: World) -> None:
        """Does what `kubectl delete` does first: to the API server it is an edit."""
        body = world.kube.live(ETCD_BACKUPS, "b")
        assert body["metadata"]["finalizers"]
        body["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
        body["metadata"]["generation"] += 1
        world.kube.put(ETCD_BACKUPS, body)

    def finalizers(self, world: World) -> list[str]:
        return world.kube.live(ETCD_BACKUPS, "b")["metadata"].get("finalizers") or []

    async def test_by_default_nothing_delays_the_deletion(self, world: World) -> None:
        await made(world)

        assert not self.finalizers(world)

    async def test_the_finalizer_is_set_before_anything_is_stored(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        assert await world.backups.reconcile(KEY) == 0.0

        assert self.finalizers(world) == ["etcd.database.coreos.com/stored-backup"]
        assert world.jobs() == []

    async def test_stored_files_are_deleted_before_the_object(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        await world.settle()

        assert world.jobs() == ["b-backup-delete-g2", "b-backup-g1"]
        job = world.kube.live(JOBS, "b-backup-delete-g2")
        told = job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]
        assert order.parse(told).action == "delete"
        assert order.parse(told).owner_uid == "uid-b"
        assert self.finalizers(world)
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        world.kube.put(JOBS, job)
        await world.settle()
        assert not self.finalizers(world)

    async def test_a_running_backup_is_ended_first(self, world: World) -> None:
        """Otherwise it would store again what was just deleted."""
        world.declare(deletionPolicy="Delete")
        await world.settle()
        world.run_pod()
        await world.settle()
        await self.gone(world)
        await world.settle()
        world.stop_pod()
        await world.settle()

        assert world.jobs() == ["b-backup-delete-g2"]

    async def test_a_backup_that_was_being_stopped_stored_its_file_after_its_deletion(
        self, world: World
    ) -> None:
        """Its Job was gone at once, and its pod had another half minute to finish."""
        world.declare(deletionPolicy="Delete")
        await world.settle()
        world.run_pod()
        await world.settle()
        await self.gone(world)
        assert await world.settle()

        assert world.jobs() == ["b-backup-g1"]
        assert world.condition()["reason"] == "Deleting"
        assert "b-backup-g1" in world.condition()["message"]

    async def test_a_backup_without_a_status_stored_its_file_after_its_deletion(
        self, world: World
    ) -> None:
        """The Job was created, but its name was not recorded yet, or somebody had emptied the
        status."""
        world.declare(deletionPolicy="Delete")
        await world.backups.reconcile(KEY)
        await world.backups.reconcile(KEY)
        world.run_pod()
        world.kube.put(ETCD_BACKUPS, world.kube.live(ETCD_BACKUPS, "b") | {"status": {}})
        await self.gone(world)
        await world.settle()

        assert world.jobs() == ["b-backup-g1"]
        world.stop_pod()
        await world.settle()
        assert world.jobs() == ["b-backup-delete-g2"]

    @pytest.mark.parametrize(
        ("changes", "also"),
        [
            ({}, ()),
            ({"s3": {"path": "mybucket/new", "awsSecret": "aws"}}, (STORED.location,)),
            ({"s3": {"path": "other/etcd.backup", "awsSecret": "aws"}}, (STORED.location,)),
        ],
    )
    async def test_after_an_edit_of_the_path_only_the_new_path_was_searched(
        self, world: World, changes: Json, also: tuple[str, ...]
    ) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        world.kube.put(ETCD_BACKUPS, body | {"spec": body["spec"] | changes})
        await self.gone(world)
        await world.settle()

        job = world.kube.live(JOBS, "b-backup-delete-g2")
        told = order.parse(job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
        assert told.also == also

    @pytest.mark.parametrize("stops", [False, True], ids=["had just ended", "was being stopped"])
    async def test_what_a_run_had_stored_before_its_path_was_edited_stayed_after_the_deletion(
        self, world: World, stops: bool
    ) -> None:
        """No pass had come between the end of the run, the edit and the deletion, so only the
        report of its Job told of that file."""
        world.declare(deletionPolicy="Delete")
        await world.settle()
        world.run_pod()
        await world.settle()
        body = world.kube.live(ETCD_BACKUPS, "b")
        path = {"path": "mybucket/new", "awsSecret": "aws"}
        world.kube.put(ETCD_BACKUPS, body | {"spec": body["spec"] | {"s3": path}})
        await self.gone(world)
        if stops:
            await world.settle()
        world.run_pod(message=outcome.serialise(STORED))
        if not stops:
            world.end_job()
        await world.settle()

        assert world.status["unproven"] == STORED.location
        if stops:
            world.stop_pod()
        await world.settle()
        job = world.kube.live(JOBS, "b-backup-delete-g2")
        told = order.parse(job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
        assert told.also == (STORED.location,)

    async def test_files_in_two_buckets_could_not_be_deleted_whichever_of_them_the_spec_named(
        self, world: World
    ) -> None:
        """The Job in each reported the file in the other, also once that had been deleted."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        told = body["status"] | {"unproven": "s3://other/etcd.backup"}
        world.kube.put(ETCD_BACKUPS, body | {"status": told})
        await self.gone(world)
        await world.settle()
        elsewhere = Failure(deletion.FAILED, "'s3://other/etcd.backup' is not in it", final=True)
        world.run_pod(name="p2", message=outcome.serialise(elsewhere), of="b-backup-delete-g2")
        self.fail(world)
        await world.settle()

        assert "location" not in world.status
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["s3"]["path"] = "other/etcd.backup"
        body["metadata"]["generation"] += 1
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()
        job = world.kube.live(JOBS, "b-backup-delete-g3")
        told = order.parse(job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
        assert told.also == ()

    async def test_what_a_store_has_not_deleted_stays_in_the_status(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        await world.settle()
        silent = Failure("StoreUnreachable", "it does not answer")
        world.run_pod(name="p2", message=outcome.serialise(silent), of="b-backup-delete-g2")
        self.fail(world)
        await world.settle()

        assert world.status["location"] == STORED.location

    @pytest.mark.parametrize("seen", [True, False], ids=["", "the watch is late"])
    @pytest.mark.parametrize("periodic", [False, True])
    async def test_what_a_restore_was_about_to_read_was_deleted(
        self, world: World, periodic: bool, seen: bool
    ) -> None:
        """A script tidied up old EtcdBackups, one of which was all that was left of a cluster."""
        policy = {"backupPolicy": {"backupIntervalInSecond": 60}} if periodic else {}
        world.declare(deletionPolicy="Delete", **policy)
        await world.settle()
        stamp = "_v7_2026-01-01-00:00:00" if periodic else ""
        path = {"path": f"mybucket/etcd.backup{stamp}", "awsSecret": "aws"}
        spec = {"etcdCluster": {"name": "c"}, "backupStorageType": "S3", "s3": path}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-c", "generation": 1}
        world.kube.watching = seen
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
        world.kube.watching = True
        for job in world.jobs():
            world.kube.remove(JOBS, "default", job)
        await self.gone(world)

        assert await world.settle() == SLOW_SECONDS

        assert world.condition()["reason"] == "Deleting"
        assert (
            "an EtcdRestore of this namespace that is not over names it"
            in world.condition()["message"]
        )
        assert "set deletionPolicy to Retain" in world.condition()["message"]
        assert world.jobs() == []
        world.kube.put(
            ETCD_RESTORES, {"metadata": metadata, "spec": spec, "status": {"succeeded": True}}
        )
        await world.settle()
        assert world.jobs() == ["b-backup-delete-g2"]

    async def test_what_a_restore_had_looked_up_was_deleted_with_its_object(
        self, world: World
    ) -> None:
        """It names the EtcdBackup; only the record of its cluster names the file."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        read = Place("S3", "mybucket", "etcd.backup", "aws")
        cluster = replace(parse_cluster(cluster_body()), namespace="default")
        first = records.first_attempt(cluster.uid, {"c-0": "https://c-0:2380"}, "3.7.3")
        record = records.restoring(first, size=3, chosen=Chosen("b", read))
        world.kube.put(SECRETS, secret_with(cluster, record))
        await self.gone(world)

        assert await world.settle() == SLOW_SECONDS
        assert world.jobs() == ["b-backup-g1"]

    async def test_files_of_a_periodic_backup_are_found_by_their_path(self, world: World) -> None:
        policy = {"backupIntervalInSecond": 60}
        world.declare(deletionPolicy="Delete", backupPolicy=policy)
        body = parse_backup(world.kube.live(ETCD_BACKUPS, "b"))
        at = f"{STORED.location}_v7_2026-01-01-00:00:00"

        assert deletion.other_locations(body, {"location": at}) == ()
        old = at.replace("etcd.backup", "old")
        assert deletion.other_locations(body, {"location": old, "unproven": at}) == (old,)

    async def test_a_failed_deletion_is_reported_and_retain_gives_up(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        await world.settle()
        self.fail(world)
        await world.settle()

        assert world.condition()["reason"] == "DeletionFailed"
        assert "Retain" in world.condition()["message"]
        [event] = [
            one
            for (kind, *_), one in world.kube.objects.items()
            if kind == EVENTS and one["reason"] == "DeletionFailed"
        ]
        assert event["type"] == "Warning"
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["deletionPolicy"] = "Retain"
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()
        assert not self.finalizers(world)

    def fail(self, world: World, name: str = "b-backup-delete-g2") -> str:
        """Lets the Job fail, and returns its UID."""
        job = world.kube.live(JOBS, name)
        job["status"] = {"conditions": [{"type": "Failed", "status": "True", "reason": "Limit"}]}
        world.kube.put(JOBS, job)
        return str(job["metadata"]["uid"])

    async def failed(self, world: World) -> str:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        await world.settle()
        uid = self.fail(world)
        await world.settle()
        return uid

    @pytest.mark.parametrize("ahead", [0, 86400, -86400])
    async def test_a_failed_deletion_is_retried(self, world: World, ahead: int) -> None:
        """Correcting the credentials in the Secret had no effect, and the object stayed for
        good. If the clock of the API server was wrong, it was retried a day later, or at once and
        without ever saying why it failed."""
        world.kube.clock = Skewed(world.clock, ahead)
        uid = await self.failed(world)
        world.clock.now += AGAIN_SECONDS - 60
        await world.settle()
        assert world.kube.live(JOBS, "b-backup-delete-g2")["metadata"]["uid"] == uid
        assert world.condition()["reason"] == "DeletionFailed"
        world.clock.now += 60
        await world.settle()

        job = world.kube.live(JOBS, "b-backup-delete-g2")
        assert job["metadata"]["uid"] != uid
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        world.kube.put(JOBS, job)
        await world.settle()
        assert not self.finalizers(world)

    async def test_a_deletion_that_failed_while_a_clock_was_ahead_is_retried(
        self, world: World
    ) -> None:
        world.clock.now += 365 * 86400
        uid = await self.failed(world)
        world.clock.now -= 365 * 86400
        await world.settle()

        assert world.kube.live(JOBS, "b-backup-delete-g2")["metadata"]["uid"] != uid

    async def test_an_edit_retries_a_failed_deletion_at_once(self, world: World) -> None:
        await self.failed(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["s3"]["awsSecret"] = "mended"
        body["metadata"]["generation"] = 3
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert "b-backup-delete-g3" in world.jobs()
        assert world.condition()["reason"] == "Deleting"

    async def test_another_owners_job_does_not_count_as_the_deletion(self, world: World) -> None:
        """When it ended, the object was let go and nothing had been deleted."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        done = {"conditions": [{"type": "Complete", "status": "True"}]}
        metadata = {"namespace": "default", "name": "b-backup-delete-g2"}
        world.kube.put(JOBS, {"metadata": metadata, "status": done})
        await world.settle()

        assert self.finalizers(world)
        assert world.condition()["reason"] == "JobOfAnother"
        assert world.kube.calls["delete Job"] == 0

    async def test_a_namespace_that_is_being_deleted_is_not_delayed(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        words = "forbidden: unable to create: namespace default is being terminated"
        world.kube.failures["create Job"] = [Rejected(words, status=403)]
        await world.backups.reconcile(KEY)

        assert not self.finalizers(world)

    async def test_a_quota_that_refuses_the_deletion_does_not_leave_the_file_behind(
        self, world: World
    ) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        world.kube.failures["create Job"] = [Rejected("exceeded quota", status=403)]
        await world.settle()

        assert self.finalizers(world)
        assert "exceeded quota" in world.condition()["message"]

    async def test_a_job_that_has_no_pod_yet_stored_its_file_after_the_deletion(
        self, world: World
    ) -> None:
        """Somebody had emptied the status, so only the name of its run led to it."""
        world.declare(deletionPolicy="Delete")
        await world.settle()
        world.kube.put(ETCD_BACKUPS, world.kube.live(ETCD_BACKUPS, "b") | {"status": {}})
        await self.gone(world)
        await world.settle()

        assert world.jobs() == ["b-backup-delete-g2"]

    async def test_a_finalizer_that_the_watch_has_yet_to_tell_of_is_kept(
        self, world: World
    ) -> None:
        world.declare(deletionPolicy="Delete")
        body = world.kube.live(ETCD_BACKUPS, "b")
        world.kube.watching = False
        body["metadata"]["finalizers"] = ["example.com/theirs"]
        world.kube.put(ETCD_BACKUPS, body)
        world.kube.watching = True

        assert await world.backups.reconcile(KEY) == 1.0
        assert self.finalizers(world) == ["example.com/theirs"]

    async def test_if_the_role_is_deleted_first_the_remedy_is_logged_once(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As when the namespace of both is deleted: not even the status can be written."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        for call in ("get Job", "patch EtcdBackup", "apply EtcdBackup/status"):
            world.kube.failures[call] = [Rejected("forbidden", status=403)] * 99
        caplog.clear()
        for _ in range(5):
            assert await world.backups.reconcile(KEY) == REJECTED_SECONDS
        said = [one.getMessage() for one in caplog.records]
        assert len(said) == 1
        assert "kubectl patch etcdbackup b --namespace default" in said[0]
        assert self.finalizers(world)

        world.kube.failures.clear()
        await world.settle()
        assert "b-backup-delete-g2" in world.jobs()

    async def test_an_invalid_spec_does_not_delay_the_deletion(self, world: World) -> None:
        world.declare(deletionPolicy="Delete")
        await made(world)
        await self.gone(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["storageType"] = "FTP"
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert not self.finalizers(world)

    async def test_an_object_that_is_gone_was_patched_without_a_pause_until_the_watch_said_so(
        self, world: World
    ) -> None:
        """If the watch was broken, for minutes."""
        world.declare(deletionPolicy="Delete")
        await made(world)
        world.declare(generation=2, deletionPolicy="Retain")
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["metadata"] |= {"finalizers": [deletion.FINALIZER]}
        world.kube.put(ETCD_BACKUPS, body)
        await self.gone(world)
        world.kube.failures["patch EtcdBackup"] = [Rejected("it is gone", status=404)]

        assert await world.backups.reconcile(KEY) == 1.0

    async def test_another_finalizer_is_left_alone(self, world: World) -> None:
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["metadata"]["finalizers"] = ["other/one"]
        world.kube.put(ETCD_BACKUPS, body)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["deletionPolicy"] = "Delete"
        world.kube.put(ETCD_BACKUPS, body)
        await world.backups.reconcile(KEY)
        await self.gone(world)
        body = world.kube.live(ETCD_BACKUPS, "b")
        body["spec"]["deletionPolicy"] = "Retain"
        world.kube.put(ETCD_BACKUPS, body)
        await world.settle()

        assert self.finalizers(world) == ["other/one"]


async def test_the_end_of_a_backup_is_an_event(world: World) -> None:
    await made(world)

    assert any(kind == EVENTS for kind, *_ in world.kube.objects)


@pytest.mark.parametrize("name", ["b", "b" * 42, "b" * 43, "b" * 253, "a.b", "a-" * 30 + "a"])
def test_the_name_of_a_job_is_valid_whatever_the_name_of_the_backup(name: str) -> None:
    found = naming.backup_job(name, "1700003600")

    assert len(found) <= 63
    assert "." not in found
    assert naming.backup_job(name + "x", "1700003600") != found
    assert naming.backup_job("a-b", "g1") != naming.backup_job("a.b", "g1")


class TestAppliedAgain:
    """An object that was saved with what the operator had written into it, and applied again."""

    def order(self, world: World) -> order.Order:
        [name] = world.jobs()
        [container] = world.kube.live(JOBS, name)["spec"]["template"]["spec"]["containers"]
        [told] = [one["value"] for one in container["env"] if one["name"] == order.VARIABLE]
        return order.parse(told)

    async def test_an_object_deleted_and_applied_again_is_distinguished_from_a_new_one(
        self, world: World
    ) -> None:
        await world.settle()
        assert not self.order(world).brought_back
        saved = world.kube.live(ETCD_BACKUPS, "b")["metadata"]["annotations"]

        again = World()
        again.declare(uid="uid-of-the-copy")
        body = again.kube.live(ETCD_BACKUPS, "b")
        again.kube.put(ETCD_BACKUPS, body | {"metadata": body["metadata"] | {"annotations": saved}})
        await again.settle()

        assert self.order(again).brought_back
        kept = again.kube.live(ETCD_BACKUPS, "b")["metadata"]["annotations"]
        assert kept == saved, "a try later it would be forgotten"

    async def test_an_object_is_marked_before_its_job_is_created(self, world: World) -> None:
        world.kube.failures["create Job"] = [Unavailable("down")]
        with pytest.raises(Unavailable):
            await world.backups.reconcile(KEY)

        notes = world.kube.live(ETCD_BACKUPS, "b")["metadata"]["annotations"]
        assert notes == {naming.BEGUN_AS: "uid-b"}

    async def test_a_backup_with_an_interval_is_not_marked(self, world: World) -> None:
        world.declare(backupPolicy={"backupIntervalInSecond": 60})
        await world.settle()
        world.clock.now += 61
        await world.settle()

        assert world.jobs()
        assert "annotations" not in world.kube.live(ETCD_BACKUPS, "b")["metadata"]


async def test_each_question_to_a_pod_that_hangs_left_a_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any pod with the labels of a backup could use up all file descriptors of the operator."""
    closed = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    monkeypatch.setattr(order, "PROGRESS_PORT", server.sockets[0].getsockname()[1])
    monkeypatch.setattr(jobs, "PROGRESS_SECONDS", 0.02)
    async with server:
        assert await jobs.ask_progress("127.0.0.1") is None

        await asyncio.wait_for(closed.wait(), 1)


async def test_a_pod_that_never_ends_its_line_stopped_the_passes_over_its_backup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 2**18)
        writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    monkeypatch.setattr(order, "PROGRESS_PORT", server.sockets[0].getsockname()[1])
    async with server:
        assert await jobs.ask_progress("127.0.0.1") is None
