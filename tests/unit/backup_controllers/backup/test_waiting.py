"""What an EtcdBackup waits for before its Job, and pods that cannot start."""

from __future__ import annotations

import pytest

from etcd_operator.kube.api import CLAIMS, ETCD_BACKUPS, EVENTS, Json
from etcd_stateful import naming
from etcd_stateful.backup.plan import DAY, HOUR
from unit.backup_controllers.backup.one_backup import World, made


async def test_a_missing_claim_is_reported_before_any_job(world: World) -> None:
    world.declare(storageType="Volume", s3=None, volume={"claimName": "v", "path": "etcd.db"})

    assert await world.settle() == 10.0
    assert "spec.volume.claimName" in world.condition()["message"]
    assert world.jobs() == []

    world.kube.put(CLAIMS, {"metadata": {"namespace": "default", "name": "v"}})
    await world.settle()
    assert world.jobs() == ["b-backup-g1"]


WAITS: dict[str, Json] = {
    "ClusterNotFound": {"etcdEndpoints": None, "clusterRef": {"name": "c"}},
    "VolumeNotFound": {
        "storageType": "Volume", "s3": None, "volume": {"claimName": "v", "path": "etcd.db"}
    },
}  # fmt: skip


@pytest.mark.parametrize("waits", WAITS)
async def test_a_backup_of_a_cluster_or_to_a_volume_that_never_came_kept_scripts_waiting(
    world: World, waits: str
) -> None:
    """`kubectl wait` for `succeeded` never ended."""
    world.declare(**WAITS[waits])
    await world.settle()
    world.clock.now += DAY - 60
    assert await world.settle() == 10.0
    assert "succeeded" not in world.status

    world.clock.now += 60
    assert await world.settle() is None
    assert world.status["succeeded"] is False
    assert "has not changed for a day, so this EtcdBackup is given up" in world.status["reason"]
    assert world.condition()["reason"] == waits
    assert any(one[0] == EVENTS for one in world.kube.objects)
    before = world.status
    world.kube.put(CLAIMS, {"metadata": {"namespace": "default", "name": "v"}})
    assert await world.settle() is None
    assert (world.status, world.jobs()) == (before, [])

    world.declare(generation=2, **WAITS[waits])
    if waits == "VolumeNotFound":
        await world.settle()
        assert world.jobs() == ["b-backup-g2"], "an edit is another try"
    else:
        assert await world.settle() == 10.0, "an edit begins another day"


async def test_a_backup_that_waited_while_a_clock_was_ahead_waited_until_that_time(
    world: World,
) -> None:
    """For a year, and a day."""
    world.clock.now += 365 * DAY
    world.declare(**WAITS["ClusterNotFound"])
    await world.settle()
    world.clock.now -= 365 * DAY
    assert await world.settle() is None

    assert world.status["succeeded"] is False


async def test_the_day_of_a_backup_begins_with_what_it_waits_for(world: World) -> None:
    """Not with a failure of long ago, after which the spec was edited."""
    await world.settle()
    world.end_job("Failed", reason="BackoffLimitExceeded")
    await world.settle()
    world.clock.now += 9 * DAY
    world.declare(generation=2, **WAITS["ClusterNotFound"])

    for _ in range(3):
        assert await world.settle() == 10.0
    assert world.condition()["reason"] == "ClusterNotFound"
    assert "given up" not in world.condition()["message"]


@pytest.mark.parametrize("waits", WAITS)
async def test_a_backup_at_an_interval_is_never_given_up(world: World, waits: str) -> None:
    """No other run waits for it, and it is made as soon as it can be."""
    world.declare(**WAITS[waits], backupPolicy={"backupIntervalInSecond": 100})
    for _ in range(3):
        world.clock.now += DAY
        assert await world.settle() == 10.0

    assert world.condition()["reason"] == waits
    assert "succeeded" not in world.status


async def test_one_run_without_its_cluster_kept_all_further_runs_of_a_schedule_from_beginning(
    world: World,
) -> None:
    """They are missed while it runs. So it ends after an hour, as one does whose pod never
    starts."""
    world.declare(**WAITS["ClusterNotFound"])
    body = world.kube.live(ETCD_BACKUPS, "b")
    body["metadata"]["labels"] = {naming.SCHEDULE: "nightly"}
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()
    world.clock.now += HOUR
    assert await world.settle() is None

    assert world.status["succeeded"] is False
    assert "has not changed for an hour" in world.status["reason"]


async def test_a_backup_overwrote_the_files_of_a_member_on_its_volume(world: World) -> None:
    """Anybody who may create EtcdBackups could name a member's claim, and its `etcd.yaml` as the
    path."""
    world.declare(storageType="Volume", s3=None, volume={"claimName": "v", "path": "etcd.yaml"})
    metadata = {"namespace": "default", "name": "v", "annotations": {naming.CLUSTER_UID: "uid-c"}}
    world.kube.put(CLAIMS, {"metadata": metadata})

    assert await world.settle() == 10.0
    assert world.jobs() == []
    assert world.condition()["reason"] == "VolumeOfCluster"
    assert "spec.volume.claimName" in world.condition()["message"]


async def test_a_finished_backup_in_a_volume_needs_no_request(world: World) -> None:
    world.declare(storageType="Volume", s3=None, volume={"claimName": "v", "path": "etcd.db"})
    world.kube.put(CLAIMS, {"metadata": {"namespace": "default", "name": "v"}})
    await made(world)
    calls = world.kube.calls.copy()
    await world.settle()

    assert world.kube.calls == calls


async def test_a_pod_that_cannot_start_is_reported(world: World) -> None:
    await world.settle()
    world.clock.now += 6
    await world.settle()

    assert world.condition()["reason"] == "PodWaits"
    assert "Events of the Job" in world.condition()["message"]


async def test_a_pod_that_never_started_is_still_reported_after_its_deadline(
    world: World,
) -> None:
    """Kubernetes deletes the pod then, and the Job's condition only mentions the time."""
    await world.settle()
    world.clock.now += 6
    await world.settle()
    world.end_job("Failed", reason="DeadlineExceeded", message="Job was active too long")
    await world.settle()

    assert world.status["reason"] == (
        "DeadlineExceeded: Job was active too long; the pod of Job b-backup-g1: its pod has "
        "not been created; the Events of the Job say why"
    )
