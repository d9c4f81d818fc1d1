"""Changes of etcd's version: one step at a time that etcd allows, and back if necessary."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import TRIED_AGAIN, seat, with_pod, with_status, without_status
from worlds import World, body, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership import going_back, upgrade
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    DeletePod,
    DisarmAlarm,
    EnableDowngrade,
    Hold,
    MoveLeader,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.members import Alarm
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.start.ticket import Finding

EMPTY_DIR = {"pod": {"emptyDir": {}}}
OLD, MIDDLE, NEW = "3.5.33", "3.6.14", "3.7.3"


def running(version: str, size: int = 3, **spec: object) -> World:
    world = formed(size, version=version, **spec)
    world.turn()
    world.history.clear()
    return world


def changing(before: str, after: str, size: int = 3, **spec: object) -> World:
    world = running(before, size, **spec)
    world.edit(version=after)
    return world


def versions(world: World) -> list[str]:
    return [world.pods[ordinal].version for ordinal in sorted(world.pods)]


def restarts(world: World) -> list[str]:
    return [one.name for one in world.history if isinstance(one, DeletePod)]


class TestUp:
    @pytest.mark.parametrize("size", [1, 2, 3, 5])
    @pytest.mark.parametrize(
        ("before", "after"),
        [(OLD, MIDDLE), (MIDDLE, NEW), ("3.7.1", "3.7.3"), ("3.7.3", "3.7.1")],
    )
    def test_one_minor_or_any_patch(self, before: str, after: str, size: int) -> None:
        world = changing(before, after, size)

        assert drive(world) == Settled()

        assert versions(world) == [after] * size
        assert labels(world.history)[:2] == [f"version {after}", "StatefulSet c"]
        assert sorted(restarts(world)) == [f"c-{one}" for one in range(size)]
        assert world.etcd.minor == after.rpartition(".")[0]

    def test_the_template_follows_the_record_after_a_second_look_alone(self) -> None:
        """By an old view of the record it would bring back another version."""
        step = until(changing(MIDDLE, NEW), "StatefulSet c")

        assert isinstance(step, ApplyChild)
        assert step.final

    def test_at_most_one_change_of_leader_by_our_choice(self) -> None:
        world = changing(MIDDLE, NEW)

        assert drive(world) == Settled()
        assert len([one for one in world.history if isinstance(one, MoveLeader)]) == 1

    def test_all_the_way_through_edit_by_edit(self) -> None:
        world = running(OLD)
        for version in (MIDDLE, NEW):
            world.edit(version=version)
            assert drive(world) == Settled()

        assert versions(world) == [NEW] * 3

    def test_to_3_7_with_no_entry_of_3_5_left_in_any_log(self) -> None:
        """3.7 panics at them; a downgrade that is called off makes every member take a snapshot."""
        world = changing(OLD, MIDDLE)
        assert drive(world) == Settled()
        world.edit(version=NEW)
        world.history.clear()

        assert drive(world) == Settled()
        steps = ["EnableDowngrade", "CancelDowngrade", f"version {NEW}"]
        assert [one for one in labels(world.history) if one in steps] == steps

    def test_to_3_7_straight_away_if_there_never_was_a_3_5(self) -> None:
        world = changing(MIDDLE, NEW)

        assert drive(world) == Settled()
        assert "EnableDowngrade" not in labels(world.history)

    def test_with_more_in_the_same_edit_is_one_restart(self) -> None:
        """And no option that only the new version knows is given to the old."""
        world = changing(MIDDLE, NEW)
        world.edit(version=NEW, pod={"labels": {"a": "b"}})

        assert drive(world) == Settled()
        assert labels(world.history)[0] == f"version {NEW}"
        assert len(restarts(world)) == 3

    @pytest.mark.parametrize("silent", [(), (1,), (0, 1, 2)])
    def test_with_more_in_the_same_edit_is_one_restart_whoever_is_silent_for_a_moment(
        self, silent: tuple[int, ...]
    ) -> None:
        """The rest of the edit was rolled out first, with the old version."""
        world = changing(MIDDLE, NEW)
        world.edit(version=NEW, pod={"labels": {"a": "b"}})
        seen = without_status(world.observe(), *silent)

        step = decide(seen if len(silent) == 1 else replace(seen, etcd=None))

        assert isinstance(step, Wait)
        assert step.soon

    @pytest.mark.parametrize("child", ["Service c", "Service c-client", "PodDisruptionBudget c"])
    def test_what_was_deleted_was_not_put_back_while_the_version_waited(self, child: str) -> None:
        """Of etcd, which refused it, or of members to write the older format."""
        kind, _, name = child.partition(" ")
        world = changing(NEW, MIDDLE)
        world.edit(version=MIDDLE, pod={"labels": {"a": "b"}})
        until(world, "EnableDowngrade")
        del world.objects[kind, name]

        assert labels([decide(world.observe())]) == [child]
        world.apply(decide(world.observe()))
        world.apply(until(world, "EnableDowngrade"))
        del world.objects[kind, name]
        assert labels([decide(world.observe())]) == [child]

    @pytest.mark.parametrize("path", ["template", "replicas"])
    def test_what_was_altered_of_the_pods_is_put_back_while_the_version_waits(
        self, path: str
    ) -> None:
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "EnableDowngrade"))
        spec = world.alter("StatefulSet", "c")["spec"]
        if path == "replicas":
            spec["replicas"] = 5
        else:
            spec["template"]["spec"]["containers"][0]["image"] = "altered"
            world._control()  # by the word of the controller the restart is over

        assert labels([decide(world.observe())]) == ["StatefulSet c"]

    def test_an_alarm_that_is_over_is_disarmed_while_the_version_waits(self) -> None:
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "EnableDowngrade"))
        seen = world.observe()
        assert isinstance(decide(seen), Wait)

        assert isinstance(decide(replace(seen, alarms=(Alarm("CORRUPT", 5),))), DisarmAlarm)

    def test_the_rest_of_an_edit_waits_with_the_version(self) -> None:
        """It would reach pods by a restart of its own, with the version that was."""
        world = changing(NEW, MIDDLE)
        world.edit(version=MIDDLE, pod={"labels": {"a": "b"}})
        world.apply(until(world, "EnableDowngrade"))

        assert decide(world.observe()) == Wait(
            "every member to write its data in the format of etcd 3.6", soon=True
        )
        assert drive(world) == Settled()
        assert labels(world.history)[:3] == [
            "EnableDowngrade",
            f"version {MIDDLE}",
            "StatefulSet c",
        ]
        assert len(restarts(world)) == 3

    @pytest.mark.parametrize(("before", "after"), [(MIDDLE, "3.6.15"), (MIDDLE, NEW)])
    def test_of_members_of_a_private_build_was_waited_for_for_ever(
        self, before: str, after: str
    ) -> None:
        """They say `3.6.14-acme.1`, and the tag of their image is the number alone."""
        world = changing(before, after)

        def private(seen: Observation) -> Observation:
            for ordinal, said in seen.statuses.items():
                seen = with_status(seen, ordinal, version=f"{said.version}-acme.1")
            return seen

        step = decide(private(world.observe()))
        assert labels([step]) == [f"version {after}"]
        until(world, "restart c-2")
        assert drive(world) == Settled()
        assert world.secret is not None
        version, record = world.secret
        world.secret = (version, replace(record, before=before, crossed=True))
        step = decide(private(world.observe()))
        assert isinstance(step, WriteBootstrap)
        assert (step.record.version, step.record.before) == (after, "")

    def test_with_an_empty_dir(self) -> None:
        world = changing(MIDDLE, NEW, **EMPTY_DIR)

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    @pytest.mark.parametrize("size", [1, 2])
    def test_with_an_empty_dir_and_fewer_than_three_it_stops_before_any_restart(
        self, size: int
    ) -> None:
        world = changing(MIDDLE, NEW, size, **EMPTY_DIR)

        assert drive(world).reason == "RestartNeedsMembers"
        assert versions(world) == [MIDDLE] * size

    def test_not_while_a_member_does_not_serve(self) -> None:
        world = changing(MIDDLE, NEW)
        world.pods[0].silent = True

        drive(world)

        assert world.history == []

    def test_not_before_every_member_says_that_it_runs_what_is_recorded(self) -> None:
        seen = changing(MIDDLE, NEW).observe()

        assert decide(with_status(seen, 0, version=OLD)) == Wait(
            f"every member to run etcd {MIDDLE}", soon=True
        )

    def test_with_the_size_at_once_the_new_members_join_first(self) -> None:
        """They are made from the image that runs."""
        world = changing(MIDDLE, NEW)
        world.edit(size=5)

        assert drive(world) == Settled()
        steps = labels(world.history)
        assert steps.index("promote c-4") < steps.index(f"version {NEW}")
        assert versions(world) == [NEW] * 5

    @pytest.mark.parametrize(("before", "after"), [(MIDDLE, NEW), (NEW, MIDDLE)])
    def test_with_a_smaller_size_at_once_the_surplus_members_go_first(
        self, before: str, after: str
    ) -> None:
        world = running(before, size=5)
        world.history.clear()
        world.edit(size=3, version=after)

        assert drive(world) == Settled()
        steps = labels(world.history)
        assert steps.index("remove c-3") < steps.index(f"version {after}")
        assert [one for one in steps if one.startswith("restart")] == [
            "restart c-2", "restart c-1", "restart c-0",
        ]  # fmt: skip
        assert versions(world) == [after] * 3

    def test_a_size_that_is_edited_half_way_does_not_wait_for_the_last_restart(self) -> None:
        world = changing(MIDDLE, NEW)
        until(world, "restart c-1")
        world.history.clear()
        world.edit(size=5)

        assert drive(world) == Settled()
        steps = labels(world.history)
        assert steps.index("promote c-4") < steps.index("restart c-1")
        assert "restart c-3" not in steps
        assert versions(world) == [NEW] * 5

    def test_is_decided_once_more_on_fresh_reads(self) -> None:
        """I9: what members run may have changed since."""
        step = until(changing(MIDDLE, NEW), f"version {NEW}")

        assert isinstance(step, WriteBootstrap)
        assert step.final


class TestSecretOfBefore:
    """The Secret was put back from a backup that is older than the last changes of the version."""

    def restored(self, *path: str, **spec: object) -> World:
        world = running(path[0], **spec)
        kept = world.record
        for version in path[1:]:
            world.edit(version=version)
            assert drive(world) == Settled()
        world.secret = (world.secret[0] + 1, kept)
        world.history.clear()
        return world

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    @pytest.mark.parametrize(
        "path",
        [(OLD, MIDDLE), (OLD, MIDDLE, NEW), ("3.7.1", "3.7.3"), ("3.7.3", "3.7.1")],
        ids="-".join,
    )
    def test_took_the_cluster_down_and_up_again_without_a_word_of_the_spec(
        self, path: tuple[str, ...], storage: dict
    ) -> None:
        """I9; two minors down etcd refused, and the cluster stayed like that."""
        world = self.restored(*path, **storage)

        assert drive(world) == Settled()

        assert {type(step) for step in world.history} == {WriteBootstrap}
        assert world.record.version == path[-1]

    def test_took_the_cluster_up_again_past_every_gate(self) -> None:
        world = self.restored(OLD)
        world.secret = (world.secret[0] + 1, replace(world.record, version=MIDDLE))

        assert drive(world) == Settled()
        assert {type(step) for step in world.history} == {WriteBootstrap}
        assert world.record.version == OLD

    def test_an_edit_at_the_same_time_took_it_up_past_every_gate(self) -> None:
        """To the record it was a mere patch; to the members it was two minors."""
        world = self.restored(OLD)
        world.secret = (world.secret[0] + 1, replace(world.record, version="3.7.1"))
        world.edit(version=NEW)
        seen = world.observe()
        first, *others = seen.pods
        failing = replace(first, crashing=True, ready=False)

        step = decide(without_status(replace(seen, pods=(failing, *others)), 0))

        assert isinstance(step, WriteBootstrap)
        assert step.record.version == OLD

    @pytest.mark.parametrize("path", [(OLD, MIDDLE), (MIDDLE, OLD)], ids="-".join)
    def test_without_a_quorum_a_recovery_went_by_a_version_that_cannot_read_the_data(
        self, path: tuple[str, str]
    ) -> None:
        """Nor could the version on record be left again: it changes while all members serve."""
        seen = self.restored(*path).observe()

        step = decide(replace(seen, etcd=None, statuses={}))

        assert isinstance(step, WriteBootstrap)
        assert step.record.version == path[-1]

    def test_without_a_quorum_the_stateful_set_has_to_say_so_too(self) -> None:
        world = self.restored(OLD, MIDDLE)
        silent = replace(world.observe(), etcd=None, statuses={})
        older = with_status(world.observe(), 0, version=OLD).statuses
        annotations = world.alter("StatefulSet", "c")["metadata"]["annotations"]
        annotations[naming.VERSION_ANNOTATION] = OLD

        assert upgrade.as_run(silent) is not None
        assert upgrade.as_run(replace(silent, statuses={0: older[0]})) is None
        assert upgrade.as_run(replace(silent, pods=())) is None
        assert upgrade.as_run(replace(silent, stateful_set=None)) is None
        assert upgrade.as_run(replace(world.observe(), etcd=None, statuses={})) is None

    def test_one_that_is_silent_for_a_moment_does_not_change_that(self) -> None:
        step = decide(without_status(self.restored(OLD, MIDDLE).observe(), 2))

        assert isinstance(step, WriteBootstrap)
        assert step.record.version == MIDDLE

    def test_pods_that_merely_report_another_version_do_not_either(self) -> None:
        """A build of one's own; or somebody else's image, which an edit would put back."""
        seen = running(MIDDLE).observe()
        for ordinal in range(3):
            seen = with_status(seen, ordinal, version="3.6.15")

        assert decide(seen) == Settled()

    def test_nor_while_pods_of_two_versions_are_there(self) -> None:
        seen = self.restored(OLD, MIDDLE).observe()
        older = replace(seen.pods[2], spec_hash="", image=f"etcd:v{OLD}")

        assert upgrade.as_run(replace(seen, pods=(*seen.pods[:2], older))) is None


class TestUnset:
    """A new operator has another default: running clusters stay as they are."""

    def test_a_running_cluster_stays(self) -> None:
        world = running(MIDDLE)
        del world.body["spec"]["version"]
        assert str(world.cluster.version) == NEW

        assert drive(world) == Settled()
        assert world.history == []

    def test_half_way_it_goes_on_with_what_was_begun(self) -> None:
        world = changing(MIDDLE, NEW)
        until(world, "restart c-2")
        del world.body["spec"]["version"]

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_the_version_that_runs_is_no_change(self) -> None:
        world = running(MIDDLE)
        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert world.history == []


class TestJump:
    @pytest.mark.parametrize(
        ("before", "after", "first"), [(OLD, NEW, "a 3.6 first"), (NEW, OLD, "a 3.6 first")]
    )
    def test_is_held_with_the_way_to_go(self, before: str, after: str, first: str) -> None:
        world = changing(before, after)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "VersionJump"
        assert f"the cluster runs etcd {before}" in rest.message
        assert first in rest.message
        assert f"to {after} when that is done" in rest.message
        assert world.history == []

    def test_the_cluster_goes_on_with_what_it_runs(self) -> None:
        world = changing(OLD, NEW)
        world.edit(size=5)
        world.empty(1)

        assert drive(world).reason == "VersionJump"
        assert versions(world) == [OLD] * 5
        assert len(world.etcd.voters) == 5


class TestDown:
    @pytest.mark.parametrize("size", [1, 2, 3])
    @pytest.mark.parametrize(("before", "after"), [(NEW, MIDDLE), (MIDDLE, OLD)])
    def test_etcd_is_told_and_writes_the_older_format_before_any_pod_goes(
        self, before: str, after: str, size: int
    ) -> None:
        """A plain rollback of the image finds data that it cannot read."""
        world = changing(before, after, size)
        older: list[str] = []

        def note(step: Step) -> None:
            if isinstance(step, DeletePod) and not older:
                older.extend(data.storage for _, data in world.volumes())

        assert drive(world, each=note) == Settled()

        assert labels(world.history)[:3] == [
            "EnableDowngrade",
            f"version {after}",
            "StatefulSet c",
        ]
        assert set(older) == {after.rpartition(".")[0]}
        assert versions(world) == [after] * size
        assert world.etcd.downgrade == ""

    @pytest.mark.parametrize("size", [1, 3])
    def test_not_with_an_empty_dir(self, size: int) -> None:
        """Each restart is a member that joins anew, and amid a downgrade none may: the first pod
        was made again, failed and was dropped, over and over."""
        world = changing(NEW, MIDDLE, size, **EMPTY_DIR)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "DowngradeNeedsVolumes"
        assert f"Set spec.version to {NEW}" in rest.message
        assert world.history == []

    def test_a_patch_with_an_empty_dir(self) -> None:
        world = changing("3.7.3", "3.7.1", **EMPTY_DIR)

        assert drive(world) == Settled()

    def test_nothing_is_said_to_be_done_before_the_controller_has_seen_the_new_template(
        self,
    ) -> None:
        """The status told that all was as declared, with every restart still to come."""
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "StatefulSet c"))

        assert decide(world.observe()) == Wait(
            "the controller of StatefulSet c to look at its newest template"
        )

    def test_a_patch_needs_no_downgrade(self) -> None:
        world = changing("3.7.3", "3.7.1")

        assert drive(world) == Settled()
        assert "EnableDowngrade" not in labels(world.history)

    def test_waits_for_every_member_to_write_the_older_format(self) -> None:
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "EnableDowngrade"))

        assert decide(world.observe()) == Wait(
            "every member to write its data in the format of etcd 3.6", soon=True
        )

    def test_one_that_does_not_say_what_it_writes_is_waited_for(self) -> None:
        world = changing(NEW, MIDDLE)
        until(world, f"version {MIDDLE}")

        assert isinstance(decide(with_status(world.observe(), 1, storage_version="")), Wait)

    def test_an_absent_leader_is_waited_for(self) -> None:
        seen = changing(NEW, MIDDLE).observe()
        leader = next(one for one in range(3) if seat(seen, one).leads)

        assert upgrade.go_on(without_status(seen, leader)) == Wait(
            "the leader to answer", soon=True
        )

    @pytest.mark.parametrize("told", [True, False], ids=["at once", "later"])
    def test_called_off_before_the_record_moves(self, *, told: bool) -> None:
        """Left on, the cluster would never again work as the version that it runs."""
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "EnableDowngrade"))
        if not told:
            until(world, f"version {MIDDLE}")
        world.edit(version=NEW)

        assert drive(world) == Settled()

        assert labels(world.history) == ["EnableDowngrade", "CancelDowngrade"]
        assert world.etcd.downgrade == ""
        assert world.etcd.minor == "3.7"

    @pytest.mark.parametrize("restarted", [1, 2])
    def test_called_off_half_way(self, restarted: int) -> None:
        world = changing(NEW, MIDDLE)
        while len(restarts(world)) < restarted:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        world.edit(version=NEW)

        assert drive(world) == Settled()

        assert "CancelDowngrade" in labels(world.history)
        assert versions(world) == [NEW] * 3
        assert world.etcd.minor == "3.7"


class TestJoiningAmidADowngrade:
    """etcd lets nobody join then, and a member that tries fails until it is given up."""

    AT = ("EnableDowngrade", f"version {MIDDLE}", "StatefulSet c", "restart c-0")

    @staticmethod
    def amid(label: str, before: str, after: str, size: int) -> World:
        world = changing(before, after, size)
        if label.startswith("restart"):
            world.etcd.move_leader(world.data(size - 1).member_id)
        world.apply(until(world, label.replace(MIDDLE, after)))
        world.turn()
        return world

    @pytest.mark.parametrize("label", AT)
    @pytest.mark.parametrize(("before", "after"), [(NEW, MIDDLE), (MIDDLE, OLD)])
    def test_one_that_grows(self, label: str, before: str, after: str) -> None:
        world = self.amid(label, before, after, 1)
        world.edit(size=5)

        assert drive(world) == Settled()

        assert versions(world) == [after] * 5
        assert len(world.etcd.voters) == 5
        assert world.etcd.downgrade == ""
        assert not given_up(world)

    @pytest.mark.parametrize("size", [3, 5])
    @pytest.mark.parametrize("restarted", [0, 1, 2])
    @pytest.mark.parametrize("lost", [0, 1, 2])
    @pytest.mark.parametrize(("before", "after"), [(NEW, MIDDLE), (MIDDLE, OLD)])
    def test_one_that_loses_a_member(
        self, before: str, after: str, lost: int, restarted: int, size: int
    ) -> None:
        world = changing(before, after, size)
        world.apply(until(world, "StatefulSet c"))
        while len(restarts(world)) < restarted:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        for _ in range(3):
            world.turn()
        world.empty(lost)

        assert drive(world) == Settled()

        assert versions(world) == [after] * size
        assert len(world.etcd.voters) == size
        assert not given_up(world)

    @pytest.mark.parametrize("label", AT[:1])
    def test_it_is_put_off_before_anybody_is_added(self, label: str) -> None:
        world = self.amid(label, NEW, MIDDLE, 1)
        world.edit(size=2)

        assert drive(world) == Settled()
        told = ("EnableDowngrade", "CancelDowngrade", "add c-1", f"version {MIDDLE}")
        assert [one for one in labels(world.history) if one in told] == [
            "EnableDowngrade",
            "CancelDowngrade",
            "add c-1",
            "EnableDowngrade",
            f"version {MIDDLE}",
        ]


def given_up(world: World) -> list[str]:
    """Removed once more after they had been added."""
    steps = labels(world.history)
    added = [one.removeprefix("add ") for one in steps if one.startswith("add ")]
    return [one for one in added if f"remove {one}" in steps[steps.index(f"add {one}") :]]


class TestHalfWay:
    @pytest.mark.parametrize("restarted", [0, 1, 2])
    def test_back_at_once_while_a_member_still_runs_the_old_one(self, restarted: int) -> None:
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

    def test_back_after_the_last_one_is_a_downgrade(self) -> None:
        world = changing(MIDDLE, NEW)
        assert drive(world) == Settled()
        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert "EnableDowngrade" in labels(world.history)

    def test_back_after_the_last_old_one_was_removed_is_a_downgrade(self) -> None:
        """I9: the cluster is of the newer minor from then on, and so is its data."""
        world = changing(MIDDLE, NEW)
        world.etcd.move_leader(world.data(0).member_id)
        until(world, "restart c-0")
        world.edit(version=MIDDLE)
        world.apply(until(world, f"version {MIDDLE}"))
        world.apply(until(world, "StatefulSet c"))
        world.etcd.remove(world.data(0).member_id)
        world.turn()

        step = upgrade.prepare(world.observe())

        assert isinstance(step, EnableDowngrade)
        assert step.minor == "3.6"

    def test_back_and_smaller_at_once_takes_the_last_old_one_away(self) -> None:
        """I9: a restart onto the older version would find data that it cannot read."""
        world = changing(MIDDLE, NEW)
        world.etcd.move_leader(world.data(2).member_id)
        until(world, "restart c-2")
        world.edit(version=MIDDLE, size=2)
        world.history.clear()

        assert drive(world) == Settled()
        steps = [one for one in labels(world.history) if one.startswith(("remove", "Enable"))]
        assert steps == ["remove c-2", "EnableDowngrade"]
        assert versions(world) == [MIDDLE] * 2

    def test_the_word_of_a_pod_that_is_stopping_does_not_count(self) -> None:
        """It is the last of the old ones, answers still, and comes back as a new one."""
        world = changing(MIDDLE, NEW)
        while len(restarts(world)) < 3:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        world.edit(version=MIDDLE)
        assert sorted(set(versions(world))) == [MIDDLE, NEW]

        assert labels([decide(world.observe())]) != [f"version {MIDDLE}"]
        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * 3

    def test_another_patch_half_way_is_taken_at_once(self) -> None:
        world = changing(MIDDLE, "3.7.1")
        world.apply(until(world, "restart c-2"))
        world.edit(version=NEW)

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3
        assert labels(world.history).count(f"version {NEW}") == 1

    @pytest.mark.parametrize("label", ["StatefulSet c", "restart c-2"])
    @pytest.mark.parametrize(("before", "first", "then"), [(OLD, MIDDLE, NEW), (NEW, MIDDLE, OLD)])
    def test_an_edit_over_two_minors_half_way_waits_for_the_first(
        self, before: str, first: str, then: str, label: str
    ) -> None:
        """I9: that the first was never tried is no reason to leave it out."""
        world = changing(before, first)
        until(world, f"version {first}")
        world.apply(until(world, label))
        world.turn()
        world.edit(version=then)

        assert drive(world) == Settled()

        steps = [one for one in labels(world.history) if one.startswith("version")]
        assert steps == [f"version {first}", f"version {then}"]
        assert len(restarts(world)) >= 6

    def test_pods_that_have_yet_to_start_again_prove_nothing(self) -> None:
        """The data is of 3.7, whatever the pods that were just made have run."""
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

    def test_a_pod_that_waits_for_a_node_proves_no_broken_image(self) -> None:
        """It has run 3.7 a moment ago, and the way back is still on record."""
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
    def test_stops_at_the_first_pod_says_so_and_goes_back_with_the_spec(
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
    def test_was_not_left_again_where_admission_names_a_mirror_in_pods(self, size: int) -> None:
        """No pod had the image that its template asked for."""
        world = World(body(size, version=MIDDLE))
        world.mirror = "mirror.example"
        assert drive(world) == Settled()
        world.bad_images = {NEW}
        world.edit(version=NEW)
        drive(world)

        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE] * size

    def test_is_left_again_along_with_another_edit(self) -> None:
        world = changing(MIDDLE, NEW, 1)
        world.bad_images = {NEW}
        drive(world)

        world.edit(version=MIDDLE, pod={"labels": {"a": "b"}})

        assert drive(world) == Settled()
        assert versions(world) == [MIDDLE]

    def test_goes_on_to_a_version_that_can_be_had(self) -> None:
        world = changing("3.7.1", "3.7.2")
        world.bad_images = {"3.7.2"}
        drive(world)
        world.edit(version=NEW)

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_one_that_crashes_stops_at_the_first_pod_too(self) -> None:
        world = changing(MIDDLE, NEW)
        world.apply(until(world, "restart c-2"))
        world.turn()
        world.pods[2].crashing = True

        drive(world)

        assert restarts(world) == ["c-2"]
        assert sorted(versions(world)) == [MIDDLE, MIDDLE, NEW]

    def stuck(self) -> World:
        """c-2 waits for the image; c-0 has lost its volume, and without a quorum gets no ticket."""
        world = changing(MIDDLE, NEW)
        world.bad_images = {NEW}
        drive(world)
        world.empty(0)
        world.turn()
        world.edit(version=MIDDLE)
        return world

    def test_is_left_again_where_another_pod_waits_without_data(self) -> None:
        seen = with_pod(self.stuck().observe(), 0, in_start=True, image_missing=False)
        assert seen.etcd is None, "no quorum"

        assert isinstance(going_back.go_back(seen), WriteBootstrap)

    def test_is_not_left_where_nobody_runs_the_version_before(self) -> None:
        """They may all have run the newer one, on this data."""
        seen = with_pod(self.stuck().observe(), 0, in_start=True, image_missing=False)

        assert going_back.go_back(with_pod(seen, 1, deleting=True)) is None
        assert going_back.go_back(without_status(seen, 1)) is None
        assert going_back.go_back(with_status(seen, 1, version=NEW)) is None

    @pytest.mark.parametrize("size", [2, 3])
    def test_is_left_again_after_the_secret_was_lost(self, size: int) -> None:
        """Nobody asks etcd while there is no Secret: what the members said of themselves was lost
        with it, and the version before was on no record."""
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
    def test_with_the_secret_lost_the_pods_say_what_ran_before(
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

    def test_with_the_secret_lost_a_pod_that_never_ran_says_nothing(self) -> None:
        world = running(NEW)
        world.lose_secret()
        seen = with_pod(world.observe(), 2, spec_hash=f"0-{MIDDLE}", etcd_started=False)

        step = decide(seen)

        assert isinstance(step, CreateSecret)
        assert step.record.before == ""


class TestUntried:
    """A record that was taken on from the claims; nobody has answered since."""

    def taken_on(self) -> Observation:
        """All members fail, and the spec names another version."""
        world = running("3.6.14")
        world.edit(version="3.7.3")
        seen = replace(world.observe(), etcd=None, statuses={})
        assert seen.secret is not None
        record = replace(world.record, untried=True)
        failing = [replace(pod, ready=False, crashing=True) for pod in seen.pods]
        secret = replace(seen.secret, bootstrap=record)
        return replace(seen, secret=secret, pods=tuple(failing))

    def test_another_version_is_tried_where_none_can_run(self) -> None:
        step = upgrade.try_another(self.taken_on())

        assert isinstance(step, WriteBootstrap)
        assert step.final
        assert (step.record.version, step.record.untried) == ("3.7.3", True)

    def test_a_pod_that_waits_without_data_is_no_reason_against_it(self) -> None:
        empty = {"in_start": True, "answer": StartAnswer("a run", Finding("no-data"))}
        seen = with_pod(self.taken_on(), 0, etcd_started=False, crashing=False, **empty)

        assert upgrade.try_another(seen) is not None

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
    def test_none_is_tried_where_a_member_may_run(self, sign: dict[str, bool]) -> None:
        assert upgrade.try_another(with_pod(self.taken_on(), 1, **sign)) is None

    def test_none_is_tried_where_etcd_or_a_member_answers(self) -> None:
        seen, running = self.taken_on(), formed(3).observe()

        assert upgrade.try_another(replace(seen, etcd=running.etcd)) is None
        assert upgrade.try_another(replace(seen, statuses=running.statuses)) is None

    def test_none_is_tried_while_pods_are_on_their_way_or_the_spec_names_none(self) -> None:
        seen = self.taken_on()
        early = [replace(pod, etcd_started=False, crashing=False) for pod in seen.pods]
        silent = replace(seen.cluster, version_declared=False)

        assert upgrade.try_another(replace(seen, pods=tuple(early))) is None
        assert upgrade.try_another(replace(seen, pods=())) is None
        assert upgrade.try_another(replace(seen, cluster=silent)) is None

    def test_none_is_tried_on_what_has_answered_before(self) -> None:
        seen = self.taken_on()
        assert seen.secret is not None
        assert seen.secret.bootstrap is not None
        record = replace(seen.secret.bootstrap, untried=False)

        tried = replace(seen, secret=replace(seen.secret, bootstrap=record))
        assert upgrade.try_another(tried) is None

    def test_a_secret_lost_while_members_answer_leaves_nothing_untried(self) -> None:
        world = running("3.6.14")
        world.lose_secret()

        assert drive(world) == Settled()
        assert not [one for one in world.history if isinstance(one, WriteBootstrap)]
        assert not world.record.untried

    def test_a_cluster_taken_on_by_its_claims_alone_is_tried_once_a_quorum_answers(self) -> None:
        world = running("3.6.14")
        world.lose_secret()
        world.delete_stateful_set()
        world.pods.clear()
        world.apply(decide(world.observe()))
        assert world.record.untried

        assert drive(world) == Settled()
        assert not world.record.untried


class TestTheVersionIsOnRecord:
    def test_a_stateful_set_that_is_lost_half_way_goes_on(self) -> None:
        world = changing(MIDDLE, NEW)
        world.apply(until(world, "restart c-2"))
        world.delete_stateful_set()

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_a_secret_that_is_lost_half_way_goes_on(self) -> None:
        world = changing(MIDDLE, NEW)
        world.apply(until(world, "restart c-2"))
        world.lose_secret()

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_nothing_is_written_for_a_cluster_that_has_not_formed(self) -> None:
        seen = changing(MIDDLE, NEW).observe()
        record = replace(seen.secret.bootstrap, latched=False)
        unformed = replace(seen, secret=replace(seen.secret, bootstrap=record))

        assert going_back.go_back(unformed) is None

    def test_nothing_goes_on_without_a_list(self) -> None:
        seen = changing(MIDDLE, NEW).observe()

        assert upgrade.go_on(replace(seen, etcd=None)) is None

    def test_nothing_goes_on_while_a_pod_is_not_ready(self) -> None:
        seen = changing(MIDDLE, NEW).observe()

        assert not is_write(decide(with_pod(seen, 1, ready=False)))


class TestTheWayBackIsNotGuessed:
    def test_a_downgrade_that_is_called_off_is_cancelled_last(self) -> None:
        """Cancelled first, a pod that comes back on the older version would be refused."""
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

    def test_pods_that_are_not_there_do_not_prove_that_nothing_ran(self) -> None:
        """All had been upgraded when the pods were deleted: their data is of the newer version."""
        world = changing(MIDDLE, NEW)
        drive(world)
        assert world.secret is not None
        version, record = world.secret
        world.secret = (version, replace(record, before=MIDDLE))
        world.pods.clear()
        world.edit(version=MIDDLE)

        assert going_back.go_back(world.observe()) is None
