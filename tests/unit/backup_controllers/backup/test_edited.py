"""An EtcdBackup that is edited before, during and after its run."""

from __future__ import annotations

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_RESTORES, JOBS, Json
from etcd_stateful import naming
from etcd_stateful.backup import deletion, order, outcome
from unit.backup_controllers.backup.one_backup import KEY, SPEC, STORED, World, made


async def test_a_failed_backup_runs_again_when_the_spec_is_corrected(world: World) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.declare(generation=2)
    await world.settle()

    assert world.jobs() == ["b-backup-g1", "b-backup-g2"]


async def test_a_failed_backup_does_not_run_again_when_its_schedule_deletes_it(
    world: World,
) -> None:
    """Before it is deleted, it is told to delete what it stored, which is an edit."""
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.declare(generation=2, deletionPolicy="Delete")
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"]["annotations"] = {naming.LET_GO: "retention"}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]


async def test_two_jobs_wrote_to_one_path_after_two_edits_while_the_first_job_was_noted(
    world: World,
) -> None:
    """The note failed, and the Job was created all the same. After the edits nobody knew of it."""

    def edit(generation: int) -> None:
        world.declare(generation=generation, verify="Hash" if generation == 2 else None)
        if generation == 2:
            world.kube.before["apply EtcdBackup/status"] = lambda: edit(3)

    world.kube.before["apply EtcdBackup/status"] = lambda: edit(2)
    await world.settle()
    await world.settle()

    assert world.jobs() == ["b-backup-g3"]
    assert world.status["job"] == "b-backup-g3"


async def test_a_job_was_forgotten_that_ended_after_its_interval_was_set_back(world: World) -> None:
    """The run of the first interval had a Job already, and the status named that one instead. The
    next run began while the pod of the other was still writing."""
    for generation, interval in enumerate((60, 600, 60), 1):
        world.declare(generation, backupPolicy={"backupIntervalInSecond": interval})
        world.clock.now += interval
        for _ in range(3):
            await world.settle()
        if generation == 1:
            world.run_pod(message=outcome.serialise(STORED))
            world.end_job()
        elif generation == 2:
            stopping, all_jobs = world.status["job"], world.jobs()
            world.run_pod(name="p2", of=stopping)
    for _ in range(3):
        world.clock.now += 61
        await world.settle()

    assert len(all_jobs) == 2
    assert "deletionTimestamp" in world.kube.live(JOBS, stopping)["metadata"]
    assert (world.status["job"], world.jobs()) == (stopping, all_jobs)


async def test_a_copy_of_a_backup_that_its_schedule_was_deleting_was_never_begun_nor_said_why(
    world: World,
) -> None:
    """While the store refused its deletion, the namespace was saved, and then restored from that.
    It counted as running, so its schedule missed every later run."""
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"]["annotations"] = {naming.LET_GO: "retention"}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert world.condition()["reason"] == "Starting"


@pytest.mark.parametrize("how", ["by place", "by name"])
async def test_a_job_was_not_told_that_a_restore_is_about_to_read_what_it_would_replace(
    world: World, how: str
) -> None:
    """Retention knew, and a script that makes an EtcdBackup with the same path each hour did
    not."""
    spec: Json = {"etcdCluster": {"name": "c"}, "backupRef": {"name": "before"}}
    if how == "by place":
        spec = {"etcdCluster": {"name": "c"}, "backupStorageType": "S3", "s3": SPEC["s3"]}
    metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
    world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
    before: Json = {"namespace": "default", "name": "before", "uid": "uid-o", "generation": 1}
    status = {"succeeded": True, "location": "s3://mybucket/etcd.backup"}
    world.kube.put(ETCD_BACKUPS, {"metadata": before, "spec": SPEC, "status": status})
    world.declare()
    await world.settle()

    pod = world.kube.live(JOBS, "b-backup-g1")["spec"]["template"]["spec"]
    told = order.parse(pod["containers"][0]["env"][0]["value"])
    assert told.spare == ("etcd.backup",)


async def test_a_finished_backup_is_not_repeated(world: World) -> None:
    await made(world)
    world.declare(generation=2, etcdEndpoints=["http://other:2379"])
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]


async def test_kubectl_waited_for_ever_for_a_backup_that_was_edited_once_it_was_stored(
    world: World,
) -> None:
    """`kubectl wait` looks at the generation that a condition is about."""
    await made(world)
    before = world.condition()
    world.declare(generation=2, deletionPolicy="Delete")
    await world.settle()

    told = world.condition()
    assert told["observedGeneration"] == world.status["observedGeneration"] == 2
    same = ("status", "reason", "lastTransitionTime")
    assert [told[key] for key in same] == [before[key] for key in same]


async def test_a_backup_seemed_to_have_been_made_again_after_an_edit(world: World) -> None:
    """Its path was edited before an upgrade, and `Complete` was true for the edited spec."""
    await made(world)
    before = world.condition()["message"]
    for generation, path in ((2, "mybucket/another"), (3, "mybucket/a-third")):
        world.declare(generation=generation, s3=SPEC["s3"] | {"path": path})
        await world.settle()

    told = world.condition()
    assert told["message"].startswith(f"{before}. The spec was edited after that, which makes no")
    assert told["message"].count("create another EtcdBackup") == 1
    assert (told["status"], told["observedGeneration"]) == ("True", 3)
    calls = world.kube.calls.copy()
    await world.settle()
    assert world.kube.calls == calls, "once said it costs nothing"


async def test_a_backup_that_its_schedule_edits_does_not_speak_of_an_edit(world: World) -> None:
    await made(world)
    before = world.condition()["message"]
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"] |= {"generation": 2, "labels": {naming.SCHEDULE: "s"}}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    told = world.condition()
    assert (told["message"], told["observedGeneration"]) == (before, 2)


async def test_kubectl_waited_for_the_next_run_of_an_interval_that_was_edited(world: World) -> None:
    policy = {"backupIntervalInSecond": 1000}
    world.declare(backupPolicy=policy)
    world.clock.now += 1000
    await made(world)
    world.declare(generation=2, backupPolicy=policy, deletionPolicy="Delete")
    await world.settle()

    assert world.condition()["observedGeneration"] == 2


@pytest.mark.parametrize("succeeded", [True, False])
async def test_a_condition_without_reason_and_message_stopped_all_passes(
    world: World, succeeded: bool
) -> None:
    """The schema demands neither, and anybody with the right to may edit the status."""
    await made(world)
    body = world.kube.live(ETCD_BACKUPS, "b")
    conditions = [{"type": "Complete", "status": "False"}, {"type": "Mine", "status": "True"}]
    told = {**body["status"], "succeeded": succeeded, "reason": "why", "conditions": conditions}
    world.kube.put(ETCD_BACKUPS, body | {"status": told})
    await world.settle()

    assert world.condition()["status"] == str(succeeded)
    assert world.condition()["message"]


async def test_a_job_that_failed_was_not_reported_beside_a_condition_without_reason(
    world: World,
) -> None:
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    body = world.kube.live(ETCD_BACKUPS, "b")
    conditions = [{"type": "Complete", "status": "False"}]
    world.kube.put(ETCD_BACKUPS, body | {"status": {**body["status"], "conditions": conditions}})
    await world.settle()

    assert "BackoffLimitExceeded" in world.condition()["message"]


async def test_an_edit_of_the_spec_during_a_run_ends_the_first_job(world: World) -> None:
    """Two Jobs would write to one name at once."""
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=2)
    await world.settle()
    world.stop_pod()
    await world.settle()

    assert world.jobs() == ["b-backup-g2"]


async def test_an_edit_of_the_spec_during_a_run_did_not_wait_for_the_pod(world: World) -> None:
    """The Job was gone at once, and its pod could write to that name for another half minute."""
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=2)
    assert await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "b-backup-g1" in world.condition()["message"]


async def test_a_job_created_just_before_an_edit_wrote_beside_the_next_one(
    world: World,
) -> None:
    """The operator ended right after it had created the Job, or the edit came between two looks.
    The backup then had the file of one and the manifest of the other."""
    await world.backups.reconcile(KEY)
    assert world.jobs() == ["b-backup-g1"]
    world.run_pod()
    world.declare(generation=2)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "deletionTimestamp" in world.kube.live(JOBS, "b-backup-g1")["metadata"]
    world.stop_pod()
    await world.settle()
    assert world.jobs() == ["b-backup-g2"]


@pytest.mark.parametrize("edits", [1, 2])
@pytest.mark.parametrize("gone", [False, True])
async def test_two_jobs_wrote_at_once_after_the_status_was_emptied_and_the_spec_was_edited(
    world: World, edits: int, gone: bool
) -> None:
    """Only the status named the first. By then its pods still tell of it."""
    world.declare(deletionPolicy="Delete")
    await world.settle()
    world.run_pod()
    await world.settle()
    world.declare(generation=1 + edits, deletionPolicy="Delete")
    body = world.kube.live(ETCD_BACKUPS, "b") | {"status": {}}
    if gone:
        body["metadata"] |= {"deletionTimestamp": world.clock.rfc3339()}
    body["metadata"]["finalizers"] = [deletion.FINALIZER]
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
    assert "b-backup-g1 has to end first" in world.condition()["message"]
    world.stop_pod()
    await world.settle()
    assert world.jobs() == [f"b-backup-{'delete-' if gone else ''}g{1 + edits}"]


async def test_jobs_that_are_over_are_not_read_again_after_the_status_was_emptied(
    world: World,
) -> None:
    """Nor does one that stores nothing hold up a run."""
    await made(world)
    world.declare(generation=2)
    world.kube.put(ETCD_BACKUPS, world.kube.live(ETCD_BACKUPS, "b") | {"status": {}})
    await world.settle()

    assert world.jobs() == ["b-backup-g1", "b-backup-g2"]
    assert "unproven" not in world.status
