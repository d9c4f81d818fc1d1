"""An EtcdBackupSchedule whose spec is wrong, or whose writes the API server refuses."""

from __future__ import annotations

import pytest

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_SCHEDULES, REJECTED_SECONDS, Json, Rejected
from etcd_operator.kube.failed_passes import UNANSWERED_PASSES
from etcd_operator.kube.store import Owner
from etcd_stateful import naming
from etcd_stateful.backup.deletion import FINALIZER
from etcd_stateful.backup.retention import MOST_LEAVING, REFUSED_SECONDS
from unit.backup_controllers.outages import WEBHOOK, fail
from unit.backup_controllers.schedule.one_schedule import SPEC, World, at


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

    async def test_a_backup_that_is_kept_after_all_was_left_with_its_finalizer(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The answer to the edit was faster than its event, which then was no news, so the
        EtcdBackup had no pass."""
        await world.runs("03:00", "03:01")
        world.kube.failures["delete EtcdBackup"] = [self.DENIED]
        world.declare(retention={"count": 1})
        await world.settle()
        world.declare(retention={"count": 2})
        world.clock.now += REFUSED_SECONDS
        world.kube.watching = False
        woken: list[Owner] = []
        monkeypatch.setattr(world.kube.store, "_wake", woken.append)
        await world.settle()

        kept = world.kube.live(ETCD_BACKUPS, world.name("03:00"))
        assert kept["metadata"]["finalizers"] == [FINALIZER]
        assert Owner(ETCD_BACKUPS, ("default", world.name("03:00"))) in woken

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
