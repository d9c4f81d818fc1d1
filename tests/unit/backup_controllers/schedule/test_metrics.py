"""What the metrics say of an EtcdBackupSchedule, and how missed runs are explained."""

from __future__ import annotations

import pytest
from prometheus_client.exposition import generate_latest

from etcd_operator.kube.api import (
    ETCD_SCHEDULES,
    EVENTS,
    REJECTED_SECONDS,
    Json,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.failed_passes import UNANSWERED_PASSES
from unit.backup_controllers.outages import WEBHOOK, fail
from unit.backup_controllers.schedule.one_schedule import KEY, SPEC, START, World, at


async def test_before_the_first_run_the_metrics_only_say_that_it_is_scheduled(
    world: World,
) -> None:
    """A zero would raise an alert: the last success in 1970."""
    await world.until("02:59:59")

    assert (world.gauge("scheduled"), world.gauge("missed_runs")) == (1, 0)
    for name in ("last_run_succeeded", "last_success_timestamp_seconds"):
        assert world.gauge(name) is None, name
    assert world.gauge("last_verified_timestamp_seconds") is None


async def test_the_result_of_a_run_is_in_the_metrics(world: World) -> None:
    await world.runs("03:00")
    assert world.gauge("last_run_succeeded") == 1
    assert world.gauge("last_success_timestamp_seconds") == at("03:00:00")
    assert world.gauge("last_verified_timestamp_seconds") == at("03:00:00")

    await world.runs("03:01", verified=False)
    assert world.gauge("last_success_timestamp_seconds") == at("03:01:00")
    assert world.gauge("last_verified_timestamp_seconds") == at("03:00:00"), "that was not verified"

    await world.runs("03:02", good=False)
    assert world.gauge("last_run_succeeded") == 0
    assert world.gauge("last_success_timestamp_seconds") == at("03:01:00")


async def test_during_a_run_the_metrics_show_the_one_before(world: World) -> None:
    await world.runs("03:00", good=False)
    await world.until("03:01:00")

    assert world.condition()["reason"] == "Running"
    assert world.gauge("last_run_succeeded") == 0


async def test_a_missed_run_is_no_success(world: World) -> None:
    await world.runs("03:00")
    await world.until("03:02:00")

    assert (world.gauge("last_run_succeeded"), world.gauge("missed_runs")) == (0, 1)
    world.end("03:01")
    await world.until("03:03:00")
    assert world.gauge("last_run_succeeded") == 1, "03:01, and the next one has begun"


async def test_a_restarted_operator_reports_the_same_metrics(world: World) -> None:
    await world.runs("03:00", "03:01")
    names = ("scheduled", "last_run_succeeded", "last_success_timestamp_seconds", "missed_runs",
             "last_verified_timestamp_seconds")  # fmt: skip
    before = {name: world.gauge(name) for name in names}

    world.begin()
    await world.settle()

    assert {name: world.gauge(name) for name in names} == before
    assert None not in before.values()


@pytest.mark.parametrize("changes", [{"suspend": True}, {"schedule": "every day"}])
async def test_a_schedule_that_starts_no_runs_keeps_its_other_metrics(
    world: World, changes: Json
) -> None:
    await world.runs("03:00")
    world.declare(**changes)
    await world.settle()

    assert world.gauge("scheduled") == 0
    assert world.gauge("last_success_timestamp_seconds") == at("03:00:00")


@pytest.mark.parametrize("refused", ["spec", "backup"])
async def test_a_schedule_that_starts_no_runs_had_no_age_once_the_operator_had_restarted(
    world: World, refused: str
) -> None:
    """An alert by age ended, although there was no backup since."""
    await world.runs("03:00")
    world.clock.now += 60
    if refused == "spec":
        world.declare(schedule="every day")
    else:
        world.kube.failures["create EtcdBackup"] = [Rejected("exceeded quota", status=403)] * 9
    world.begin()
    await world.settle()

    assert world.gauge("scheduled") == 0
    assert world.gauge("last_success_timestamp_seconds") == at("03:00:00")


async def test_a_schedule_whose_backups_are_refused_is_not_scheduled_in_the_metrics(
    world: World,
) -> None:
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [Rejected("exceeded quota", status=403)]
    world.clock.now += 1
    assert await world.settle() == REJECTED_SECONDS
    assert world.gauge("scheduled") == 0

    world.clock.now += REJECTED_SECONDS
    await world.settle()
    assert world.gauge("scheduled") == 1


async def test_a_schedule_whose_backups_could_not_be_created_looked_healthy(world: World) -> None:
    """A webhook was down for days, and neither the conditions nor the metrics showed it."""
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [WEBHOOK] * (UNANSWERED_PASSES + 1)
    world.clock.now += 1
    await fail(world, UNANSWERED_PASSES - 1)
    assert (world.condition("Scheduled")["status"], world.gauge("scheduled")) == ("True", 1)

    await fail(world, 2)
    told = world.condition("Scheduled")
    assert (told["status"], told["reason"]) == ("False", "StepFailed")
    assert str(WEBHOOK) in told["message"]
    assert world.gauge("scheduled") == 0

    await world.settle()
    assert world.backups() == ["03:00"]
    assert (world.condition("Scheduled")["status"], world.gauge("scheduled")) == ("True", 1)


async def test_metrics_show_that_nothing_can_be_created_even_without_a_status_write(
    world: World,
) -> None:
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [WEBHOOK] * UNANSWERED_PASSES
    world.kube.failures["apply EtcdBackupSchedule/status"] = [Unavailable("no answer")]
    world.clock.now += 1
    await fail(world, UNANSWERED_PASSES)

    assert world.gauge("scheduled") == 0


async def test_a_missed_run_does_not_make_the_schedule_look_healthy_again(world: World) -> None:
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [WEBHOOK] * (UNANSWERED_PASSES + 1)
    world.clock.now += 1
    await fail(world, UNANSWERED_PASSES)
    world.clock.now += 60
    await fail(world, 1)

    assert world.condition()["reason"] == "NotMade"
    assert (world.condition("Scheduled")["reason"], world.gauge("scheduled")) == ("StepFailed", 0)


async def test_at_each_missed_run_the_schedule_looked_healthy_until_the_next_try_had_failed(
    world: World,
) -> None:
    """A webhook that hangs takes ten seconds to fail, and the alert began to wait again."""
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [WEBHOOK] * (UNANSWERED_PASSES + 1)
    world.clock.now += 1
    await fail(world, UNANSWERED_PASSES)
    world.clock.now += 60
    assert await world.schedules.reconcile(KEY) == 0.0

    assert world.condition()["reason"] == "NotMade"
    assert (world.condition("Scheduled")["reason"], world.gauge("scheduled")) == ("StepFailed", 0)
    assert world.condition("Ready") == {**world.condition("Scheduled"), "type": "Ready"}


async def test_occasional_failed_passes_are_not_reported(world: World) -> None:
    await world.runs("03:00")
    for minute in range(1, 2 * UNANSWERED_PASSES):
        world.clock.now = START + 60 + 60 * minute
        world.kube.failures["create EtcdBackup"] = [WEBHOOK]
        await fail(world, 1)
        await world.settle()
        assert world.condition("Scheduled")["status"] == "True"
        world.end(f"03:{minute:02}")


@pytest.mark.parametrize("error", [WEBHOOK, Rejected("exceeded quota", status=403)])
async def test_runs_refused_by_the_api_server_are_not_blamed_on_operator_downtime(
    world: World, error: Unavailable | Rejected
) -> None:
    await world.runs("03:00")
    refused = isinstance(error, Rejected)
    world.kube.failures["create EtcdBackup"] = [error] * 3
    for _ in range(3):
        world.clock.now += 60
        await (world.settle() if refused else fail(world, 1))
    world.clock.now += 60
    await world.settle()

    assert world.backups() == ["03:00", "03:04"]
    assert world.status["missedRuns"] == 3
    events = [one for (kind, *_), one in world.kube.objects.items() if kind == EVENTS]
    assert {one["reason"] for one in events} == {"NotMade"}
    assert all(str(error) in one["message"] for one in events)


async def test_runs_missed_while_the_spec_was_wrong_were_reported_without_that_reason(
    world: World,
) -> None:
    await world.runs("03:00")
    world.declare(template=SPEC["template"] | {"storageType": "Tape"})
    world.clock.now += 180
    await world.settle()
    world.declare()
    await world.settle()

    assert world.backups() == ["03:00", "03:03"]
    [event] = [one for (kind, *_), one in world.kube.objects.items() if kind == EVENTS]
    assert event["message"].startswith("2 runs were missed: its EtcdBackup could not be created: ")
    assert "spec.template.storageType" in event["message"]
    assert world.status["missedRuns"] == 2


async def test_a_run_that_is_too_late_because_of_errors_reports_the_error(world: World) -> None:
    world.declare(startingDeadlineSeconds=10, schedule="0 * * * *")
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [WEBHOOK]
    world.clock.now += 1
    await fail(world, 1)
    world.clock.now += 11
    await world.settle()

    assert world.condition()["reason"] == "TooLate"
    assert str(WEBHOOK) in world.condition()["message"]
    world.clock.now += 3600
    await world.settle()
    assert str(WEBHOOK) not in world.condition()["message"], "that was the run before"


@pytest.mark.parametrize("gone", [True, False])
async def test_a_deleted_schedule_has_no_metrics(world: World, gone: bool) -> None:
    await world.runs("03:00")
    body = world.kube.live(ETCD_SCHEDULES, "s")
    if gone:
        world.kube.remove(ETCD_SCHEDULES, "default", "s")
    else:
        leaving = body["metadata"] | {"deletionTimestamp": "2026-11-21T03:00:30Z"}
        world.kube.put(ETCD_SCHEDULES, body | {"metadata": leaving})
    await world.schedules.reconcile(KEY)

    page = generate_latest(world.metrics.registry).decode()
    assert 'name="s"' not in page
