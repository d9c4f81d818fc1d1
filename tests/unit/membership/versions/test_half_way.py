"""Changes of version that stop half-way: broken images, untried versions, the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import TRIED_AGAIN, with_pod, with_status, without_status
from worlds import World, body, drive, formed, is_write, labels, until

from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import rollback, upgrade
from etcd_stateful.membership.steps import (
    CreateSecret,
    EnableDowngrade,
    Settled,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.start.ticket import Finding
from unit.membership.versions.running_versions import (
    MIDDLE,
    NEW,
    OLD,
    changing,
    restarts,
    running,
    versions,
)


def after_the_last_old_member_was_removed(size: int) -> World:
    """Going back, while all that are left have run the newer version."""
    world = changing(MIDDLE, NEW, size)
    world.etcd.move_leader(world.data(0).member_id)
    until(world, "restart c-0")
    world.edit(version=MIDDLE)
    world.apply(until(world, f"version {MIDDLE}"))
    world.apply(until(world, "StatefulSet c"))
    world.etcd.remove(world.data(0).member_id)
    world.turn()
    return world


class TestHalfWay:
    @pytest.mark.parametrize("restarted", [0, 1, 2])
    def test_back_at_once_while_a_member_still_runs_the_old_version(self, restarted: int) -> None:
        world = changing(MIDDLE, NEW)
        until(world, "restart c-2")
        while len(restarts(world)) < restarted:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        for _ in range(3):
            world.turn()
        world.edit(version=MIDDLE)

        assert drive(world) == Settled()

        assert versions(world) == [MIDDLE] * 3
        assert "EnableDowngrade" not in labels(world.history)
        assert world.etcd.minor == "3.6"

    def test_back_after_the_last_restart_is_a_downgrade(self) -> None:
        world = changing(MIDDLE, NEW)
        assert drive(world) == Settled()
        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert "EnableDowngrade" in labels(world.history)

    def test_back_after_the_last_old_member_was_removed_is_a_downgrade(self) -> None:
        """I9: without it the cluster version rises, and the data with it."""
        world = after_the_last_old_member_was_removed(3)

        step = upgrade.prepare(world.observe())

        assert isinstance(step, EnableDowngrade)
        assert step.minor == "3.6"

    def test_a_member_that_is_down_was_neither_named_nor_removed_before_the_downgrade(self) -> None:
        """etcd goes down only once it knows the version of every member."""
        world = after_the_last_old_member_was_removed(5)
        world.apply(until(world, "EnableDowngrade"))
        world.pods[4].silent = True

        assert drive(world) == Wait("pod c-4 to become ready")

        world.edit(size=4)
        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * 4

    def test_back_and_smaller_in_one_edit_removes_the_last_new_member_first(self) -> None:
        """I9: restarted with the older version, it would find data that it cannot read."""
        world = changing(MIDDLE, NEW)
        world.etcd.move_leader(world.data(2).member_id)
        until(world, "restart c-2")
        world.edit(version=MIDDLE, size=2)
        world.history.clear()

        assert drive(world) == Settled()
        steps = [one for one in labels(world.history) if one.startswith(("remove", "Enable"))]
        assert steps == ["remove c-2", "EnableDowngrade"]
        assert versions(world) == [MIDDLE] * 2

    def test_the_version_of_a_pod_that_is_stopping_does_not_count(self) -> None:
        """It is the last old one. It still answers, and comes back with the new version."""
        world = changing(MIDDLE, NEW)
        while len(restarts(world)) < 3:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        world.edit(version=MIDDLE)
        assert sorted(set(versions(world))) == [MIDDLE, NEW]

        assert labels([decide(world.observe())]) != [f"version {MIDDLE}"]
        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * 3

    def test_another_patch_half_way_is_applied_at_once(self) -> None:
        world = changing(MIDDLE, "3.7.1")
        world.apply(until(world, "restart c-2"))
        world.edit(version=NEW)

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3
        assert labels(world.history).count(f"version {NEW}") == 1

    @pytest.mark.parametrize("label", ["StatefulSet c", "restart c-2"])
    @pytest.mark.parametrize(("before", "first", "then"), [(OLD, MIDDLE, NEW), (NEW, MIDDLE, OLD)])
    def test_an_edit_across_two_minors_half_way_waits_for_the_first(
        self, before: str, first: str, then: str, label: str
    ) -> None:
        """I9: the first minor must not be skipped just because no member has run it yet."""
        world = changing(before, first)
        until(world, f"version {first}")
        world.apply(until(world, label))
        world.turn()
        world.edit(version=then)

        assert drive(world) == Settled()

        steps = [one for one in labels(world.history) if one.startswith("version")]
        assert steps == [f"version {first}", f"version {then}"]
        assert len(restarts(world)) >= 6

    def test_pods_that_have_not_started_again_prove_nothing(self) -> None:
        """The data is of 3.7, whatever the new pods have run so far."""
        world = running(NEW, 1)
        world.stuck = {0}
        world.restart_pod(0)
        world.turn()
        world.edit(version=MIDDLE, pod={"labels": {"a": "b"}})

        drive(world)
        assert f"version {MIDDLE}" not in labels(world.history)

        world.stuck = set()
        assert drive(world) == Settled()
        assert "EnableDowngrade" in labels(world.history)

    def test_a_pending_pod_does_not_prove_a_broken_image(self) -> None:
        """It ran 3.7 a moment ago, and the record still allows to go back."""
        world = changing(MIDDLE, NEW, 1)
        world.apply(until(world, "restart c-0"))
        for _ in range(4):
            world.turn()
        assert world.etcd.minor == "3.7"
        assert world.record.before == MIDDLE
        world.stuck = {0}
        world.restart_pod(0)
        world.turn()
        world.edit(version=MIDDLE)

        drive(world)
        assert f"version {MIDDLE}" not in labels(world.history)

        world.stuck = set()
        assert drive(world) == Settled()
        assert "EnableDowngrade" in labels(world.history)


class TestBrokenImage:
    @pytest.mark.parametrize("size", [1, 2, 3, 5])
    @pytest.mark.parametrize("before", ["3.7.1", MIDDLE])
    def test_stops_at_the_first_pod_and_goes_back_with_the_spec(
        self, before: str, size: int
    ) -> None:
        world = changing(before, NEW, size)
        world.bad_images = {NEW}

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert len(restarts(world)) == 1
        assert sorted(versions(world))[:-1] == [before] * (size - 1)

        world.edit(version=before)
        assert drive(world) == Settled()
        assert versions(world) == [before] * size

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_going_back_was_impossible_where_admission_rewrites_images(self, size: int) -> None:
        """No pod had exactly the image in its template."""
        world = World(body(size, version=MIDDLE))
        world.mirror = "mirror.example"
        assert drive(world) == Settled()
        world.bad_images = {NEW}
        world.edit(version=NEW)
        drive(world)

        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * size

    def test_goes_back_together_with_another_edit(self) -> None:
        world = changing(MIDDLE, NEW, 1)
        world.bad_images = {NEW}
        drive(world)

        world.edit(version=MIDDLE, pod={"labels": {"a": "b"}})

        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE]

    def test_continues_with_a_version_that_exists(self) -> None:
        world = changing("3.7.1", "3.7.2")
        world.bad_images = {"3.7.2"}
        drive(world)
        world.edit(version=NEW)

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_a_version_that_crashes_stops_at_the_first_pod_too(self) -> None:
        world = changing(MIDDLE, NEW)
        world.apply(until(world, "restart c-2"))
        world.turn()
        world.pods[2].crashing = True

        drive(world)

        assert restarts(world) == ["c-2"]
        assert sorted(versions(world)) == [MIDDLE, MIDDLE, NEW]

    def stuck(self) -> World:
        """c-2 waits for the image. c-0 has lost its volume, and without a quorum it gets no
        ticket."""
        world = changing(MIDDLE, NEW)
        world.bad_images = {NEW}
        drive(world)
        world.empty(0)
        world.turn()
        world.edit(version=MIDDLE)
        return world

    def test_goes_back_although_another_pod_waits_without_data(self) -> None:
        seen = with_pod(self.stuck().observe(), 0, in_start=True, image_missing=False)
        assert seen.etcd is None, "no quorum"

        assert isinstance(rollback.roll_back(seen), WriteBootstrap)

    def test_does_not_go_back_if_no_member_runs_the_old_version(self) -> None:
        """All of them may have run the newer version on this data."""
        seen = with_pod(self.stuck().observe(), 0, in_start=True, image_missing=False)

        assert rollback.roll_back(with_pod(seen, 1, deleting=True)) is None
        assert rollback.roll_back(without_status(seen, 1)) is None
        assert rollback.roll_back(with_status(seen, 1, version=NEW)) is None

    @pytest.mark.parametrize("size", [2, 3])
    def test_goes_back_after_the_secret_was_lost(self, size: int) -> None:
        """Without a Secret etcd is not asked, so the versions that members reported are lost too,
        and the old version was on no record."""
        world = changing(MIDDLE, NEW, size)
        world.bad_images = {NEW}
        drive(world)
        world.lose_secret()
        drive(world)

        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * size

    @pytest.mark.parametrize(
        ("now", "run", "before"),
        [
            (NEW, (MIDDLE, NEW), MIDDLE),
            (NEW, (MIDDLE, "3.7.1"), MIDDLE),
            (MIDDLE, (NEW, "3.6.13"), NEW),
            (NEW, ("3.7.1",), "3.7.1"),
            (NEW, (NEW,), ""),
        ],
    )
    def test_with_the_secret_lost_the_pods_tell_the_old_version(
        self, now: str, run: tuple[str, ...], before: str
    ) -> None:
        world = running(now)
        world.lose_secret()
        seen = world.observe()
        for ordinal, version in enumerate(run):
            seen = with_pod(seen, ordinal, spec_hash=f"0-{version}")

        step = decide(seen)

        assert isinstance(step, CreateSecret)
        assert (step.record.version, step.record.before) == (now, before)

    def test_with_the_secret_lost_a_pod_that_never_ran_tells_nothing(self) -> None:
        world = running(NEW)
        world.lose_secret()
        seen = with_pod(world.observe(), 2, spec_hash=f"0-{MIDDLE}", etcd_started=False)

        step = decide(seen)

        assert isinstance(step, CreateSecret)
        assert step.record.before == ""


class TestUntried:
    """A record rebuilt from the claims, since which no member has answered."""

    def taken_on(self) -> Observation:
        """Every member fails, and the spec names another version."""
        world = running("3.6.14")
        world.edit(version="3.7.3")
        seen = replace(world.observe(), etcd=None, statuses={})
        assert seen.secret is not None
        record = replace(world.record, untried=True)
        failing = [replace(pod, ready=False, crashing=True) for pod in seen.pods]
        secret = replace(seen.secret, bootstrap=record)
        return replace(seen, secret=secret, pods=tuple(failing))

    def test_another_version_is_tried_if_no_member_can_run(self) -> None:
        step = upgrade.replace_assumed(self.taken_on())

        assert isinstance(step, WriteBootstrap)
        assert step.final
        assert (step.record.version, step.record.untried) == ("3.7.3", True)

    def test_a_pod_that_waits_without_data_does_not_prevent_it(self) -> None:
        empty = {"in_start": True, "answer": StartAnswer("a run", Finding("no-data"))}
        seen = with_pod(self.taken_on(), 0, etcd_started=False, crashing=False, **empty)

        assert upgrade.replace_assumed(seen) is not None

    @pytest.mark.parametrize(
        "sign",
        [
            {"ready": True},
            {"crashing": False},
            {"crashing": False, **TRIED_AGAIN},
            {"crashing": False, "ready": True},
            {"crashing": False, "etcd_started": False},
        ],
    )
    def test_none_is_tried_if_a_member_may_run(self, sign: dict[str, bool]) -> None:
        assert upgrade.replace_assumed(with_pod(self.taken_on(), 1, **sign)) is None

    def test_none_is_tried_if_etcd_or_a_member_answers(self) -> None:
        seen, running = self.taken_on(), formed(3).observe()

        assert upgrade.replace_assumed(replace(seen, etcd=running.etcd)) is None
        assert upgrade.replace_assumed(replace(seen, statuses=running.statuses)) is None

    def test_none_is_tried_while_pods_are_starting_or_without_a_declared_version(self) -> None:
        seen = self.taken_on()
        early = [replace(pod, etcd_started=False, crashing=False) for pod in seen.pods]
        silent = replace(seen.cluster, version_declared=False)

        assert upgrade.replace_assumed(replace(seen, pods=tuple(early))) is None
        assert upgrade.replace_assumed(replace(seen, pods=())) is None
        assert upgrade.replace_assumed(replace(seen, cluster=silent)) is None

    def test_none_is_tried_on_a_cluster_that_has_answered_before(self) -> None:
        seen = self.taken_on()
        assert seen.secret is not None
        assert seen.secret.bootstrap is not None
        record = replace(seen.secret.bootstrap, untried=False)

        tried = replace(seen, secret=replace(seen.secret, bootstrap=record))
        assert upgrade.replace_assumed(tried) is None

    def test_a_guess_was_changed_before_it_was_confirmed(self) -> None:
        """If members then fell silent, any version could take the place of the one they ran."""
        world = running("3.6.14")
        world.secret = (world.secret[0], replace(world.record, untried=True))
        world.edit(version="3.6.16")

        while not isinstance(step := decide(world.observe()), WriteBootstrap):
            world.apply(step)

        assert (step.record.version, step.record.untried) == ("3.6.14", False)
        assert drive(world) == Settled()
        assert world.record.version == "3.6.16"

    def test_a_secret_lost_while_members_answer_leaves_no_version_untried(self) -> None:
        world = running("3.6.14")
        world.lose_secret()

        assert drive(world) == Settled()
        assert not [one for one in world.history if isinstance(one, WriteBootstrap)]
        assert not world.record.untried

    def test_a_record_rebuilt_from_claims_is_tried_once_a_quorum_answers(self) -> None:
        world = running("3.6.14")
        world.lose_secret()
        world.delete_stateful_set()
        world.pods.clear()
        world.apply(decide(world.observe()))
        assert world.record.untried

        assert drive(world) == Settled()
        assert not world.record.untried


class TestVersionOnRecord:
    def test_a_stateful_set_that_is_lost_half_way_continues(self) -> None:
        world = changing(MIDDLE, NEW)
        world.apply(until(world, "restart c-2"))
        world.delete_stateful_set()

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_a_secret_that_is_lost_half_way_continues(self) -> None:
        world = changing(MIDDLE, NEW)
        world.apply(until(world, "restart c-2"))
        world.lose_secret()

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_nothing_is_written_before_the_cluster_has_formed(self) -> None:
        seen = changing(MIDDLE, NEW).observe()
        record = replace(seen.secret.bootstrap, latched=False)
        unformed = replace(seen, secret=replace(seen.secret, bootstrap=record))

        assert rollback.roll_back(unformed) is None

    def test_nothing_continues_without_a_member_list(self) -> None:
        seen = changing(MIDDLE, NEW).observe()

        assert upgrade.advance(replace(seen, etcd=None)) is None

    def test_nothing_continues_while_a_pod_is_not_ready(self) -> None:
        seen = changing(MIDDLE, NEW).observe()

        assert not is_write(decide(with_pod(seen, 1, ready=False)))


class TestTheWayBackIsNotGuessed:
    def test_a_downgrade_is_cancelled_after_the_last_pod_is_back(self) -> None:
        """If it were cancelled first, a pod that still comes back with the older version would be
        refused."""
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "restart c-2"))
        world.turn()
        world.history.clear()
        world.edit(version=NEW)

        assert drive(world) == Settled()

        steps = labels(world.history)
        assert steps.index("CancelDowngrade") > steps.index("restart c-2")
        assert versions(world) == [NEW] * 3
        assert world.etcd.downgrade == ""

    def test_missing_pods_do_not_prove_that_the_version_never_ran(self) -> None:
        """All were upgraded before the pods were deleted: their data is of the newer version."""
        world = changing(MIDDLE, NEW)
        drive(world)
        assert world.secret is not None
        version, record = world.secret
        world.secret = (version, replace(record, before=MIDDLE))
        world.pods.clear()
        world.edit(version=MIDDLE)

        assert rollback.roll_back(world.observe()) is None
