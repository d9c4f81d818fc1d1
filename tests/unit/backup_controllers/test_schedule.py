"""Passes over an EtcdBackupSchedule, with an API server in memory: each run exactly once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fakes import FakeClock, FakeKube
from prometheus_client.exposition import generate_latest

from etcd_operator.backup_controllers.schedule import AGAIN_SECONDS, Schedules
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    EVENTS,
    REJECTED_SECONDS,
    Conflict,
    Json,
    Rejected,
    Resource,
    Unavailable,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.failed_passes import UNANSWERED_PASSES
from etcd_operator.kube.store import Store
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.api.schedule import parse_schedule
from etcd_stateful.backup.deletion import FINALIZER
from etcd_stateful.backup.retention import MOST_LEAVING, REFUSED_SECONDS
from etcd_stateful.backup.schedule_status import MOST_LISTED
from etcd_stateful.backup.schedules import jitter, with_default_jitter
from unit.backup_controllers.outages import WEBHOOK, fail

KEY = ("default", "s")
UID = "0a1b2c3d-1111"
START = datetime.fromisoformat("2026-11-21T02:59:00Z").timestamp()
SPEC: Json = {
    "schedule": "* * * * *",
    "jitterSeconds": 0,
    "template": {
        "clusterRef": {"name": "c"},
        "storageType": "S3",
        "s3": {"path": "mybucket/etcd", "awsSecret": "aws"},
    },
}


def clock_of(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")


class World:
    """One schedule. A test plays the passes over its backups."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.kube = FakeKube(self.clock)
        self.kube.store = Store()
        self.begin()

    def begin(self) -> None:
        """Starts an operator that knows only what is stored."""
        events = Events(self.kube, instance="test", clock=self.clock)
        self.metrics = Metrics()
        self.schedules = Schedules(
            self.kube, self.kube.store, events, self.metrics, wall_clock=self.clock
        )

    def declare(self, uid: str = UID, **changes: Any) -> None:
        known = self.kube.find(ETCD_SCHEDULES, "s") or {}
        metadata = {"namespace": "default", "name": "s", "uid": uid, "generation": 1}
        if known:
            metadata["creationTimestamp"] = known["metadata"]["creationTimestamp"]
        self.kube.put(ETCD_SCHEDULES, {**known, "metadata": metadata, "spec": SPEC | changes})

    async def settle(self) -> float | None:
        """Makes passes until one wants to wait."""
        for _ in range(30):
            made = self.kube.calls["create EtcdBackup"]
            after = await self.schedules.reconcile(KEY)
            created = self.kube.calls["create EtcdBackup"] > made and after == AGAIN_SECONDS
            if after != 0.0 and not (created and self.kube.watching):
                return after
        raise AssertionError("it never comes to rest")

    async def until(self, text: str) -> None:
        """Runs passes at the times that they request."""
        end = datetime.fromisoformat(f"2026-11-21T{text}Z").timestamp()
        while self.clock.now < end:
            after = await self.settle()
            assert after
            self.clock.now = min(self.clock.now + after, end)
        await self.settle()

    def backups(self) -> list[str]:
        """The times that the backups are for."""
        found = [self.kube.live(kind, name) for kind, _, name in self.kube.objects
                 if kind == ETCD_BACKUPS]  # fmt: skip
        notes = (one["metadata"]["annotations"] for one in found)
        return sorted(note[naming.SCHEDULED_TIME][11:16] for note in notes)

    def name(self, minute: str) -> str:
        for kind, _, name in self.kube.objects:
            if kind == ETCD_BACKUPS:
                notes = self.kube.live(kind, name)["metadata"]["annotations"]
                if minute in notes[naming.SCHEDULED_TIME]:
                    return name
        raise KeyError(minute)

    def end(self, minute: str, *, good: bool = True, verified: bool = True) -> None:
        """The backup of that minute is over."""
        body = self.kube.live(ETCD_BACKUPS, self.name(minute))
        told: Json = {"succeeded": good, "reason": "" if good else "no bucket"}
        if good:
            told |= {"lastSuccessDate": self.clock.rfc3339(), "location": f"s3://{minute}"}
        if good and verified:
            told["verified"] = "Hash"
        self.kube.put(ETCD_BACKUPS, body | {"status": told})

    async def runs(self, *minutes: str, **how: bool) -> None:
        for minute in minutes:
            await self.until(f"{minute}:00")
            self.end(minute, **how)
        await self.settle()

    @property
    def status(self) -> Json:
        return self.kube.live(ETCD_SCHEDULES, "s").get("status") or {}

    def gauge(self, name: str) -> float | None:
        labels = {"namespace": "default", "name": "s"}
        return self.metrics.registry.get_sample_value(f"etcd_backup_schedule_{name}", labels)

    def condition(self, kind: str = "LastRun") -> Json:
        return next(one for one in self.status["conditions"] if one["type"] == kind)


@pytest.fixture
def world() -> World:
    world = World()
    world.declare()
    return world


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


class TestWhatIsBeingRestored:
    """The oldest backup was chosen, as from before the damage. The next run of its schedule came
    before the restore had read it, and it was deleted for good."""

    SOURCES = ("by name", "by place")

    def source(self, world: World, how: str, kind: str) -> Json:
        if how == "by name":
            return {"backupRef": {"name": world.name("03:00")}}
        return {kind: "S3", "s3": {"path": "mybucket/03:00", "awsSecret": "aws"}}

    def is_kept(self, world: World) -> bool:
        body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        return "deletionPolicy" not in body["spec"] and "deletionTimestamp" not in body["metadata"]

    async def another_run(self, world: World) -> None:
        """Of the two that there are then, retention keeps one."""
        oldest = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        oldest["status"]["location"] = "s3://mybucket/03:00"
        world.kube.put(ETCD_BACKUPS, oldest)
        await world.runs("03:01")

    @pytest.mark.parametrize("how", SOURCES)
    async def test_a_backup_named_by_an_etcdrestore_is_kept_until_that_is_over(
        self, world: World, how: str
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        spec = {"etcdCluster": {"name": "c"}, **self.source(world, how, "backupStorageType")}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
        await self.another_run(world)
        assert self.is_kept(world)
        assert world.kube.calls["list EtcdBackup"] == 0, "nothing is about to be deleted"

        status = {"succeeded": True}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec, "status": status})
        await world.settle()
        assert not self.is_kept(world)

    @pytest.mark.parametrize("how", SOURCES)
    async def test_a_backup_named_by_a_new_cluster_is_kept_until_that_serves(
        self, world: World, how: str
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        spec = {"size": 3, "bootstrap": {"restore": self.source(world, how, "storageType")}}
        cluster: Json = {"metadata": {"namespace": "default", "name": "d", "uid": "d"}}
        world.kube.put(ETCD_CLUSTERS, cluster | {"spec": spec})
        await self.another_run(world)
        assert self.is_kept(world)

        serves = {"conditions": [{"type": "Available", "status": "True"}]}
        world.kube.put(ETCD_CLUSTERS, cluster | {"spec": spec, "status": serves})
        await world.settle()
        assert not self.is_kept(world)

    @pytest.mark.parametrize("how", SOURCES)
    @pytest.mark.parametrize("kind", [ETCD_RESTORES, ETCD_CLUSTERS], ids=lambda kind: kind.kind)
    async def test_a_backup_was_deleted_while_the_spec_of_who_reads_it_was_refused(
        self, world: World, kind: Resource, how: str
    ) -> None:
        """Once the mistake in another field was corrected, there was nothing left to restore."""
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        source = self.source(world, how, "backupStorageType")
        spec: Json = {"etcdCluster": {"name": "c"}, "replace": {"clusterID": "none"}, **source}
        if kind == ETCD_CLUSTERS:
            source = self.source(world, how, "storageType")
            spec = {"size": 3, "version": "3.3.27", "bootstrap": {"restore": source}}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.put(kind, {"metadata": metadata, "spec": spec})
        await self.another_run(world)

        assert self.is_kept(world)

    @pytest.mark.parametrize("kind", [ETCD_RESTORES, ETCD_CLUSTERS], ids=lambda kind: kind.kind)
    async def test_a_backup_is_kept_while_the_watch_of_who_reads_it_is_behind(
        self, world: World, kind: Resource
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        named = self.source(world, "by name", "")
        spec: Json = {"etcdCluster": {"name": "c"}, **named}
        if kind == ETCD_CLUSTERS:
            spec = {"size": 3, "bootstrap": {"restore": named}}
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.watching = False
        world.kube.put(kind, {"metadata": metadata, "spec": spec})
        world.kube.watching = True
        await self.another_run(world)

        assert self.is_kept(world)

    async def test_a_backup_of_that_name_in_another_namespace_is_not_kept(
        self, world: World
    ) -> None:
        world.declare(retention={"count": 1})
        await world.runs("03:00")
        spec = {"etcdCluster": {"name": "c"}, **self.source(world, "by name", "")}
        metadata = {"namespace": "elsewhere", "name": "c", "uid": "uid-r", "generation": 1}
        world.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": spec})
        await self.another_run(world)

        assert not self.is_kept(world)


@pytest.mark.parametrize("edit", [{"suspend": True}, {"retention": {"count": 2}}, None])
async def test_an_edit_that_the_watch_had_not_reported_yet_did_not_keep_a_backup(
    world: World, edit: Json | None
) -> None:
    """Nor did the deletion of the schedule. What is deleted is gone for good."""
    world.declare(retention={"count": 1})
    await world.runs("03:00")
    await world.until("03:01:00")
    world.kube.watching = False
    if edit is None:
        world.kube.remove(ETCD_SCHEDULES, "default", "s")
    else:
        world.declare(**{"retention": {"count": 1}} | edit)
    world.kube.watching = True
    world.end("03:01")
    await world.settle()

    oldest = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert "deletionPolicy" not in oldest["spec"]


async def test_retention_deletes_the_oldest_with_its_files(world: World) -> None:
    world.declare(retention={"count": 2})
    await world.runs("03:00", "03:01", "03:02")

    held = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert held["spec"]["deletionPolicy"] == "Delete"
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert "deletionTimestamp" in held["metadata"]
    for minute in ("03:01", "03:02"):
        assert "deletionPolicy" not in world.kube.live(ETCD_BACKUPS, world.name(minute))["spec"]


async def test_failed_runs_do_not_displace_good_backups(world: World) -> None:
    world.declare(retention={"count": 1})
    await world.runs("03:00")
    await world.runs("03:01", "03:02", "03:03", "03:04", "03:05", good=False)

    assert world.backups() == ["03:00", "03:03", "03:04", "03:05"]
    assert world.condition()["message"].endswith("no bucket")


async def test_unproven_files_of_failed_runs_are_deleted_with_them(world: World) -> None:
    world.declare(retention={"count": 1})
    for minute in ("03:00", "03:01", "03:02", "03:03"):
        await world.runs(minute, good=False)
        body = world.kube.live(ETCD_BACKUPS, world.name(minute))
        left = {"unproven": f"s3://{minute}"}
        world.kube.put(ETCD_BACKUPS, body | {"status": body["status"] | left})
    await world.settle()

    held = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    assert held["spec"]["deletionPolicy"] == "Delete"
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert naming.LET_GO in held["metadata"]["annotations"], "or it would be begun again"
    assert "deletionTimestamp" in held["metadata"]


async def test_backups_that_the_schedule_did_not_create_are_never_touched(world: World) -> None:
    """Its labels would make it one of them, but not its name. Its name would, but not the UID."""
    labels = {naming.SCHEDULE: "s", naming.SCHEDULE_UID: UID}
    notes = {naming.SCHEDULED_TIME: "2026-11-20T00:00:00Z"}
    for name, changed in (("before-the-upgrade", {}), ("s-100", {naming.SCHEDULE_UID: "before"})):
        metadata = {"namespace": "default", "name": name, "labels": labels | changed}
        world.kube.put(ETCD_BACKUPS, {
            "metadata": metadata | {"annotations": notes},
            "spec": {},
            "status": {"succeeded": True},
        })  # fmt: skip
    world.declare(retention={"count": 1, "maxAgeDays": 1})
    await world.runs("03:00", "03:01", "03:02")

    for name in ("before-the-upgrade", "s-100"):
        body = world.kube.live(ETCD_BACKUPS, name)
        assert "deletionTimestamp" not in body["metadata"]
        assert body["spec"] == {}
    assert len(world.status["backups"]) == 3


async def test_a_backup_is_read_again_before_it_is_deleted(world: World) -> None:
    """The newest verified backup was deleted while the watch was behind. The last good one
    stays."""
    await world.runs("03:00")
    await world.runs("03:01", verified=False)
    await world.runs("03:02")
    world.kube.watching = False
    world.kube.remove(ETCD_BACKUPS, "default", world.name("03:02"))
    world.kube.watching = True
    world.declare(retention={"count": 1})

    assert await world.settle() == AGAIN_SECONDS

    assert world.backups() == ["03:00", "03:01"]
    assert world.kube.calls["delete EtcdBackup"] == world.kube.calls["patch EtcdBackup"] == 0


async def test_a_backup_without_the_label_of_its_schedule_ended_the_deletion_of_all_others(
    world: World,
) -> None:
    """It was the oldest of those that were listed, and unknown to the decision before. So nothing
    was ever deleted, and all of them were listed again each second."""
    await world.runs("03:00", "03:01", "03:02")
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    del body["metadata"]["labels"][naming.SCHEDULE]
    world.kube.put(ETCD_BACKUPS, body)
    world.declare(retention={"count": 1})
    await world.settle()

    assert "deletionTimestamp" not in world.kube.live(ETCD_BACKUPS, world.name("03:00"))["metadata"]
    assert "deletionTimestamp" in world.kube.live(ETCD_BACKUPS, world.name("03:01"))["metadata"]
    assert world.kube.calls["list EtcdBackup"] <= 2


async def test_a_backup_that_has_changed_is_not_deleted(world: World) -> None:
    await world.runs("03:00", "03:01")
    world.kube.failures["patch EtcdBackup"] = [Conflict("resourceVersion is 5", status=409)]
    world.declare(retention={"count": 1})

    assert await world.settle() == AGAIN_SECONDS

    assert world.kube.calls["delete EtcdBackup"] == 0


@pytest.mark.parametrize("reason", ["DeletionFailed", "Refused", "StepFailed", "JobOfAnother"])
async def test_a_backup_that_cannot_be_deleted_is_reported(world: World, reason: str) -> None:
    """It was reported as kept as declared if the Job that deletes what is stored was refused."""
    world.declare(retention={"count": 1})
    await world.runs("03:00", "03:01")
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    said = {"type": "Complete", "status": "False", "reason": reason, "message": "denied"}
    world.kube.put(ETCD_BACKUPS, body | {"status": body["status"] | {"conditions": [said]}})
    await world.settle()

    told = world.condition("Retained")
    assert (told["status"], told["reason"]) == ("False", "DeletionFailed")
    assert told["message"].endswith("denied")


async def test_a_deletion_that_failed_counted_as_done_while_it_was_tried_again(
    world: World,
) -> None:
    """The condition came and went every ten minutes."""
    world.declare(retention={"count": 1})
    await world.runs("03:00", "03:01")
    body = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
    for reason in ("DeletionFailed", "Starting", "Deleting"):
        said = {"type": "Complete", "status": "False", "reason": reason, "message": "words"}
        world.kube.put(ETCD_BACKUPS, body | {"status": body["status"] | {"conditions": [said]}})
        await world.settle()
        told = world.condition("Retained")
        assert (told["reason"], told["message"][-5:]) == ("DeletionFailed", "words"), reason

    world.kube.remove(ETCD_BACKUPS, "default", world.name("03:00"))
    await world.settle()
    assert world.condition("Retained")["reason"] == "Kept"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schedule": "61 * * * *"}, "spec.schedule: bad minute"),
        ({"schedule": "0 0 31 2 *"}, "in '0 0 31 2 *': a range must go upwards"),
        ({"schedule": "0 3 * * fri-sun"}, "spec.schedule: bad day-of-week in '0 3 * * fri-sun'"),
        ({"timeZone": "Europe/Nowhere"}, "spec.timeZone: there is no time zone"),
        ({"template": {"storageType": "S3", "s3": {"path": "b/../c"}}}, "spec.template.s3.path"),
    ],
)
async def test_an_invalid_spec_is_reported_with_its_field_and_creates_nothing(
    world: World, changes: Json, words: str
) -> None:
    world.declare(**changes)

    assert await world.settle() is None

    assert words in world.condition("Accepted")["message"]
    assert world.condition("Accepted")["status"] == "False"
    assert words in world.condition("Scheduled")["message"]  # the table has no other
    assert world.backups() == []


async def test_a_corrected_spec_resumes_the_schedule(world: World) -> None:
    await world.runs("03:00")
    world.declare(schedule="61 * * * *")
    await world.settle()
    assert world.status["lastScheduleTime"] == "2026-11-21T03:00:00Z", "what was said stays"
    world.declare()
    await world.runs("03:01")

    assert world.condition("Accepted")["status"] == "True"
    assert world.backups() == ["03:00", "03:01"]


async def test_a_terminating_namespace_is_not_reported_on_the_schedule(world: World) -> None:
    await world.until("02:59:59")
    before = world.condition("Scheduled")
    words = "unable to create: namespace default is being terminated"
    world.kube.failures["create EtcdBackup"] = [Rejected(words, status=403)]
    world.clock.now += 1

    assert await world.settle() == REJECTED_SECONDS
    assert world.condition("Scheduled") == before


async def test_a_refusal_by_the_api_server_is_reported_and_retried(world: World) -> None:
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [Rejected("exceeded quota", status=403)]
    world.clock.now += 1

    assert await world.settle() == REJECTED_SECONDS
    assert "exceeded quota" in world.condition("Scheduled")["message"]
    assert world.condition("Ready") == {**world.condition("Scheduled"), "type": "Ready"}
    world.clock.now += REJECTED_SECONDS
    await world.settle()
    assert world.backups() == ["03:00"]
    assert world.condition("Scheduled")["status"] == "True"


async def test_a_quota_that_was_used_up_kept_retention_from_making_room(world: World) -> None:
    """No old backup was deleted before another was created, which the quota refused."""
    await world.runs("03:00", "03:01", "03:02")
    full = Rejected("exceeded quota: count/etcdbackups", status=403)
    world.kube.failures["create EtcdBackup"] = [full] * 50
    await world.until("03:03:00")
    world.declare(retention={"count": 1})
    world.clock.now += REJECTED_SECONDS
    assert await world.settle() == REJECTED_SECONDS

    for minute in ("03:00", "03:01"):
        assert "deletionTimestamp" in world.kube.live(ETCD_BACKUPS, world.name(minute))["metadata"]
    assert "exceeded quota" in world.condition("Scheduled")["message"]
    world.kube.failures.clear()
    world.clock.now += REJECTED_SECONDS
    await world.settle()
    assert world.backups()[-1] == "03:04"


async def test_a_refusal_was_logged_again_every_half_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.until("02:59:59")
    world.kube.failures["create EtcdBackup"] = [Rejected("exceeded quota", status=403)] * 3
    for _ in range(3):
        world.clock.now += 10
        assert await world.settle() == REJECTED_SECONDS
    said = [one.getMessage() for one in caplog.records]

    assert said == ["the API server refuses it: exceeded quota"]


async def test_a_read_that_the_api_server_refuses_is_reported_and_deletes_nothing(
    world: World,
) -> None:
    world.declare(retention={"count": 1})
    await world.runs("03:00")
    await world.runs("03:01")
    world.kube.failures["list EtcdBackup"] = [Rejected("forbidden", status=403)] * 9
    await world.runs("03:02")

    assert "forbidden" in world.condition("Scheduled")["message"]
    assert len(world.backups()) > 1


class TestDeletionThatTheApiServerRefuses:
    """As a policy does that protects backups, or a rule that was added to the CRD since."""

    DENIED = Rejected("denied by a policy", status=403)

    async def test_the_end_of_each_run_was_hidden_until_the_next_one(self, world: World) -> None:
        """The metrics said that no runs are begun, although they were."""
        world.declare(retention={"count": 1})
        world.kube.failures["patch EtcdBackup"] = [self.DENIED] * 50
        await world.runs("03:00", "03:01", "03:02")

        assert world.condition()["reason"] == "Stored"
        assert world.status["lastSuccessfulTime"] == "2026-11-21T03:02:00Z"
        assert world.gauge("last_success_timestamp_seconds") == at("03:02:00")
        assert (world.condition("Scheduled")["status"], world.gauge("scheduled")) == ("True", 1)
        told = world.condition("Retained")
        assert (told["status"], told["reason"]) == ("False", "DeletionFailed")
        assert world.name("03:00") in told["message"]
        assert told["message"].endswith("denied by a policy")

    async def test_it_kept_all_later_ones_from_being_deleted(self, world: World) -> None:
        await world.runs("03:00", "03:01", "03:02")
        world.kube.failures["patch EtcdBackup"] = [self.DENIED]
        world.declare(retention={"count": 1})
        await world.settle()

        oldest, next_one = (
            world.kube.live(ETCD_BACKUPS, world.name(minute)) for minute in ("03:00", "03:01")
        )
        assert "deletionTimestamp" in next_one["metadata"]
        assert "deletionTimestamp" not in oldest["metadata"]

        world.clock.now += REFUSED_SECONDS
        await world.settle()
        oldest = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        assert "deletionTimestamp" in oldest["metadata"], "it is tried again"

    async def test_a_run_was_missed_because_of_it(self, world: World) -> None:
        """The next look at the schedule was later than its deadline."""
        world.declare(retention={"count": 1}, startingDeadlineSeconds=10)
        world.kube.failures["patch EtcdBackup"] = [self.DENIED] * 50
        await world.runs("03:00", "03:01")
        await world.until("03:01:45")
        await world.until("03:02:20")

        assert world.backups() == ["03:00", "03:01", "03:02"]
        assert world.status["missedRuns"] == 0

    async def test_if_it_refuses_all_only_a_few_are_tried(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        await world.runs(*(f"03:{minute:02}" for minute in range(MOST_LEAVING + 5)))
        world.kube.failures["patch EtcdBackup"] = [self.DENIED] * 50
        world.declare(retention={"count": 1})
        for rounds in (1, 2):
            await world.settle()
            assert world.kube.calls["patch EtcdBackup"] == rounds * MOST_LEAVING
            world.clock.now += REFUSED_SECONDS

        assert len([one for one in caplog.records if "is not changed" in one.getMessage()]) == (
            MOST_LEAVING
        ), "each is logged once"

    async def test_a_backup_that_is_kept_after_all_is_not_reported(self, world: World) -> None:
        await world.runs("03:00", "03:01")
        world.kube.failures["patch EtcdBackup"] = [self.DENIED]
        world.declare(retention={"count": 1})
        await world.settle()
        assert world.condition("Retained")["reason"] == "DeletionFailed"
        world.declare(retention={"count": 2})
        await world.settle()

        assert world.condition("Retained")["reason"] == "Kept"

    @pytest.mark.parametrize("template", [{}, {"deletionPolicy": "Delete"}])
    async def test_a_backup_that_is_kept_after_all_lost_its_file_when_it_was_deleted_by_hand(
        self, world: World, template: Json
    ) -> None:
        """It had been told to delete what it has stored, and was not told otherwise."""
        changes = {"template": SPEC["template"] | template}
        world.declare(**changes)
        await world.runs("03:00", "03:01")
        declared = world.kube.live(ETCD_BACKUPS, world.name("03:00"))["spec"]
        world.kube.failures["delete EtcdBackup"] = [self.DENIED]
        world.declare(**changes, retention={"count": 1})
        await world.settle()
        let_go = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        assert let_go["spec"]["deletionPolicy"] == "Delete"
        world.kube.failures["patch EtcdBackup"] = [self.DENIED]
        world.declare(**changes, retention={"count": 2})
        for _ in range(2):
            world.clock.now += REFUSED_SECONDS
            await world.settle()
            assert world.condition("Scheduled")["reason"] == "Scheduled"

        kept = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        assert kept["spec"] == declared
        assert naming.LET_GO not in kept["metadata"]["annotations"]

    async def test_what_a_template_says_to_retain_was_deleted_as_its_object_was_let_go_before(
        self, world: World
    ) -> None:
        """It was said when the first deletion had been refused. The policy of the object counted,
        which retention itself had set."""
        await world.runs("03:00", "03:01")
        world.kube.failures["delete EtcdBackup"] = [self.DENIED]
        world.declare(retention={"count": 1})
        await world.settle()
        let_go = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        assert let_go["spec"]["deletionPolicy"] == "Delete"
        template = SPEC["template"] | {"deletionPolicy": "Retain"}
        world.declare(retention={"count": 1}, template=template)
        world.clock.now += REFUSED_SECONDS
        await world.settle()

        gone = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        assert "deletionTimestamp" in gone["metadata"]
        assert gone["spec"]["deletionPolicy"] == "Retain"

    async def test_another_schedule_of_the_namespace_deletes_its_own(self, world: World) -> None:
        await world.runs(*(f"03:{minute:02}" for minute in range(MOST_LEAVING + 1)))
        world.kube.failures["patch EtcdBackup"] = [self.DENIED] * MOST_LEAVING
        world.declare(retention={"count": 1})
        await world.settle()
        labels = {naming.SCHEDULE: "other", naming.SCHEDULE_UID: "uid-o"}
        for name in ("other-29920500", "other-29920501"):
            metadata: Json = {"namespace": "default", "name": name, "labels": labels}
            world.kube.put(
                ETCD_BACKUPS,
                {"metadata": metadata, "spec": {}, "status": {"succeeded": True, "run": "g1"}},
            )
        metadata = {"namespace": "default", "name": "other", "uid": "uid-o", "generation": 1}
        spec = SPEC | {"retention": {"count": 1}}
        world.kube.put(ETCD_SCHEDULES, {"metadata": metadata, "spec": spec})
        while await world.schedules.reconcile(("default", "other")) == 0.0:
            pass

        oldest = world.kube.live(ETCD_BACKUPS, "other-29920500")
        assert "deletionTimestamp" in oldest["metadata"]


async def test_a_webhook_that_failed_for_deletions_alone_hid_how_the_runs_had_ended(
    world: World,
) -> None:
    """The metrics said that no runs are begun, although they were."""
    await world.runs("03:00", "03:01", "03:02")
    world.kube.failures["patch EtcdBackup"] = [WEBHOOK] * 50
    world.declare(retention={"count": 1})
    await fail(world, UNANSWERED_PASSES - 1)
    assert world.condition("Retained")["reason"] == "Everything"
    await world.settle()

    told = world.condition("Retained")
    assert (told["status"], told["reason"]) == ("False", "DeletionFailed")
    assert str(WEBHOOK) in told["message"]
    assert world.condition()["reason"] == "Stored"
    assert (world.condition("Scheduled")["status"], world.gauge("scheduled")) == ("True", 1)

    world.kube.failures.clear()
    world.clock.now += REFUSED_SECONDS
    await world.settle()
    assert "deletionTimestamp" in world.kube.live(ETCD_BACKUPS, world.name("03:00"))["metadata"]


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


def at(text: str) -> float:
    return datetime.fromisoformat(f"2026-11-21T{text}Z").timestamp()


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
