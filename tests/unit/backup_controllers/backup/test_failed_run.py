"""Runs of an EtcdBackup that fail: what is said, and when it is final."""

from __future__ import annotations

import pytest

from etcd_operator.kube.api import JOBS, PODS
from etcd_stateful.backup import outcome
from etcd_stateful.backup.outcome import Failure, Progress
from unit.backup_controllers.backup.one_backup import STORED, World


async def test_a_failure_is_reported_while_it_is_retried(world: World) -> None:
    """Otherwise nothing would be reported for minutes, until the last attempt."""
    await world.settle()
    words = "spec.s3.path: there is no bucket 'mybucket'"
    world.run_pod(message=outcome.serialise(Failure("StoreRefused", words)), code=1)

    await world.settle()

    assert world.condition()["reason"] == "StoreRefused"
    assert words in world.condition()["message"]
    assert "succeeded" not in world.status


async def test_a_failure_is_final_once_the_job_is(world: World) -> None:
    await world.settle()
    failure = Failure("TimedOut", "spec.backupPolicy.timeoutInSecond: too long", final=True)
    world.run_pod(message=outcome.serialise(failure), code=3)
    world.end_job("Failed", reason="PodFailurePolicy", message="exit code 3")
    await world.settle()
    await world.settle()

    assert world.status["succeeded"] is False
    assert world.status["reason"] == world.status["Reason"] == failure.message
    assert world.jobs() == ["b-backup-g1"]


async def test_a_job_without_a_message_is_reported_with_the_message_of_kubernetes(
    world: World,
) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded", message="too many tries")
    await world.settle()

    assert "BackoffLimitExceeded: too many tries" in world.status["reason"]


async def test_attempts_that_fail_alike_changed_the_status_twice_each(world: World) -> None:
    await world.settle()
    failed = outcome.serialise(Failure("StoreRefused", "access denied"))
    world.run_pod(message=failed, code=1)
    await world.settle()
    told = world.condition()
    world.clock.now += 20

    for progress in (None, Progress(0, 0, 0)):
        world.run_pod(name="p2")
        world.progress = progress
        await world.settle()
        assert world.condition() == told
    world.run_pod(name="p2", message=failed, code=1)
    await world.settle()
    assert world.condition() == told

    world.run_pod(name="p2")
    world.progress = Progress(10, 100, 5)
    await world.settle()
    assert world.condition()["reason"] == "Running"


async def test_a_pod_without_memory_was_reported_as_a_limit_of_attempts(world: World) -> None:
    """A killed container leaves no message, so nothing said which limit to raise."""
    await world.settle()
    world.run_pod(message="", code=137)
    pod = world.kube.live(PODS, "p1")
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
    world.kube.put(PODS, pod)
    await world.settle()
    assert world.condition()["reason"] == "OutOfMemory"
    assert world.condition()["message"].endswith("it is retried")
    world.end_job("Failed", reason="BackoffLimitExceeded", message="Job has reached the limit")
    await world.settle()

    assert world.status["succeeded"] is False
    assert world.status["reason"].startswith("spec.pod.resources: container backup needs more")


async def test_kubectl_took_the_failure_before_an_edit_for_the_end_of_the_run_after_it(
    world: World,
) -> None:
    """`kubectl wait --for=jsonpath={.status.succeeded}` ended at once, and a script read false. The
    edit was what the message had asked for, and the backup was then made."""
    await world.settle()
    world.run_pod(message=outcome.serialise(Failure("TimedOut", "set it higher")), code=3)
    world.end_job("Failed")
    await world.settle()
    assert world.status["succeeded"] is False
    world.declare(generation=2)
    await world.settle()

    assert world.condition()["reason"] == "Starting"
    assert {"succeeded", "reason", "Reason"}.isdisjoint(world.status)
    world.run_pod(name="p2", message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()
    assert world.status["succeeded"] is True


@pytest.mark.parametrize("edited", [False, True])
async def test_a_file_that_was_not_read_back_in_time_stayed_when_its_schedule_deleted_its_object(
    world: World, edited: bool
) -> None:
    """Its status named no file, so only the object was deleted. Each run of `verify: Hash` left
    another file."""
    left = "s3://mybucket/etcd.backup"
    await world.settle()
    world.run_pod(message=outcome.serialise(Failure("TimedOut", "late", left=left)), code=1)
    if edited:
        world.declare(generation=2)
    else:
        world.end_job("Failed")
    await world.settle()

    assert world.status["unproven"] == left


async def test_a_file_of_an_attempt_was_forgotten_once_the_attempts_after_it_had_stored_nothing(
    world: World,
) -> None:
    """Only what the last one reports was read at the end. The members had died after the first, and
    its file stayed when the object was deleted."""
    left = "s3://mybucket/etcd.backup"
    await world.settle()
    first = Failure("VerificationFailed", "it reads back differently", left=left)
    world.run_pod(message=outcome.serialise(first), code=1)
    await world.settle()
    world.clock.now += 1
    last = Failure("EtcdUnreachable", "nobody answers")
    world.run_pod(name="p2", message=outcome.serialise(last), code=1)
    world.end_job("Failed")
    await world.settle()

    assert world.status["reason"] == "nobody answers"
    assert world.status["unproven"] == left


async def test_a_backup_that_has_failed_is_over_even_if_its_job_is_deleted(world: World) -> None:
    """Somebody may tidy up, and it must not begin again then."""
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.kube.remove(JOBS, "default", "b-backup-g1")

    assert await world.settle() is None
    assert world.jobs() == []


@pytest.mark.parametrize("seen", [True, False], ids=["", "the watch shows only the one before"])
async def test_a_job_out_of_time_counted_as_over_while_its_pod_still_stored(
    world: World, seen: bool
) -> None:
    """Kubernetes 1.30 reports a Job as failed while its pod still has time to stop. An edit then
    created a second pod, which wrote to the same place."""
    await world.settle()
    if not seen:
        failure = Failure("EtcdUnreachable", "nobody answers")
        world.run_pod(name="p0", message=outcome.serialise(failure), code=1)
        world.clock.now += 1
    world.kube.watching = seen
    world.run_pod()
    pod = world.kube.live(PODS, "p1")
    pod["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    world.kube.put(PODS, pod)
    world.kube.watching = True
    world.end_job("Failed", reason="DeadlineExceeded", message="Job was active too long")
    await world.settle()
    assert "succeeded" not in world.status
    world.declare(generation=2)
    await world.settle()
    assert world.jobs() == ["b-backup-g1"]

    world.stop_pod()
    await world.settle()
    assert world.jobs() == ["b-backup-g2"]
