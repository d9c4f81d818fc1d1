"""Passes over an EtcdBackup: one Job per run, its order, its progress and its result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, EVENTS, JOBS, Rejected
from etcd_stateful.backup import order, outcome
from etcd_stateful.backup.outcome import Progress
from etcd_stateful.backup.plan import HOUR
from unit.backup_controllers.backup.one_backup import KEY, SPEC, STORED, World, made


async def test_a_private_build_with_a_long_version_had_its_status_refused(world: World) -> None:
    """The API server refused the whole status, so the backup never counted."""
    version = f"3.6.14-acme.1-g{'0123456789abcdef' * 4}-dirty"
    await world.settle()
    world.run_pod(message=outcome.serialise(replace(STORED, version=version)))
    world.end_job()
    await world.settle()

    assert world.status["etcdVersion"] == version[:64]


async def test_a_status_that_the_api_server_refused_was_told_to_nobody(world: World) -> None:
    error = Rejected("spec.s3: required", status=422)
    world.kube.failures["apply EtcdBackup/status"] = [error] * 9
    with pytest.raises(Rejected):
        await world.settle()

    told = [one for (kind, *_), one in world.kube.objects.items() if kind == EVENTS]
    assert [one["reason"] for one in told] == ["StatusRefused"]


async def test_a_backup_that_coreos_had_made_was_not_made_again_without_a_word(
    world: World,
) -> None:
    """It is there if the custom resource definitions were replaced and their objects stayed."""
    body = world.kube.live(ETCD_BACKUPS, "b")
    told = {"succeeded": True, "etcdVersion": "3.2.13", "etcdRevision": 42}
    world.kube.put(ETCD_BACKUPS, body | {"status": told})
    for generation in (1, 2):
        world.declare(generation, s3=SPEC["s3"] | {"path": f"mybucket/{generation}"})
        assert await world.settle() is None
        assert world.condition()["status"] == "True"
        assert "succeeded under the coreos operator; to back up" in world.condition()["message"]
    assert world.jobs() == []


async def test_a_single_backup_was_to_keep_three_and_kept_all_without_a_word(world: World) -> None:
    """With coreos it deleted the others. One at an interval still does."""
    world.declare(backupPolicy={"maxBackups": 3})
    await world.settle()
    said = world.condition("Accepted")
    world.declare(2, backupPolicy={"maxBackups": 3, "backupIntervalInSecond": 3600})
    await world.settle()

    assert said["status"] == "True"
    assert said["message"].startswith("spec.backupPolicy.maxBackups: has no effect without")
    assert world.condition("Accepted")["message"] == "every field is understood"


async def test_one_object_is_one_backup(world: World) -> None:
    await made(world)

    status = world.status
    assert status["succeeded"] is True
    assert (status["etcdVersion"], status["etcdRevision"]) == ("3.7.3", 42)
    assert status["lastSuccessDate"] == world.clock.rfc3339()
    assert status["location"] == "s3://mybucket/etcd.backup"
    assert status["reason"] == status["Reason"] == ""
    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "Stored")
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}
    world.clock.now += 1e6
    calls = world.kube.calls.copy()
    assert await world.settle() is None
    assert world.jobs() == ["b-backup-g1"]
    assert world.kube.calls == calls, "a backup that is made costs nothing"


async def test_the_job_gets_its_order_without_secrets(world: World) -> None:
    await world.settle()

    job = world.kube.live(JOBS, "b-backup-g1")
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    told = order.parse(container["env"][0]["value"])
    assert told.endpoints == ("http://c:2379",)
    assert told.store.secret == "aws"
    assert [one["secret"]["secretName"] for one in pod["volumes"]] == ["aws"]
    assert pod["automountServiceAccountToken"] is False
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-b"


async def test_a_backup_counted_as_ready_between_the_note_of_its_job_and_the_next_pass(
    world: World,
) -> None:
    """For Helm's `--wait` and Flux: its generation was observed, and there was no `Ready`."""
    assert await world.backups.reconcile(KEY) == 0.0

    assert world.status["observedGeneration"] == 1
    assert world.condition("Ready")["status"] == "Unknown"
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}
    before = world.status
    await world.settle()
    assert world.status == before, "the next pass has nothing new to say"


async def test_a_backup_counted_as_ready_and_waited_while_the_operators_clock_was_behind(
    world: World,
) -> None:
    """By that clock it had not been created yet, so it was taken for one that waits for the end of
    its first interval."""
    world.clock.now -= HOUR

    assert await world.backups.reconcile(KEY) == 0.0

    assert world.jobs() == ["b-backup-g1"]
    assert world.condition("Ready")["status"] == "Unknown"


async def test_progress_is_shown_while_it_runs(world: World) -> None:
    await world.settle()
    world.run_pod()
    world.progress = Progress(10, 100, 5)

    assert await world.settle() == 2.0

    assert world.status["progress"] == {"bytes": 10, "totalBytes": 100, "bytesPerSecond": 5}
    assert world.condition()["reason"] == "Running"
    assert world.condition("Ready") == {**world.condition(), "type": "Ready"}


async def test_an_upload_was_reported_before_there_was_one(world: World) -> None:
    """So of each try that found no etcd to ask."""
    await world.settle()
    world.run_pod()
    world.progress = Progress(0, 0, 0)
    await world.settle()

    assert world.condition()["message"] == "Job b-backup-g1 has begun; nothing is uploaded yet"


async def test_a_pod_that_had_stored_its_backup_was_reported_as_starting(world: World) -> None:
    """Until its Job was complete as well, which may take Kubernetes some seconds."""
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    await world.settle()

    assert world.condition()["message"] == "the backup is stored; Job b-backup-g1 is about to end"
    assert "succeeded" not in world.status


async def test_progress_is_gone_when_it_is_over(world: World) -> None:
    await world.settle()
    world.run_pod()
    world.progress = Progress(10, 100, 5)
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()

    assert "progress" not in world.status
