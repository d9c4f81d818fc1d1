"""The version of a cluster whose Secret is lost: taken from what is left, never from a default or
an edit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import with_pod
from worlds import World, drive, formed, guess_version, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import upgrade
from etcd_stateful.membership.steps import ApplyChild, CreateSecret, Hold, Settled
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.versions import Version

OLD, MIDDLE, NEW = "3.5.33", "3.6.14", "3.7.3"


def running(version: str, size: int = 3) -> World:
    """A cluster whose spec names no version."""
    world = formed(size, version=version)
    world.turn()
    del world.body["spec"]["version"]
    world.edit()
    assert drive(world) == Settled()
    world.history.clear()
    return world


def orphaned(version: str, size: int = 3) -> World:
    """A cluster that lost its Secret and its StatefulSet; the pods still run."""
    world = running(version, size)
    world.lose_secret()
    world.delete_stateful_set()
    return world


def versions(world: World) -> set[str]:
    return {pod.version for pod in world.pods.values()}


def taken_on(seen: Observation) -> Bootstrap:
    step = decide(seen)
    assert isinstance(step, CreateSecret), step
    assert step.record.latched
    return step.record


class TestTheStatefulSetIsLostToo:
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_a_cluster_of_an_older_version_was_upgraded_to_the_operators_default(
        self, size: int
    ) -> None:
        world = orphaned(OLD, size)

        assert drive(world) == Settled()

        assert versions(world) == {OLD}
        assert (world.record.version, world.record.before) == (OLD, "")
        assert not world.record.untried

    def test_pods_beyond_a_smaller_size_were_stopped_with_the_only_data_in_their_empty_dirs(
        self,
    ) -> None:
        """I5: the operator could not reach etcd to ask for its members, and went by spec.size."""
        world = formed(5, pod={"emptyDir": {}})
        world.lose_secret()
        world.delete_stateful_set()
        world.edit(size=1)
        world.cut_off = True

        step = until(world, "StatefulSet c")
        assert isinstance(step, ApplyChild)
        assert step.manifest["spec"]["replicas"] == 5
        world.cut_off = False
        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 1

    def test_a_pod_that_is_stopping_still_tells(self) -> None:
        world = running(OLD)
        world.lose_secret()
        world.delete_stateful_set(with_pods=True)

        assert drive(world) == Settled()
        assert versions(world) == {OLD}

    def test_without_any_pod_the_status_tells_and_counts_as_untried(self) -> None:
        world = running(OLD)
        world.lose_secret()
        world.delete_stateful_set()
        world.pods.clear()
        world.body["status"]["currentVersion"] = OLD

        record = taken_on(world.observe())

        assert (record.version, record.untried) == (OLD, True)
        assert drive(world) == Settled()
        assert versions(world) == {OLD}
        assert not world.record.untried

    def test_without_any_trace_the_spec_counts_until_a_quorum_has_answered(self) -> None:
        world = running(NEW)
        world.lose_secret()
        world.delete_stateful_set()
        world.pods.clear()
        world.edit(version="3.7.2")

        record = taken_on(world.observe())

        assert (record.version, record.untried) == ("3.7.2", True)

    def test_a_pending_edit_skipped_a_minor(self) -> None:
        world = orphaned(OLD)
        world.edit(version=NEW)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "VersionJump"
        assert versions(world) == {OLD}

    def test_a_pending_edit_skipped_the_gates_of_an_upgrade(self) -> None:
        """Nothing records any more that no log has entries written by 3.5."""
        world = orphaned(MIDDLE)
        world.edit(version=NEW)

        assert drive(world) == Settled()

        steps = ["EnableDowngrade", "CancelDowngrade", f"version {NEW}"]
        assert [one for one in labels(world.history) if one in steps] == steps

    @pytest.mark.parametrize(("before", "after"), [(MIDDLE, NEW), (NEW, MIDDLE)])
    @pytest.mark.parametrize("restarted", [1, 2])
    def test_a_change_that_was_half_way_continues(
        self, before: str, after: str, restarted: int
    ) -> None:
        world = running(before)
        world.edit(version=after)
        done = 0
        while done < restarted:
            step = decide(world.observe())
            done += labels([step])[0].startswith("restart")
            world.apply(step) if is_write(step) else world.turn()
        for _ in range(3):
            world.turn()
        world.lose_secret()
        world.delete_stateful_set()

        record = taken_on(world.observe())

        assert (record.version, record.before) == (MIDDLE, NEW)
        assert drive(world) == Settled()
        assert versions(world) == {after}

    @pytest.mark.parametrize(
        ("ran", "version"),
        [
            (("3.7.2", NEW, NEW), NEW),
            (("3.7.2", "3.7.2", NEW), "3.7.2"),
            (("3.7.2", NEW), "3.7.2"),
            ((MIDDLE, NEW, NEW), MIDDLE),
        ],
    )
    def test_of_several_versions_the_lowest_minor_counts_with_the_patch_of_most_of_its_pods(
        self, ran: tuple[str, ...], version: str
    ) -> None:
        seen = orphaned(NEW, len(ran)).observe()
        for ordinal, one in enumerate(ran):
            seen = with_pod(seen, ordinal, spec_hash=f"0-{one}")

        assert taken_on(seen).version == version

    def test_a_pod_that_never_ran_tells_nothing(self) -> None:
        seen = orphaned(NEW).observe()
        seen = with_pod(seen, 2, spec_hash=f"0-{MIDDLE}", etcd_started=False)

        assert taken_on(seen).version == NEW

    def test_the_pods_count_more_than_the_status(self) -> None:
        seen = replace(orphaned(MIDDLE).observe(), last_version=Version(3, 5, 33))

        assert taken_on(seen).version == MIDDLE


class TestTheStatefulSetIsThere:
    def failing(self) -> World:
        """A power outage: no pod is Ready, and the registry is down too."""
        world = running(MIDDLE)
        world.bad_images = {MIDDLE}
        for ordinal in list(world.pods):
            world.restart_pod(ordinal)
        world.turn()
        world.turn()
        return world

    def test_its_version_was_replaced_by_a_pending_edit_without_any_gate(self) -> None:
        world = self.failing()
        world.edit(version=NEW)
        world.lose_secret()

        drive(world)

        assert (world.record.version, world.record.untried) == (MIDDLE, False)
        assert versions(world) == {MIDDLE}

        world.bad_images = set()
        assert drive(world) == Settled()
        assert labels(world.history).index("EnableDowngrade") < labels(world.history).index(
            f"version {NEW}"
        )

    def test_it_counts_more_than_pods_and_status(self) -> None:
        world = running(MIDDLE)
        world.lose_secret()
        seen = replace(world.observe(), last_version=Version(3, 5, 33))
        for ordinal in range(3):
            seen = with_pod(seen, ordinal, spec_hash=f"0-{OLD}")

        assert taken_on(seen).version == MIDDLE


class TestAGuess:
    """Nothing tells the version, and the spec is edited."""

    def all_fail(self, now: str, **sign: bool) -> Observation:
        world = formed(3, version=now)
        world.edit(version=NEW)
        seen = replace(world.observe(), etcd=None, statuses={})
        assert seen.secret is not None
        secret = replace(seen.secret, bootstrap=replace(world.record, untried=True))
        failing = [replace(pod, ready=False, **sign) for pod in seen.pods]
        return replace(seen, secret=secret, pods=tuple(failing))

    @pytest.mark.parametrize("sign", ["crashing", "image_missing"])
    def test_is_kept_while_a_pod_may_still_run_it(self, sign: str) -> None:
        """One missing image of three was enough to give it up."""
        seen = self.all_fail(MIDDLE, **{sign: True})
        assert upgrade.replace_assumed(seen) is not None

        early = with_pod(seen, 1, etcd_started=False, **{sign: False})
        assert upgrade.replace_assumed(early) is None

    @pytest.mark.parametrize("now", [MIDDLE, "3.7.2"])
    @pytest.mark.parametrize("told", [True, False])
    def test_that_agrees_with_the_status_is_not_changed_by_a_minor_because_its_image_is_missing(
        self, now: str, told: bool
    ) -> None:
        """As far as anybody knows, members ran it."""
        seen = self.all_fail(now, image_missing=True)
        hint = seen.cluster.version if not told else Version(3, int(now[2]), 1)
        seen = replace(seen, last_version=hint)

        assert (upgrade.replace_assumed(seen) is None) is (told and now == MIDDLE)


class TestTheSecretIsLostTwice:
    """The first record was rebuilt with a version that nothing tells, the second one after it."""

    def guessed(self, wrong: str) -> World:
        """No member can run the version that was guessed."""
        world = running(MIDDLE)
        guess_version(world, wrong)
        assert (world.record.version, world.record.untried) == (wrong, True)
        return world

    @pytest.mark.parametrize("wrong", [OLD, NEW])
    def test_the_guess_was_kept_for_good(self, wrong: str) -> None:
        """The StatefulSet that was rendered with it passed for a trace of what members ran."""
        world = self.guessed(wrong)
        world.lose_secret()
        drive(world)
        assert (world.record.version, world.record.untried) == (wrong, True)

        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert versions(world) == {MIDDLE}
        assert not world.record.untried

    def test_after_a_quorum_has_answered_the_guess_is_none(self) -> None:
        world = self.guessed(NEW)
        world.edit(version=MIDDLE)
        drive(world)
        for ordinal in list(world.pods):
            world.restart_pod(ordinal)
        world.lose_secret()
        world.turn()

        record = taken_on(world.observe())

        assert (record.version, record.untried) == (MIDDLE, False)
        assert drive(world) == Settled()

    def test_the_note_is_of_the_version_beside_it(self) -> None:
        world = running(MIDDLE)
        world.alter("StatefulSet", "c")["metadata"]["annotations"][naming.ASSUMED_ANNOTATION] = NEW
        world.lose_secret()

        assert not taken_on(world.observe()).untried


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 10])
def test_an_unreadable_note_of_an_epoch_ended_each_look_at_the_cluster(text: str) -> None:
    world = formed(1)
    world.alter("StatefulSet", "c")["metadata"]["annotations"][naming.BEGUN_ANNOTATION] = text
    world.lose_secret()

    assert drive(world, idle=2) == Settled()
    assert world.record.begun == 0
