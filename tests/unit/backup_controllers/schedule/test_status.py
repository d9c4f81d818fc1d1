"""What the status of an EtcdBackupSchedule says of its runs, also after edits."""

from __future__ import annotations

from datetime import datetime

import pytest

from etcd_operator.backup_controllers.schedule import AGAIN_SECONDS
from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_SCHEDULES
from etcd_stateful import naming
from etcd_stateful.backup.schedule_status import MOST_LISTED
from unit.backup_controllers.schedule.one_schedule import KEY, World


async def test_a_backup_that_somebody_else_had_just_deleted_was_reported_as_a_refusal(
    world: World,
) -> None:
    await world.runs("03:00", "03:01")
    world.declare(retention={"count": 1})
    oldest = world.name("03:00")
    world.kube.before["patch EtcdBackup"] = lambda: world.kube.remove(
        ETCD_BACKUPS, "default", oldest
    )

    assert await world.settle() == AGAIN_SECONDS
    assert world.condition("Scheduled")["reason"] == "Scheduled"
    assert world.gauge("scheduled") == 1


async def test_another_backup_with_the_name_of_a_run_does_not_count_as_the_run(
    world: World,
) -> None:
    await world.until("02:59:59")
    moment = int(datetime.fromisoformat("2026-11-21T03:00:00Z").timestamp())
    metadata = {"namespace": "default", "name": naming.scheduled_backup("s", moment)}
    world.kube.put(ETCD_BACKUPS, {"metadata": metadata, "spec": {}})
    world.clock.now += 1
    await world.settle()

    assert world.condition()["reason"] == "NameTaken"
    assert world.status["missedRuns"] == 1


async def test_an_edited_time_zone_applies_from_the_edit_on(world: World) -> None:
    world.declare(schedule="30 3 * * *")
    await world.until("02:59:30")
    world.declare(schedule="30 3 * * *", timeZone="Europe/Berlin")
    await world.settle()

    assert (world.backups(), world.status["missedRuns"]) == ([], 0)
    assert world.status["nextScheduleTime"] == "2026-11-22T02:30:00Z"


@pytest.mark.parametrize("observed", ["0 3 * * * UTC", "by hand"])
async def test_a_run_that_was_due_before_an_edit_was_skipped_without_a_word(
    world: World, observed: str
) -> None:
    """There was no operator for a night, and the schedule was edited before there was one again."""
    world.declare(schedule="0 3 * * *")
    await world.until("02:30:00")
    body = world.kube.live(ETCD_SCHEDULES, "s")
    body["status"]["observedTimes"] = observed
    world.kube.put(ETCD_SCHEDULES, body)
    world.clock.now += 5 * 3600
    world.declare(schedule="0 4 * * *")
    world.begin()
    await world.settle()

    assert world.backups() == []
    assert world.status["nextScheduleTime"] == "2026-11-22T04:00:00Z"
    assert world.status["missedRuns"] == (observed != "by hand")
    if observed != "by hand":
        assert world.status["lastMissedTime"] == "2026-11-21T03:00:00Z"
        assert world.condition()["reason"] == "OperatorAway"
        assert world.condition()["message"].endswith("spec was edited before one made up for it")


async def test_the_list_in_the_status_is_bounded(world: World) -> None:
    minutes = [f"03:{number:02}" for number in range(MOST_LISTED + 5)]
    await world.runs(*minutes)

    listed = [one["scheduledTime"][11:16] for one in world.status["backups"]]
    assert listed == list(reversed(minutes))[:MOST_LISTED]


async def test_other_backups_seen_by_a_run_are_reported_even_after_its_deletion(
    world: World,
) -> None:
    await world.runs("03:00")
    seen = {"count": 1, "newest": [{"location": "s3://by-hand"}]}
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    world.kube.put(ETCD_BACKUPS, body | {"status": body["status"] | {"otherBackups": seen}})
    await world.settle()
    assert world.status["otherBackups"] == seen

    metadata = body["metadata"]
    await world.kube.delete(ETCD_BACKUPS, "default", metadata["name"], uid=metadata["uid"])
    await world.runs("03:01")
    assert world.status["otherBackups"] == seen


async def test_a_schedule_that_is_being_deleted_does_nothing(world: World) -> None:
    body = world.kube.live(ETCD_SCHEDULES, "s")
    body["metadata"] |= {"deletionTimestamp": world.clock.rfc3339(), "finalizers": ["x/y"]}
    world.kube.put(ETCD_SCHEDULES, body)
    world.clock.now += 3600

    assert await world.schedules.reconcile(KEY) is None
    assert world.backups() == []
