"""What others do to the Jobs of an EtcdBackup, and an API server that refuses or is away."""

from __future__ import annotations

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, JOBS, PODS, Json, Rejected, Unavailable
from etcd_stateful.backup import deletion, outcome
from unit.backup_controllers.backup.one_backup import KEY, STORED, World, made
from unit.backup_controllers.outages import end_in_a_bug, fail_until_reported


@pytest.mark.parametrize("gone", [False, True])
async def test_a_wait_for_an_unreachable_node_was_not_reported(world: World, gone: bool) -> None:
    world.declare(deletionPolicy="Delete")
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=2, deletionPolicy="Delete", etcdEndpoints=["http://d:2379"])
    body = world.kube.live(ETCD_BACKUPS, "b")
    if gone:
        body["metadata"] |= {"deletionTimestamp": world.clock.rfc3339()}
    body["metadata"]["finalizers"] = [deletion.FINALIZER]
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()
    assert "--force" not in world.condition()["message"]
    pod = world.kube.live(PODS, "p1")
    pod["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
    world.kube.put(PODS, {**pod, "spec": {"nodeName": "n7"}})
    world.clock.now += 60
    assert await world.settle()

    words = world.condition()["message"]
    assert "pod p1 was deleted and node n7 has not confirmed that it stopped" in words
    assert words.endswith("kubectl delete pod p1 --namespace default --force")
    assert world.condition()["reason"] == ("Deleting" if gone else "Starting")


async def test_a_job_that_ends_before_the_watch_reports_its_pod_is_not_lost(world: World) -> None:
    """If its pod were taken for gone, a finished backup would be deleted and repeated."""
    await world.settle()
    world.run_pod()
    await world.settle()
    world.kube.watching = False
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    world.kube.watching = True
    await world.settle()

    assert world.status["succeeded"] is True
    assert world.kube.calls["delete Job"] == 0


async def test_a_job_whose_pod_is_gone_is_repeated(world: World) -> None:
    await world.settle()
    world.end_job()
    await world.backups.reconcile(KEY)
    assert world.jobs() == []
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "succeeded" not in world.status


async def test_a_job_of_another_owner_is_left_alone(world: World) -> None:
    metadata = {"namespace": "default", "name": "b-backup-g1"}
    world.kube.put(JOBS, {"metadata": metadata})

    assert await world.settle() == 10.0

    assert world.condition()["reason"] == "JobOfAnother"
    assert world.kube.calls["delete Job"] == 0


async def test_a_job_of_an_earlier_object_is_waited_for(world: World) -> None:
    """The object was deleted and created again within a second: the Job's result does not belong to
    it."""
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    world.kube.remove(ETCD_BACKUPS, "default", "b")
    world.declare(uid="uid-next")

    assert await world.settle() == 1.0
    assert "succeeded" not in world.status


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"s3": {"path": "mybucket/../x", "awsSecret": "aws"}}, "spec.s3.path"),
        ({"etcdEndpoints": None}, "spec.etcdEndpoints"),
    ],
)
async def test_a_bad_spec_is_reported_with_its_field_and_creates_nothing(
    world: World, changes: Json, words: str
) -> None:
    world.declare(**changes)

    assert await world.settle() is None

    assert world.condition("Accepted")["reason"] == "InvalidSpec"
    assert words in world.condition("Accepted")["message"]
    assert world.jobs() == []


async def test_a_write_refused_by_the_api_server_is_reported(world: World) -> None:
    world.kube.failures["create Job"] = [Rejected("exceeded quota", status=403)]

    assert await world.settle() == 30.0

    assert "exceeded quota" in world.condition()["message"]
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}
    world.kube.failures["create Job"] = [Rejected("exceeded quota", status=403)]
    calls = world.kube.calls["apply EtcdBackup/status"]
    await world.settle()
    assert world.kube.calls["apply EtcdBackup/status"] == calls, "nothing has changed"


async def test_the_report_that_a_job_could_not_be_created_forgot_which(world: World) -> None:
    """It may have been created. After an edit, nobody knew of it, and two Jobs wrote one file."""
    for _ in range(8):
        world.kube.failures["create Job"] = [Unavailable("down")]
        with pytest.raises(Unavailable):
            await world.backups.reconcile(KEY)

    assert "down" in world.condition()["message"]
    assert world.status["job"] == "b-backup-g1"


async def test_a_read_refused_by_the_api_server_is_reported(world: World) -> None:
    world.kube.failures["get Job"] = [Rejected('jobs "b" is forbidden', status=403)]

    assert await world.settle() == 30.0
    assert world.condition()["reason"] == "Refused"
    assert "forbidden" in world.condition()["message"]

    await world.settle()
    assert world.jobs() == ["b-backup-g1"]


async def test_a_job_that_the_api_server_fails_to_create_is_reported(world: World) -> None:
    """A webhook was down, and the status said nothing for days."""
    await fail_until_reported(world, "create Job")
    await world.settle()

    assert world.condition()["reason"] == "Starting"


async def test_only_the_log_told_of_a_pass_that_ended_in_an_internal_error(world: World) -> None:
    await end_in_a_bug(world, "create Job")
    await world.settle()

    assert world.condition()["reason"] == "Starting"


async def outage(world: World) -> None:
    """A webhook is down while `deletionPolicy` is edited."""
    world.declare(generation=2, deletionPolicy="Delete")
    await fail_until_reported(world, "patch EtcdBackup")


async def test_a_stored_backup_was_reported_as_incomplete_forever_after_an_outage(
    world: World,
) -> None:
    await made(world)
    words = world.condition()["message"]
    await outage(world)
    await world.settle()

    told = world.condition()
    assert (told["status"], told["reason"], told["message"]) == ("True", "Stored", words)
    calls = world.kube.calls.copy()
    assert await world.settle() is None
    assert world.kube.calls == calls, "once said it costs nothing"


async def test_a_periodic_backup_was_reported_as_incomplete_until_the_next_run(
    world: World,
) -> None:
    world.declare(backupPolicy={"backupIntervalInSecond": 1000})
    world.clock.now += 1000
    await made(world)
    world.declare(generation=2, etcdEndpoints=None, backupPolicy={"backupIntervalInSecond": 1000})
    await world.settle()
    assert world.condition()["reason"] == "InvalidSpec"
    world.declare(generation=3, backupPolicy={"backupIntervalInSecond": 1000})
    assert await world.settle() is not None

    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "Stored")


async def test_the_reason_of_a_failed_backup_was_lost_after_an_outage(
    world: World,
) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.declare(generation=1, deletionPolicy="Delete")
    world.kube.failures["patch EtcdBackup"] = [Rejected("forbidden", status=403)]
    await world.settle()
    assert world.condition()["reason"] == "Refused"
    await world.settle()

    assert "BackoffLimitExceeded" in world.condition()["message"]
