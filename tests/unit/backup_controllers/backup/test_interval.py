"""EtcdBackups with `backupIntervalInSecond`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import body as cluster_body

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_RESTORES, JOBS, SECRETS
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.stores import Store as Place
from etcd_stateful.backup import order, outcome
from etcd_stateful.backup.clocks import LONGEST_WAIT
from etcd_stateful.backup.outcome import Failure
from etcd_stateful.backup.reference import Chosen
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.successor import successor
from unit.backup_controllers.backup.one_backup import KEY, STORED, Skewed, World, made
from unit.backup_controllers.restore.one_restore import secret_with


class TestAtAnInterval:
    async def start(self) -> World:
        world = World()
        world.declare(backupPolicy={"backupIntervalInSecond": 3600, "maxBackups": 2})
        return world

    async def run(self, world: World, failure: Failure | None = None) -> None:
        world.clock.now += 3600
        await world.settle()
        told = outcome.serialise(failure or STORED)
        world.run_pod(name=world.jobs()[-1], message=told, code=3 if failure else 0)
        world.end_job("Failed" if failure else "Complete")
        await world.settle()

    async def test_the_first_backup_comes_after_one_interval(self) -> None:
        world = await self.start()

        assert await world.settle() == pytest.approx(LONGEST_WAIT)
        assert world.jobs() == []
        assert world.condition()["reason"] == "Scheduled"
        world.clock.now += 3600 - 100
        assert await world.settle() == pytest.approx(100)
        world.clock.now += 100
        await world.settle()
        assert len(world.jobs()) == 1

    async def test_helm_and_flux_waited_for_the_first_interval_to_pass(self) -> None:
        world = await self.start()
        await world.settle()

        assert world.condition()["status"] == "Unknown"
        ready = {**world.condition(), "type": "Ready", "status": "True"}
        assert world.condition("Ready") == ready

    async def test_an_interval_whose_spec_is_refused_had_no_metric_once_the_operator_had_restarted(
        self,
    ) -> None:
        """A newer operator may refuse what an older one took. Then an alert by age is the only one
        that there is."""
        world = await self.start()
        await self.run(world)
        before = world.measured()
        policy = {"backupIntervalInSecond": 3600}
        world.declare(generation=2, backupPolicy=policy, storageType="Tape")
        world.backups._metrics = world.metrics = Metrics()
        await world.settle()

        assert world.condition("Accepted")["reason"] == "InvalidSpec"
        assert world.measured() == before != (None, None)

    async def test_a_deleted_interval_whose_spec_was_refused_kept_its_metrics(self) -> None:
        """While another tool's finalizer holds it, an alert by age would tell of missing backups
        that nobody expects any more."""
        world = await self.start()
        await self.run(world)
        policy = {"backupIntervalInSecond": 3600}
        world.declare(generation=2, backupPolicy=policy, storageType="Tape")
        await world.settle()
        assert world.measured() != (None, None)
        held = world.kube.live(ETCD_BACKUPS, "b")
        marks = {"deletionTimestamp": world.clock.rfc3339(), "finalizers": ["a-tool/archive"]}
        world.kube.put(ETCD_BACKUPS, {**held, "metadata": held["metadata"] | marks})
        await world.settle()

        assert world.measured() == (None, None)

    @pytest.mark.parametrize("ends", ["deleted", "edited to a single one"])
    async def test_no_metric_said_that_backups_at_an_interval_failed(self, ends: str) -> None:
        """There were metrics of schedules only."""
        world = await self.start()
        await world.settle()
        assert world.measured() == (None, None)
        await self.run(world)
        succeeded = world.clock.now
        assert world.measured() == (1, pytest.approx(succeeded, abs=1))
        await self.run(world, Failure("StoreRefused", "no", final=True))
        assert world.measured() == (0, pytest.approx(succeeded, abs=1))

        if ends == "deleted":
            world.kube.remove(ETCD_BACKUPS, "default", "b")
        else:
            world.declare(generation=2)
        await world.settle()
        assert world.measured() == (None, None)

    async def test_the_next_backup_comes_one_interval_after_the_start_of_this_one(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        began = world.clock.now
        world.clock.now += 100
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        after = await world.settle()

        assert after == pytest.approx(LONGEST_WAIT)
        assert world.status["succeeded"] is True
        world.clock.now = began + 3600
        await world.settle()
        assert len(world.jobs()) == 2

    async def test_the_next_backup_knows_which_one_was_verified_last(self) -> None:
        """It deletes old backups before it is verified itself."""
        world = await self.start()
        for number in range(2):
            world.clock.now += 3600
            await world.settle()
            world.run_pod(message=outcome.serialise(STORED))
            world.end_job(kind="Complete" if number == 0 else "Failed")
            await world.settle()
        world.clock.now += 3600
        await world.settle()

        pod = world.kube.live(JOBS, world.jobs()[-1])["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert told.spare == ("etcd.backup",)

    async def test_the_backup_that_a_restore_was_to_read_was_deleted_as_the_oldest(self) -> None:
        """It was from before the damage, which each hour's backup had by then."""
        world = await self.start()
        source = {"path": "mybucket/etcd.backup_v7_2026-01-01-00:00:00", "awsSecret": "aws"}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        spec = {"etcdCluster": {"name": "c"}, "backupStorageType": "S3", "s3": source}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
        world.clock.now += 3600
        await world.settle()

        pod = world.kube.live(JOBS, world.jobs()[-1])["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert told.spare == ("etcd.backup_v7_2026-01-01-00:00:00",)

    async def test_a_backup_that_ran_did_not_hear_of_a_restore_and_deleted_what_that_was_to_read(
        self,
    ) -> None:
        """Its Job knew only of the restores that there were when it was created."""
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        world.run_pod()
        [running] = world.jobs()
        path = {"path": "mybucket/etcd.backup_v7_2026-01-01-00:00:00", "awsSecret": "aws"}
        for name, source in (("d", path | {"path": "mybucket/another"}), ("c", path)):
            metadata = {"namespace": "default", "name": name, "uid": "uid-r", "generation": 1}
            spec = {"etcdCluster": {"name": name}, "backupStorageType": "S3", "s3": source}
            world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
            await world.settle()
            ended = "deletionTimestamp" in world.kube.live(JOBS, running)["metadata"]
            assert ended == (name == "c"), "it may delete backups at its own path alone"

        world.stop_pod(job=running)
        await world.settle()
        assert world.jobs() == [running]
        pod = world.kube.live(JOBS, running)["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert told.spare == ("etcd.backup_v7_2026-01-01-00:00:00",)
        await world.settle()
        assert "deletionTimestamp" not in world.kube.live(JOBS, running)["metadata"]

    @pytest.mark.parametrize("in_place", [False, True])
    async def test_what_a_restore_had_looked_up_was_deleted_after_some_more_backups(
        self, in_place: bool
    ) -> None:
        """It names the EtcdBackup, which has stored others since. The restore said that its file is
        not there, and went on looking for that one."""
        world = await self.start()
        read = Place("S3", "mybucket", "etcd.backup_v7_2026-01-01-00:00:00", "aws")
        cluster = replace(parse_cluster(cluster_body()), namespace="default")
        first = records.first_attempt(cluster.uid, {"c-0": "https://c-0:2380"}, "3.7.3")
        new = records.restoring(first, size=3, chosen=Chosen("b", read))
        taking = successor(
            cluster_uid=cluster.uid,
            restore="uid-r",
            epoch=2,
            first=("c-3", "https://c-3:2380"),
            bump=1,
            raised_by=1,
            store=read,
            backup="b",
        )
        record = replace(records.latch(first), successor=taking) if in_place else new
        world.kube.put(SECRETS, secret_with(cluster, record))
        world.clock.now += 3600
        await world.settle()

        pod = world.kube.live(JOBS, world.jobs()[-1])["spec"]["template"]["spec"]
        told = order.parse(pod["containers"][0]["env"][0]["value"])
        assert told.spare == (read.key,)

    async def test_many_missed_runs_are_replaced_by_one(self) -> None:
        """After the operator was away for a day, twenty-four backups at once would not help."""
        world = await self.start()
        world.clock.now += 24 * 3600
        await world.settle()
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()

        assert await world.settle() == pytest.approx(LONGEST_WAIT)
        assert len(world.jobs()) == 1

    @pytest.mark.parametrize("ahead", [600, 86400, -3600, -86400])
    async def test_a_clock_of_the_api_server_that_was_wrong_made_backups_without_a_pause(
        self, ahead: int
    ) -> None:
        """By its time of the Job's creation the next one was due at once, and `maxBackups` deleted
        all that were older than some minutes."""
        world = await self.start()
        world.kube.clock = Skewed(world.clock, ahead)
        world.kube.live(ETCD_BACKUPS, "b")["metadata"]["creationTimestamp"] = (
            world.kube.clock.rfc3339()
        )
        began, count = world.clock.now, 0
        while world.clock.now - began < 12 * 3600 and count < 100:
            count += 1
            while not (jobs := world.jobs()):
                world.clock.now += await world.settle() or 0.0
            world.clock.now += 5
            await world.settle()
            world.run_pod(message=outcome.serialise(STORED))
            world.end_job()
            await world.settle()
            world.kube.remove(JOBS, "default", jobs[0])

        assert 11 <= count <= 14

    async def test_after_a_clock_that_was_ahead_a_run_was_taken_for_the_next_one_too(self) -> None:
        """Set back, the clock said the second from which that run had been due. So the next one had
        the same time and the same Job, which was over, and no pass followed."""
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        world.clock.now -= 3600
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        await world.settle()

        assert await world.settle() == pytest.approx(LONGEST_WAIT)
        world.clock.now += 3601
        await world.settle()
        assert len(world.jobs()) == 2

    @pytest.mark.parametrize("ahead", [7200, 365 * 86400])
    async def test_a_clock_that_was_ahead_at_one_backup_put_off_all_later_ones(
        self, ahead: int
    ) -> None:
        """For a year no backup was taken, and the status kept reporting the last one."""
        world = await self.start()
        world.clock.now += 3600
        world.clock.now += ahead
        await world.settle()
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        await world.settle()
        world.clock.now -= ahead
        world.clock.now += 60
        await world.settle()
        assert len(world.jobs()) == 2
        world.run_pod(name="p2", message=outcome.serialise(STORED))
        world.end_job()
        assert await world.settle() == pytest.approx(LONGEST_WAIT)

        world.clock.now += 3590
        await world.settle()
        assert len(world.jobs()) == 2
        world.clock.now += 10
        await world.settle()
        assert len(world.jobs()) == 3

    async def test_a_timer_that_stops_while_the_machine_sleeps_is_late_by_minutes_only(
        self,
    ) -> None:
        """Timers use a clock that stops during sleep, and intervals may be days long."""
        world = World()
        world.declare(backupPolicy={"backupIntervalInSecond": 7 * 24 * 3600})

        assert await world.settle() == pytest.approx(LONGEST_WAIT)

    async def test_before_the_next_backup_is_due_no_request_is_sent(self) -> None:
        world = await self.start()
        await world.settle()
        world.kube.calls.clear()
        world.clock.now += LONGEST_WAIT
        await world.settle()
        assert not world.kube.calls

        world.clock.now += 3600
        await world.settle()
        world.run_pod(message=outcome.serialise(STORED))
        world.end_job()
        await world.settle()
        world.kube.calls.clear()
        world.clock.now += LONGEST_WAIT
        await world.settle()
        assert not world.kube.calls

    async def test_a_long_backup_is_not_overtaken_by_the_next(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        world.run_pod()
        world.clock.now += 3 * 3600
        await world.settle()

        assert len(world.jobs()) == 1

    async def test_a_failed_backup_is_not_the_last_one(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        await world.settle()
        world.end_job("Failed", reason="BackoffLimitExceeded")
        await world.settle()
        assert world.status["succeeded"] is False
        world.clock.now += 3600
        await world.settle()

        assert len(world.jobs()) == 2

    async def test_an_operator_that_dies_after_creating_the_job_creates_no_second_one(self) -> None:
        world = await self.start()
        world.clock.now += 3600
        # The Job is created, and the operator dies before that is recorded.
        assert await world.backups.reconcile(KEY) == 0.0
        world.clock.now += 30
        await world.settle()

        assert len(world.jobs()) == 1
        assert world.kube.calls["create Job"] == 1

    async def test_waiting_for_a_job_needs_no_request(self) -> None:
        world = await self.start()
        await world.settle()
        calls = world.kube.calls.copy()
        await world.settle()

        assert world.kube.calls["patch EtcdBackup/status"] == calls["patch EtcdBackup/status"]


async def test_only_a_backup_that_was_restored_is_reported_as_verified(world: World) -> None:
    await made(world)
    assert "verified" not in world.status

    world = World()
    world.declare(verify="Hash")
    await world.settle()
    world.run_pod(message=outcome.serialise(replace(STORED, verified=True)))
    world.end_job()
    await world.settle()
    assert world.status["verified"] == "Hash"
    assert world.status["verifiedDate"] == world.clock.rfc3339()
