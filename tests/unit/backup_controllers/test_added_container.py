"""A container that admission has added to a Job's pod, such as a service mesh's, and that never
ends. Kubernetes then counts the pod as running, whatever has become of the backup."""

from __future__ import annotations

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, JOBS, PODS
from etcd_operator.objects import jobs
from etcd_stateful import naming
from etcd_stateful.backup import outcome
from etcd_stateful.backup.outcome import Failure, Removed
from unit.backup_controllers.backup.one_backup import STORED, World

PROXY = {"name": "proxy", "state": {"running": {}}}
FAILURE = Failure("StoreUnreachable", "spec.s3.endpoint: no answer")


@pytest.fixture
def world() -> World:
    world = World()
    world.declare(deletionPolicy="Delete")
    return world


def end(world: World, message: str, code: int = 0) -> None:
    """The backup's own container ends, and the other goes on."""
    world.run_pod(message=message, code=code)
    pod = world.kube.live(PODS, "p1")
    pod["status"]["phase"] = "Running"
    pod["status"]["containerStatuses"].append(PROXY)
    world.kube.put(PODS, pod)


async def test_a_backup_that_was_stored_was_reported_as_starting_and_then_as_failed(
    world: World,
) -> None:
    """The file stayed for ever: a run of a schedule that has failed has stored nothing."""
    await world.settle()
    end(world, outcome.serialise(STORED))
    await world.settle()

    assert world.status["succeeded"] is True
    assert world.condition()["reason"] == "Stored"


async def test_a_backup_was_said_to_be_tried_again_for_a_day(world: World) -> None:
    """Kubernetes tries again only once the whole pod has ended."""
    await world.settle()
    end(world, outcome.serialise(FAILURE), code=1)
    await world.settle()

    assert world.status["succeeded"] is False
    assert world.status["reason"] == FAILURE.message


async def test_an_object_whose_files_were_deleted_stayed(world: World) -> None:
    await world.settle()
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"] |= {"deletionTimestamp": world.clock.rfc3339(), "generation": 2}
    world.kube.put(ETCD_BACKUPS, body)
    world.kube.remove(JOBS, "default", "b-backup-g1")
    await world.settle()
    assert world.jobs() == ["b-backup-delete-g2"]
    end(world, outcome.serialise(Removed(1)))
    await world.settle()

    assert not world.kube.live(ETCD_BACKUPS, "b")["metadata"].get("finalizers")


async def test_a_trial_restore_that_failed_is_tried_again(world: World) -> None:
    """Its etcd, a sidecar of ours, ends after it, and the pod's end begins the next try."""
    world.declare(deletionPolicy="Delete", verify="Restore")
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()
    world.run_pod(name="p2", message=outcome.serialise(FAILURE), code=1, of="b-backup-vg1")
    pod = world.kube.live(PODS, "p2")
    pod["status"] |= {"phase": "Running", "initContainerStatuses": [PROXY | {"name": "etcd"}]}
    world.kube.put(PODS, pod)
    await world.settle()

    assert world.condition()["message"].endswith("it is retried")


def test_no_member_was_defragmented_as_long_as_that_container_ran() -> None:
    pod = {"metadata": {"labels": {naming.LABEL_NAME: "etcd-backup"}}, "status": {}}
    for state, still in (({"running": {}}, True), ({"terminated": {"exitCode": 0}}, False)):
        own = {"name": "backup", "state": state}
        pod["status"] = {"phase": "Running", "containerStatuses": [own, PROXY]}
        assert jobs.backs_up(pod) is still


async def test_two_jobs_wrote_at_once_after_the_status_was_emptied(world: World) -> None:
    """A policy that alters Jobs had put its container first, so nobody could tell that the pod of
    the first Job writes."""
    await world.settle()
    job = world.kube.live(JOBS, "b-backup-g1")
    pod = job["spec"]["template"]["spec"]
    pod["containers"] = [{"name": "proxy", "env": []}, *pod["containers"]]
    world.kube.put(JOBS, job)
    world.run_pod()
    world.kube.put(ETCD_BACKUPS, world.kube.live(ETCD_BACKUPS, "b") | {"status": {}})
    world.declare(generation=2, deletionPolicy="Delete", verify="Hash")
    await world.settle()

    assert world.jobs() == ["b-backup-g1"]
