"""Runs of an EtcdBackupSchedule: each exactly once, when it is due."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from etcd_operator.backup_controllers.schedule import AGAIN_SECONDS
from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_SCHEDULES, EVENTS, Unavailable
from etcd_operator.kube.store import Store
from etcd_stateful import naming
from etcd_stateful.api.schedule import parse_schedule
from etcd_stateful.backup.schedules import jitter, with_default_jitter
from unit.backup_controllers.schedule.one_schedule import START, World, at


def clock_of(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")


async def test_a_run_creates_one_etcdbackup(world: World) -> None:
    await world.until("02:59:59")
    assert world.backups() == []
    await world.until("03:00:00")

    assert world.backups() == ["03:00"]
    made = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert made["spec"]["s3"]["path"] == "mybucket/etcd_2026-11-21-03:00_0a1b2c3d"
    assert made["spec"]["clusterRef"] == {"name": "c"}
    assert world.status["lastScheduleTime"] == "2026-11-21T03:00:00Z"
    assert world.status["nextScheduleTime"] == "2026-11-21T03:01:00Z"
    assert world.status["active"] == made["metadata"]["name"]
    assert world.condition()["reason"] == "Running"
    world.end("03:00")
    world.clock.now += 9
    await world.settle()
    assert world.status["lastSuccessfulTime"] == "2026-11-21T03:00:00Z"
    assert "active" not in world.status
    assert world.condition()["status"] == "True"
    assert world.status["backups"] == [
        {
            "name": made["metadata"]["name"],
            "scheduledTime": "2026-11-21T03:00:00Z",
            "succeeded": True,
            "verified": True,
            "location": "s3://03:00",
        }
    ]


@pytest.mark.parametrize("jitter_seconds", [0, 30])
async def test_an_operator_that_began_while_its_clock_was_ahead_made_no_run_until_that_time(
    world: World, jitter_seconds: int
) -> None:
    """Every run counted as one that was overdue when it began, and waited for its turn then."""
    world.declare(jitterSeconds=jitter_seconds)
    world.clock.now += 2 * 86400
    world.begin()
    await world.schedules.reconcile(("default", "another"))
    world.clock.now = START
    await world.until("03:00:59")

    assert world.backups() == ["03:00"]


async def test_a_new_run_reaches_the_queue_of_backups(world: World) -> None:
    """A backup that is put into the store directly is no news when the watch reports it, and would
    never be started."""
    await world.until("02:59:59")
    world.kube.watching = False
    world.clock.now += 1
    await world.settle()

    assert world.backups() == ["03:00"]
    assert world.kube.store
    assert world.kube.store.keys(ETCD_BACKUPS) == []


async def test_a_status_of_a_run_written_by_the_operator_is_noticed_soon(world: World) -> None:
    world.declare(schedule="0 * * * *")
    await world.until("03:00:00")

    assert await world.settle() == 2.0
    world.end("03:00")
    after = await world.settle()
    assert after
    assert after > 60


async def test_between_runs_no_request_is_sent(world: World) -> None:
    world.declare(schedule="0 * * * *")
    await world.runs("03:00")
    calls = world.kube.calls.copy()

    await world.until("03:59:30")

    assert world.kube.calls == calls


@pytest.mark.parametrize(("hours", "then"), [(40 * 24, "03:10"), (12, "15:10")])
async def test_a_clock_that_was_ahead_is_not_waited_for(
    world: World, hours: int, then: str
) -> None:
    """The counted runs lay hours ahead, so no run was started and none was missed."""
    await world.runs("03:00")
    ahead = hours * 3600 + 600
    world.clock.now += ahead
    await world.settle()
    world.end(then)
    await world.settle()
    world.clock.now -= ahead
    await world.runs("03:01", "03:02")

    assert world.backups() == ["03:00", "03:01", "03:02", then]


async def test_after_a_clock_that_was_behind_a_thousand_runs_were_reported_as_missed(
    world: World,
) -> None:
    """Those between the time that it had shown and the last run."""
    await world.runs("03:00", "03:01")
    behind = 40 * 86400
    world.clock.now -= behind
    await world.settle()
    world.clock.now += behind + 90
    await world.settle()

    assert world.backups() == ["03:00", "03:01", "03:02"]
    assert world.status["missedRuns"] == 0
    assert world.condition()["reason"] == "Running"


class TestAfterAClockThatWasAhead:
    """One run was made and named for a time that is weeks ahead. Until then it counted as the last
    one, and its success was reported, although each real run failed."""

    async def been_ahead(self, world: World) -> None:
        await world.runs("03:00")
        world.clock.now += 40 * 86400 + 600
        await world.settle()
        world.end("03:10")
        await world.settle()
        world.clock.now -= 40 * 86400 + 600

    async def test_runs_that_fail_were_reported_as_a_success(self, world: World) -> None:
        await self.been_ahead(world)
        await world.runs("03:01", good=False)

        assert world.condition()["reason"] == "Failed"
        assert world.gauge("last_run_succeeded") == 0

        await world.runs("03:02")
        assert world.condition()["reason"] == "Stored"
        assert world.gauge("last_run_succeeded") == 1

    async def test_a_missed_run_was_reported_as_a_success(self, world: World) -> None:
        await self.been_ahead(world)
        await world.until("03:02:00")

        assert world.condition()["reason"] == "StillRunning"
        assert world.gauge("last_run_succeeded") == 0

    async def test_the_last_success_was_in_the_future(self, world: World) -> None:
        """No alert by age was ever raised."""
        await self.been_ahead(world)
        await world.runs("03:01", good=False)

        assert world.status["lastSuccessfulTime"] < "2026-11-22"
        for one in ("last_success_timestamp_seconds", "last_verified_timestamp_seconds"):
            assert (world.gauge(one) or 0) <= world.clock.now


async def test_an_annotation_altered_by_hand_stopped_all_runs(world: World) -> None:
    """Its text was copied into the status, which the API server refused because it was too long for
    a time."""
    await world.runs("03:00")
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    body["metadata"]["annotations"][naming.SCHEDULED_TIME] = "at some time " * 10
    world.kube.put(ETCD_BACKUPS, body)
    await world.settle()

    [listed] = world.status["backups"]
    assert listed["scheduledTime"] == "2026-11-21T03:00:00Z"


async def test_jitter_delays_the_run_but_not_its_scheduled_time(world: World) -> None:
    world.declare(jitterSeconds=50)
    later = jitter(parse_schedule(world.kube.live(ETCD_SCHEDULES, "s")))
    assert 0 < later < 50
    await world.until(f"03:00:{later - 1:02}")
    assert world.backups() == []
    assert world.condition("Scheduled")["message"].endswith(f"03:00:{later:02}Z")
    await world.until(f"03:00:{later:02}")

    assert world.backups() == ["03:00"]
    assert world.status["lastScheduleTime"] == "2026-11-21T03:00:00Z"


async def test_after_more_jitter_was_set_the_run_that_was_over_was_announced_again(
    world: World,
) -> None:
    world.declare(schedule="0 * * * *")
    await world.runs("03:00")
    world.declare(schedule="0 * * * *", jitterSeconds=600)
    later = jitter(parse_schedule(world.kube.live(ETCD_SCHEDULES, "s")))
    assert later > 60
    await world.settle()

    assert world.status["nextScheduleTime"] == "2026-11-21T04:00:00Z"
    begins = START + 60 + 3600 + later
    assert world.condition("Scheduled")["message"].endswith(f"{clock_of(begins)}Z")


async def test_without_jitter_in_the_spec_a_run_starts_with_a_small_delay(world: World) -> None:
    world.declare(jitterSeconds=None, schedule="0 * * * *")
    schedule = parse_schedule(world.kube.live(ETCD_SCHEDULES, "s"))
    later = jitter(with_default_jitter(schedule, 3600))
    assert 10 < later < 60

    await world.until(f"03:00:{later - 1}")
    assert world.backups() == []
    assert world.condition("Scheduled")["message"].endswith(f"03:00:{later}Z")
    await world.until(f"03:00:{later}")

    assert world.backups() == ["03:00"]


async def test_an_operator_started_shortly_before_a_run_starts_it_in_time(world: World) -> None:
    world.declare(jitterSeconds=600, schedule="0 * * * *", startingDeadlineSeconds=10)
    later = jitter(parse_schedule(world.kube.live(ETCD_SCHEDULES, "s")))
    assert later > 20
    begins = START + 60 + later
    await world.until(clock_of(begins - 1))
    world.begin()
    await world.until(clock_of(begins))

    assert world.backups() == ["03:00"]
    assert world.status["missedRuns"] == 0


async def test_while_an_overdue_run_waited_for_its_turn_the_one_after_it_was_announced(
    world: World,
) -> None:
    world.declare(jitterSeconds=600, schedule="0 * * * *")
    await world.settle()
    world.clock.now += 1200
    world.begin()
    await world.settle()

    assert world.status["nextScheduleTime"] == "2026-11-21T03:00:00Z"
    begins = world.condition("Scheduled")["message"].removesuffix("Z")[-8:]
    assert begins > clock_of(world.clock.now)
    await world.until(clock_of(at(begins) - 1))
    assert world.backups() == []
    await world.until(begins)
    assert world.backups() == ["03:00"]
    assert world.status["nextScheduleTime"] == "2026-11-21T04:00:00Z"


@pytest.mark.parametrize(
    ("call", "made"),
    [
        ("create EtcdBackup", []),
        ("apply EtcdBackupSchedule/status", ["03:00"]),
    ],
)
async def test_an_operator_that_dies_during_a_run_creates_exactly_one_backup(
    world: World, call: str, made: list[str]
) -> None:
    await world.until("02:59:59")
    world.clock.now += 1
    world.kube.failures[call] = [Unavailable("the operator is gone")]
    with pytest.raises(Unavailable):
        await world.settle()
    assert world.backups() == made

    world.begin()
    world.clock.now += 3
    await world.settle()

    assert world.backups() == ["03:00"]
    assert world.status["lastScheduleTime"] == "2026-11-21T03:00:00Z"
    assert world.status["missedRuns"] == 0


async def test_a_lagging_watch_causes_no_second_backup(world: World) -> None:
    await world.until("02:59:59")
    world.clock.now += 1
    predecessor = World()
    predecessor.kube, predecessor.clock = world.kube, world.clock
    world.kube.watching = False
    predecessor.begin()
    predecessor.schedules._store = Store()
    predecessor.schedules._store.put(ETCD_SCHEDULES, world.kube.live(ETCD_SCHEDULES, "s"))
    await predecessor.settle()
    assert await world.settle() == AGAIN_SECONDS
    world.kube.watching = True
    for kind, place, name in list(world.kube.objects):
        world.kube.publish((kind, place, name))
    await world.settle()

    assert world.backups() == ["03:00"]
    assert world.status["missedRuns"] == 0


async def test_a_run_due_while_another_is_running_is_missed_and_reported(world: World) -> None:
    await world.until("03:02:00")

    assert world.backups() == ["03:00"]
    assert world.status["missedRuns"] == 2
    assert world.status["lastMissedTime"] == "2026-11-21T03:02:00Z"
    assert (world.condition()["status"], world.condition()["reason"]) == ("False", "StillRunning")
    assert world.kube.calls["create Event"] == 1, "the same news once"
    world.end("03:00")
    await world.settle()
    assert world.condition()["reason"] == "StillRunning", "it stays missed"
    await world.until("03:03:00")
    assert world.backups() == ["03:00", "03:03"]
    assert world.condition()["reason"] == "Running"


async def test_runs_during_a_suspension_are_missed_and_not_made_up_for(world: World) -> None:
    world.declare(suspend=True)
    await world.until("03:02:30")
    assert (world.backups(), world.status["missedRuns"]) == ([], 3)
    assert world.condition("Scheduled")["reason"] == "Suspended"
    assert world.condition("Ready")["status"] == "True", "it is as declared"
    assert "nextScheduleTime" not in world.status
    world.declare()
    await world.until("03:02:59")
    assert world.backups() == []
    await world.until("03:03:00")

    assert (world.backups(), world.status["missedRuns"]) == (["03:03"], 3)


async def test_a_suspended_schedule_was_said_to_delete_backups(world: World) -> None:
    world.declare(suspend=True, retention={"count": 1})
    await world.settle()

    assert world.condition("Retained")["message"].endswith("once spec.suspend is false again")


async def test_after_downtime_of_the_operator_one_run_replaces_all_missed_ones(
    world: World,
) -> None:
    await world.runs("03:00")
    world.clock.now += 600
    world.begin()
    await world.settle()

    assert world.backups() == ["03:00", "03:10"]
    assert world.status["missedRuns"] == 9
    [event] = [one for (kind, *_), one in world.kube.objects.items() if kind == EVENTS]
    assert event["reason"] == "OperatorAway"
    assert event["message"].startswith("9 runs were missed")


async def test_an_emptied_status_repeats_no_run(world: World) -> None:
    await world.runs("03:00", "03:01")
    body = world.kube.live(ETCD_SCHEDULES, "s")
    world.kube.put(ETCD_SCHEDULES, body | {"status": {}})
    await world.settle()

    assert world.backups() == ["03:00", "03:01"]
    assert world.status["lastScheduleTime"] == "2026-11-21T03:01:00Z"


async def test_runs_since_a_schedule_was_created_count_without_a_status(world: World) -> None:
    """The operator was away then, or somebody has emptied the status."""
    world.declare()
    world.clock.now += 600
    await world.settle()

    assert world.backups() == ["03:09"]
    assert world.status["missedRuns"] == 9
