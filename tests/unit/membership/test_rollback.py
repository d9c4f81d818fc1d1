"""Versions that do not run: going back half-way, and continuing without a quorum."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inplace_world import InPlaceWorld
from recovery_world import RecoveryWorld
from views import DOWN, TRIED_AGAIN, with_pod, with_status, without_status
from worlds import World, body, drive, is_write, labels, until

from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import rollback
from etcd_stateful.membership.steps import Hold, Settled, Step, Wait, WriteBootstrap
from etcd_stateful.observed.objects import Job
from etcd_stateful.versions import parse_version
from unit.membership.versions.running_versions import MIDDLE, NEW, OLD, changing, running, versions

MISSING = "3.7.9"


def steps(world: World, count: int = 40) -> Step:
    """Runs up to so many rounds, for worlds that never come to rest."""
    for _ in range(count):
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    return decide(world.observe())


def without_pod(seen: Observation, ordinal: int) -> Observation:
    pods = tuple(pod for pod in seen.pods if pod.ordinal != ordinal)
    return without_status(replace(seen, pods=pods), ordinal)


def all_made_again(world: World) -> None:
    for ordinal in list(world.pods):
        world.restart_pod(ordinal)
    world.turn()
    world.turn()


class TestAnotherPatch:
    @pytest.mark.parametrize("size", [1, 3])
    @pytest.mark.parametrize("after", ["3.6.15", "3.6.13"])
    def test_was_never_taken_where_the_image_was_missing_from_the_registry(
        self, after: str, size: int
    ) -> None:
        world = running(MIDDLE, size)
        world.bad_images = {MIDDLE}
        all_made_again(world)
        drive(world, idle=3)

        world.edit(version=after)

        assert drive(world) == Settled()
        assert versions(world) == [after] * size
        assert world.record.before == ""

    @pytest.mark.parametrize("size", [1, 3])
    def test_was_never_taken_where_it_fixes_the_bug_that_etcd_failed_on(self, size: int) -> None:
        world = running(MIDDLE, size)
        world.failing = {MIDDLE}
        all_made_again(world)
        steps(world, 10)

        world.edit(version="3.6.15")

        assert drive(world) == Settled()
        assert versions(world) == [f"{MIDDLE[:4]}15"] * size

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_was_never_taken_half_way_to_another_minor(self, size: int) -> None:
        world = changing(MIDDLE, NEW, size)
        world.failing = {NEW}
        steps(world)
        if size > 1:
            world.stuck = {0}
            world.restart_pod(0)
        world.edit(version="3.7.4")
        steps(world, 10)
        world.stuck = set()

        assert drive(world) == Settled()
        assert versions(world) == ["3.7.4"] * size

    @pytest.mark.parametrize("sign", ["crashing", "image_missing"])
    def test_was_never_taken_where_one_member_failed_beside_a_quorum(self, sign: str) -> None:
        """The edit waited for that member to serve, which it never did."""
        world = running(MIDDLE)
        world.edit(version="3.6.15")
        seen = with_pod(world.observe(), 2, ready=False)

        assert rollback.roll_back(seen) is None
        assert rollback.roll_back(with_pod(seen, 2, **{sign: True})) is not None

    def test_was_never_taken_where_a_policy_refused_pods_with_the_present_image(self) -> None:
        """The pod was missing, and the edit waited for its member to serve."""
        world = running(MIDDLE)
        world.edit(version="3.6.15")
        seen = without_pod(world.observe(), 2)

        assert rollback.roll_back(replace(seen, missing={"c-2": 60.0})) is None
        assert rollback.roll_back(replace(seen, missing={"c-2": 60.1})) is not None

    def test_is_not_taken_at_once_where_only_a_pod_without_a_member_is_missing(self) -> None:
        world = running(MIDDLE)
        world.edit(version="3.6.15", size=4)
        until(world, "StatefulSet c")
        world.apply(decide(world.observe()))
        seen = replace(world.observe(), missing={"c-3": 99.0})
        assert (seen.replicas, seen.pod(3)) == (4, None)

        assert rollback.roll_back(seen) is None


class TestANewMinorThatFails:
    """Its etcd starts, so the image does not prove that it has left the data unchanged."""

    @pytest.mark.parametrize("size", [2, 3, 5])
    def test_going_back_was_impossible_while_no_leader_answered(self, size: int) -> None:
        world = changing(MIDDLE, NEW, size)
        world.failing = {NEW}
        steps(world)
        for ordinal in range(1, size - 1):
            world.restart_pod(ordinal)
        steps(world, 10)
        assert versions(world) == [MIDDLE, *[NEW] * (size - 1)]
        assert world.observe().etcd is None

        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * size
        assert world.etcd.minor == "3.6"

    def half_way(self) -> Observation:
        """c-2 runs the newer minor, and there is no leader."""
        world = changing(MIDDLE, NEW)
        world.apply(until(world, "restart c-2"))
        steps(world, 3)
        world.edit(version=MIDDLE)
        seen = without_status(world.observe(), 1)
        for ordinal in (0, 2):
            seen = with_status(seen, ordinal, leader_id=0)
        return replace(seen, etcd=None)

    def test_one_voter_of_the_old_minor_is_enough(self) -> None:
        step = rollback.roll_back(self.half_way())

        assert isinstance(step, WriteBootstrap)
        assert (step.record.version, step.record.before) == (MIDDLE, NEW)
        assert step.final

    @pytest.mark.parametrize(
        "said", [{"learner": True}, {"member_id": 7}, {"version": NEW}], ids=str
    )
    def test_a_member_that_is_no_voter_of_the_old_minor_proves_nothing(
        self, said: dict[str, object]
    ) -> None:
        assert rollback.roll_back(with_status(self.half_way(), 0, **said)) is None

    def test_a_pod_or_claim_that_is_being_deleted_proves_nothing(self) -> None:
        seen = self.half_way()
        claims = tuple(replace(one, deleting=True) for one in seen.claims)

        assert rollback.roll_back(with_pod(seen, 0, deleting=True)) is None
        assert rollback.roll_back(replace(seen, claims=claims)) is None

    def test_a_member_off_the_list_proves_nothing(self) -> None:
        world = changing(MIDDLE, NEW)
        world.etcd.move_leader(world.data(0).member_id)
        until(world, "restart c-0")
        world.edit(version=MIDDLE)
        seen = world.observe()
        assert seen.etcd is not None
        assert rollback.roll_back(seen) is not None
        others = tuple(one for one in seen.etcd.members if one.name != "c-0")

        listed = replace(seen.etcd, members=others)
        assert rollback.roll_back(replace(seen, etcd=listed)) is None

    def test_an_ordinal_beyond_the_replicas_proves_nothing(self) -> None:
        seen = self.half_way()
        assert seen.stateful_set is not None
        fewer = {**seen.stateful_set, "spec": {**seen.stateful_set["spec"], "replicas": 0}}

        assert rollback.roll_back(replace(seen, stateful_set=fewer)) is None

    @pytest.mark.parametrize("wanted", [MIDDLE, OLD])
    def test_a_cluster_of_one_stays_and_says_so(self, wanted: str) -> None:
        world = changing(MIDDLE, NEW, 1)
        world.failing = {NEW}
        steps(world)

        world.edit(version=wanted)

        rest = drive(world)
        assert isinstance(rest, Hold)
        assert rest.reason == "VersionFails"
        assert f"spec.version is {wanted}, and the cluster stays" in rest.message
        assert "Another patch of 3.7 is taken at once. Until then: a quorum" in rest.message
        assert world.record.crossed

        world.edit(version="3.7.4")
        assert drive(world) == Settled()

    @pytest.mark.parametrize("size", [1, 3])
    def test_the_report_of_a_failing_version_came_and_went_with_each_crash(self, size: int) -> None:
        """It was gone while the kubelet started the container again. The Event came and went
        too."""
        world = changing(MIDDLE, NEW, size)
        world.edit(version=OLD)
        seen = replace(world.observe(), etcd=None, statuses={})
        for ordinal in range(size):
            seen = with_pod(seen, ordinal, **DOWN)
        told = decide(seen)
        assert isinstance(told, Hold)
        assert told.reason == "VersionFails"
        assert "Until then: a quorum to answer: c-0: container etcd keeps failing" in told.message

        for ordinal in range(size):
            seen = with_pod(seen, ordinal, **TRIED_AGAIN, crashing=False)
            assert decide(seen) == told

    def test_a_cluster_of_one_whose_pod_a_policy_refuses_said_nothing_of_the_edit(self) -> None:
        world = changing(MIDDLE, NEW, 1)
        world.apply(until(world, "restart c-0"))
        world.edit(version=MIDDLE)
        seen = replace(without_pod(world.observe(), 0), etcd=None)
        assert isinstance(decide(seen), Wait)

        told = decide(replace(seen, missing={"c-0": 60.1}))

        assert isinstance(told, Hold)
        assert told.message == (
            "spec.version is 3.6.14, and the cluster stays with etcd 3.7.3: etcd 3.7 may have "
            "changed the data, and 3.6.14 could not read it then. Another patch of 3.7 is taken at "
            "once. Until then: a quorum to answer: c-0 has no pod; the Events of StatefulSet c say "
            "what keeps it"
        )

    def test_a_patch_is_not_taken_while_a_container_is_being_started_again(self) -> None:
        """It may come up, and then the usual checks apply."""
        world = running(MIDDLE)
        world.edit(version="3.6.15")
        seen = without_status(world.observe(), 1)
        assert isinstance(rollback.roll_back(with_pod(seen, 1, **DOWN)), WriteBootstrap)

        assert rollback.roll_back(with_pod(seen, 1, **TRIED_AGAIN)) is None

    def test_a_lost_quorum_is_reported_first_and_the_failing_version_beside_it(self) -> None:
        world = changing(MIDDLE, NEW)
        world.failing = {NEW}
        steps(world)
        for ordinal in (0, 1):
            world.empty(ordinal)
        steps(world, 4)
        world.edit(version=OLD)

        rest = steps(world, 10)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert "stays with etcd 3.7.3: the minor changes only while every" in rest.message

    def test_nothing_is_reported_before_the_cluster_has_formed_or_if_the_version_is_only_assumed(
        self,
    ) -> None:
        wait = Wait("a quorum")
        seen = replace(changing(MIDDLE, NEW).observe(), etcd=None)
        failing = with_pod(seen, 0, crashing=True)
        assert failing.secret is not None
        for fields in ({"latched": False}, {"untried": True}):
            record = replace(failing.secret.bootstrap, **fields)
            other = replace(failing, secret=replace(failing.secret, bootstrap=record))
            assert rollback.with_version_advice(other, wait) == wait

        assert isinstance(rollback.with_version_advice(failing, wait), Hold)

    def test_nothing_is_reported_if_no_member_fails_and_the_quorum_is_away_for_a_moment(
        self,
    ) -> None:
        seen = replace(changing(MIDDLE, NEW).observe(), etcd=None)

        assert isinstance(decide(seen), Wait)


class TestDataOfTheNewerMinor:
    def test_was_given_to_the_older_minor_when_no_pod_had_its_image(self) -> None:
        """c-0 was lost and could not be scheduled, so the record still allowed to go back."""
        world = changing(OLD, MIDDLE)
        world.apply(until(world, "restart c-0"))
        world.stuck = {0}
        world.empty(0)
        drive(world)
        assert world.etcd.minor == "3.6"
        assert world.record.before == OLD
        world.bad_images = {MIDDLE}
        all_made_again(world)
        drive(world, idle=3)

        world.edit(version=OLD)

        rest = drive(world)
        assert isinstance(rest, Hold)
        assert f"etcd 3.6 may have changed the data, and {OLD} could not" in rest.message
        assert world.record.version == MIDDLE

    def test_it_is_recorded_only_once_no_member_of_the_old_minor_is_left(self) -> None:
        world = changing(MIDDLE, NEW)
        noted: list[int] = []

        def note(_: Step) -> None:
            if world.record.crossed:
                stay = [pod for pod in world.pods.values() if not pod.deleting]
                noted.append(sum(pod.version == MIDDLE for pod in stay))

        assert drive(world, each=note) == Settled()
        assert set(noted) == {0}
        assert not world.record.crossed

    @pytest.mark.parametrize(
        ("before", "now", "wanted"), [(OLD, MIDDLE, NEW), (NEW, MIDDLE, OLD), (MIDDLE, NEW, OLD)]
    )
    def test_an_edit_across_two_minors_is_not_applied(
        self, before: str, now: str, wanted: str
    ) -> None:
        world = changing(before, now, 1)
        world.bad_images = {now}
        drive(world)
        world.edit(version=wanted)

        assert drive(world).reason.startswith("VersionFails")
        assert world.record.version == now

    def test_a_record_below_the_version_of_the_data_can_be_raised_again(self) -> None:
        """The newer minor ran unseen while the cluster was paused, and the record went back to the
        older one, which now fails on the data."""
        world = running(MIDDLE, 1)
        world.bad_images = {MIDDLE}
        all_made_again(world)
        assert world.secret is not None
        version, record = world.secret
        world.secret = (version, replace(record, version=OLD, before=MIDDLE))
        world.version = OLD
        world.edit(version=OLD)
        steps(world, 10)
        assert world.pods[0].version == OLD
        assert world.pods[0].crashing

        world.edit(version="3.6.15")

        assert drive(world) == Settled()
        assert versions(world) == ["3.6.15"]

    def test_a_failing_downgrade_says_which_version_to_set(self) -> None:
        world = changing(OLD, MIDDLE, 1)
        world.bad_images = {MIDDLE}
        drive(world)
        world.edit(version=OLD)
        world.apply(until(world, f"version {OLD}"))
        world.failing = {OLD}

        rest = steps(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "VersionFails"
        assert f"goes down from etcd {MIDDLE} to {OLD}. If that fails, set" in rest.message


class TestAPodThatCameUpWithTheNewerMinor:
    """The only pod was deleted after the record went back to the old version and before the
    template did."""

    def came_up(self, *, led: bool) -> World:
        world = changing(MIDDLE, NEW, 1)
        world.apply(until(world, "StatefulSet c"))
        world.edit(version=MIDDLE)
        world.apply(until(world, f"version {MIDDLE}"))
        all_made_again(world)
        world.cut_off = not led
        assert versions(world) == [NEW]
        return world

    def test_was_restarted_with_the_older_one_before_a_leader_answered(self) -> None:
        world = self.came_up(led=False)
        seen = world.observe()
        pods = tuple(replace(pod, ready=False) for pod in seen.pods)

        step = decide(replace(seen, pods=pods))
        assert isinstance(step, Wait)
        assert rollback.is_unsafe_downgrade(seen, parse_version(NEW))

    def test_is_downgraded_the_way_etcd_allows(self) -> None:
        """The template changes only once the data has the older format."""
        world = self.came_up(led=True)
        world.history.clear()

        assert drive(world) == Settled()
        told = [one for one in labels(world.history) if one in ("EnableDowngrade", "StatefulSet c")]
        assert told == ["EnableDowngrade", "StatefulSet c"]
        assert versions(world) == [MIDDLE]

    def test_is_stopped_for_a_recovery_anyway(self) -> None:
        seen = self.came_up(led=False).observe()
        assert seen.secret is not None
        assert seen.secret.bootstrap is not None
        record = replace(seen.secret.bootstrap, survivor="c-0")
        halted = replace(seen, secret=replace(seen.secret, bootstrap=record))

        assert rollback.is_unsafe_downgrade(seen, parse_version(NEW))
        assert not rollback.is_unsafe_downgrade(halted, parse_version(NEW))


class TestADowngradeThatFails:
    @pytest.mark.parametrize("size", [1, 2, 3])
    @pytest.mark.parametrize(("before", "after"), [(MIDDLE, "3.5.99"), (NEW, "3.6.99")])
    @pytest.mark.parametrize("why", ["bad_images", "failing"])
    def test_could_not_be_undone_without_a_quorum(
        self, why: str, before: str, after: str, size: int
    ) -> None:
        world = changing(before, after, size)
        setattr(world, why, {after})
        steps(world)

        world.edit(version=before)

        assert drive(world) == Settled()
        assert versions(world) == [before] * size
        assert world.etcd.downgrade == ""
        assert world.etcd.minor == before.rpartition(".")[0]

    @pytest.mark.parametrize("why", ["bad_images", "failing"])
    def test_continues_to_another_patch_without_a_quorum(self, why: str) -> None:
        """The other member has not been restarted yet, and nothing says which format its data
        has."""
        world = changing(NEW, "3.6.99", 2)
        setattr(world, why, {"3.6.99"})
        steps(world)
        assert world.observe().etcd is None

        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * 2

    def test_going_down_again_needs_a_quorum(self) -> None:
        """The newer etcd may already have written its own format."""
        world = changing(NEW, "3.6.99", 1)
        world.bad_images = {"3.6.99"}
        drive(world)
        world.bad_images = {"3.6.99", NEW}
        world.edit(version=NEW)
        drive(world)
        assert world.record.crossed
        world.edit(version=MIDDLE)

        assert drive(world).reason.startswith("VersionFails")
        assert world.record.version == NEW


def recoverable() -> RecoveryWorld:
    """A settled cluster of three for which a recovery can be requested."""
    world = RecoveryWorld(body(3, version=MIDDLE))
    assert drive(world, idle=2) == Settled()
    return world


class TestRecovering:
    def stuck(self, *, asked: bool = True, **fields: object) -> RecoveryWorld:
        """An upgrade stops at c-2, whose image does not exist; then c-1 loses its volume."""
        world = recoverable()
        world.bad_images = {MISSING}
        world.edit(version=MISSING)
        drive(world)
        world.empty(1)
        drive(world, idle=5)
        if asked:
            world.ask(0, **fields)
            drive(world, idle=3)
            assert world.record.survivor == "c-0"
            assert world.job is not None
        return world

    @pytest.mark.parametrize("wanted", [MIDDLE, "3.6.15", NEW])
    def test_the_recovery_job_froze_the_version(self, wanted: str) -> None:
        world = self.stuck()

        world.edit(version=wanted)

        drive(world)
        assert versions(world) == [wanted] * 3
        assert world.record.survivor == ""

    @pytest.mark.parametrize("wanted", [MIDDLE, NEW])
    def test_editing_the_version_and_the_recovery_together_did_not_help(self, wanted: str) -> None:
        world = self.stuck(asked=False)
        world.body["spec"]["version"] = wanted
        world.ask(0)

        drive(world)

        assert versions(world) == [wanted] * 3

    def test_a_survivor_whose_data_a_newer_minor_may_have_changed_stays_and_says_so(self) -> None:
        world = self.stuck()
        world.edit(version=NEW)
        world.failing = {NEW}
        steps(world, 10)
        assert world.record.crossed

        world.edit(version=MIDDLE)

        rest = drive(world)
        assert isinstance(rest, Wait)
        assert "keeps failing. spec.version is 3.6.14, and the" in rest.reason
        assert world.record.version == NEW

    def test_data_that_was_of_the_older_minor_before_all_pods_stopped_still_is(self) -> None:
        """The newer minor had started on another member only."""
        world = recoverable()
        world.failing = {NEW}
        world.edit(version=NEW)
        steps(world)
        world.empty(1)
        steps(world, 5)
        world.job_runs = False
        world.ask(0)
        steps(world, 10)
        assert world.job is not None
        assert not world.record.crossed

        world.edit(version=MIDDLE)
        world.job_runs = True

        drive(world)
        assert versions(world) == [MIDDLE] * 3

    def test_silence_after_all_pods_stopped_proves_nothing(self) -> None:
        world = recoverable()
        world.edit(version=NEW)
        world.apply(until(world, "restart c-2"))
        world.stuck = {0, 1, 2}
        all_made_again(world)
        world.job_runs = False
        world.ask(0)
        steps(world, 10)

        assert world.record.crossed

    @pytest.mark.parametrize(
        ("job", "wrote"),
        [
            ({}, False),
            ({"etcd_started": True}, True),
            ({"state": "complete"}, True),
            ({"state": "failed"}, False),
            ({"state": "failed", "etcd_started": True}, True),
            ({"state": "complete", "stranger": "Job of another"}, False),
        ],
    )
    def test_the_job_may_have_changed_the_data_once_its_etcd_ran(
        self, job: dict[str, object], *, wrote: bool
    ) -> None:
        seen = self.stuck().observe()
        assert isinstance(seen.job, Job)

        after = replace(seen, job=replace(seen.job, **job))
        back = replace(after, cluster=replace(seen.cluster, version=parse_version(MIDDLE)))

        assert isinstance(rollback.record_newer_format(after), WriteBootstrap) is wrote
        assert isinstance(rollback.roll_back(back), WriteBootstrap) is not wrote


def test_a_restore_in_place_prevented_going_back() -> None:
    """Its Job waits for the same image, and without a quorum no other step was considered."""
    world = InPlaceWorld(body(1, version=MIDDLE))
    assert drive(world, idle=2) == Settled()
    world.bad_images = {MISSING}
    world.edit(version=MISSING)
    drive(world)
    world.job_runs = False
    world.ask()
    drive(world)

    world.edit(version=MIDDLE)
    drive(world)
    assert world.record.version == MIDDLE
    assert world.job is not None
    assert f"-{MIDDLE}-" in world.job.spec_hash

    world.job_runs = True
    assert drive(world) == Settled()
    assert versions(world) == [MIDDLE]


def test_a_stuck_restore_in_place_kept_a_pod_from_its_corrected_template() -> None:
    world = InPlaceWorld(body(1, version=MIDDLE))
    assert drive(world, idle=2) == Settled()
    world.bad_images = {MISSING}
    world.edit(version=MISSING)
    drive(world)
    world.job_runs = False
    world.ask()
    drive(world)

    world.edit(version=MIDDLE)
    drive(world)

    assert world.serving() == {0}


def test_an_edit_that_waits_for_something_else_was_reported_as_not_allowed() -> None:
    """As with unusable certificates: the user had asked for another patch, and was told to ask for
    one."""
    world = changing(MIDDLE, NEW)
    seen = replace(world.observe(), etcd=None)
    patch = replace(seen, cluster=replace(seen.cluster, version=parse_version("3.6.15")))

    assert rollback.why_not(patch) == ""
    assert "Another patch of 3.6" in rollback.why_not(seen)
