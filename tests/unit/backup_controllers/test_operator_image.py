"""Jobs whose pods cannot pull the operator's image: recreated once the operator has another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from restore_world import born
from worlds import drive

from etcd_operator.backup_controllers.backup import Backups
from etcd_operator.kube.api import JOBS, PODS
from etcd_operator.kube.events import Events
from etcd_operator.objects.jobs import is_unpullable
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.restore import parse_restore
from etcd_stateful.backup import deletion, outcome, plan, restores
from etcd_stateful.backup.observed import Job
from etcd_stateful.backup.steps import DeleteJob as DeleteBackupJob
from etcd_stateful.membership.steps import CreateJob, DeleteJob, Settled
from unit.backup_controllers.backup.one_backup import KEY, SPEC, STORED, World
from unit.backup_controllers.restore.one_restore import SPEC as RESTORE
from unit.membership.recovery.driving import drive_until, raised

NEW = "operator:2"


def job(made_with: str | None = "operator:1", **status: Any) -> dict[str, Any]:
    notes = {naming.OPERATOR_IMAGE: made_with} if made_with else {}
    return {"metadata": {"name": "j", "uid": "u", "annotations": notes}, "status": status}


def pod(container: str, reason: str = "ImagePullBackOff") -> dict[str, Any]:
    waits = {"name": container, "state": {"waiting": {"reason": reason}}}
    return {"metadata": {"name": "p"}, "status": {"initContainerStatuses": [waits]}}


@pytest.mark.parametrize("container", ["backup", "fetch", "finish", "prepare"])
@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName"])
def test_a_container_with_the_operator_s_image_waits_for_it(container: str, reason: str) -> None:
    assert is_unpullable(job(), pod(container, reason), NEW)


@pytest.mark.parametrize("container", ["etcd", "etcdutl"])
def test_the_image_of_etcd_is_not_the_operators(container: str) -> None:
    assert not is_unpullable(job(), pod(container), NEW)


@pytest.mark.parametrize(
    "other",
    [
        (job(NEW), pod("backup")),
        (job(None), pod("backup")),
        (job(), None),
        (job(), pod("backup", "PodInitializing")),
        (job(conditions=[{"type": "Failed", "status": "True"}]), pod("backup")),
    ],
    ids=["the same image", "made by an older operator", "no pod", "it starts", "over"],
)
def test_other_pods_and_jobs_are_not_recreated(other: Any) -> None:
    assert not is_unpullable(*other, NEW)


def image(world: World) -> str:
    [name] = world.jobs()
    template = world.kube.live(JOBS, name)["spec"]["template"]
    return str(template["spec"]["containers"][0]["image"])


def lack_image(world: World) -> None:
    world.run_pod()
    told = world.kube.live(PODS, "p1")
    waits = {"name": "backup", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    told["status"] = {"phase": "Pending", "containerStatuses": [waits]}
    world.kube.put(PODS, told)


def upgraded(world: World) -> None:
    assert world.kube.store is not None
    events = Events(world.kube, instance="test", clock=world.clock)
    world.backups = Backups(
        world.kube, world.kube.store, events, Metrics(), operator_image=NEW, ask=world._ask,
        wall_clock=world.clock,
    )  # fmt: skip


async def test_a_backup_waited_for_an_image_that_the_operator_no_longer_has() -> None:
    world = World()
    world.declare()
    await world.settle()
    lack_image(world)
    await world.settle()
    assert image(world) == "operator:1"

    upgraded(world)
    await world.backups.reconcile(KEY)
    world.kube.remove(PODS, "default", "p1")
    await world.settle()

    assert image(world) == NEW
    world.run_pod(name="p2", message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()
    assert world.status["succeeded"] is True


async def test_a_running_backup_is_not_ended_by_an_upgrade() -> None:
    world = World()
    world.declare()
    await world.settle()
    world.run_pod()

    upgraded(world)
    await world.settle()

    assert image(world) == "operator:1"


STUCK = Job("j", "u", "1", 0.0, "running", unpullable=True)


def test_a_trial_restore_a_deletion_and_a_description_are_recreated_as_well() -> None:
    backup = parse_backup({"metadata": {"name": "b"}, "spec": SPEC | {"deletionPolicy": "Delete"}})
    held = deletion.decide(
        backup, {}, (deletion.FINALIZER,), before=None, job=STUCK, told=1.0, read=False
    )

    assert isinstance(plan._trying(STUCK), DeleteBackupJob)
    assert isinstance(held, DeleteBackupJob)
    assert isinstance(restores._describe(_seen(STUCK)), DeleteBackupJob)
    assert not isinstance(
        restores._describe(_seen(replace(STUCK, unpullable=False))), DeleteBackupJob
    )


def _seen(found: Job) -> restores.ObservedRestore:
    metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
    return restores.ObservedRestore(
        parse_restore({"metadata": metadata, "spec": RESTORE}), {}, job=found
    )


def test_a_recovery_waited_for_an_image_that_the_operator_no_longer_has() -> None:
    world = raised()
    world.job_runs = False
    world.apply(drive_until(world, CreateJob))
    assert world.job is not None
    world.job = replace(world.job, unpullable=True)

    step = drive_until(world, DeleteJob)

    assert "its operator image cannot be pulled" in step.reason
    world.job_runs = True
    assert drive(world) == Settled()


def test_a_restore_waited_for_an_image_that_the_operator_no_longer_has() -> None:
    world = born()
    world.job_runs = False
    drive(world, idle=2)
    assert world.job is not None
    world.job = replace(world.job, unpullable=True)

    drive_until(world, DeleteJob)

    world.job_runs = True
    assert drive(world) == Settled()
    assert len(world.jobs) == 2
