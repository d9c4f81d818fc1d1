"""Changes of etcd's version: one step at a time that etcd allows, and back if necessary."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import TRIED_AGAIN, seat, with_pod, with_status, without_status
from worlds import World, body, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import rollback, upgrade
from etcd_stateful.membership.steps import (
    ApplyChild,
    CancelDowngrade,
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

    def test_the_template_is_changed_after_the_record_and_decided_twice(self) -> None:
        """With an old view of the record it would bring back another version."""
        step = until(changing(MIDDLE, NEW), "StatefulSet c")

        assert isinstance(step, ApplyChild)
        assert step.final

    def test_at_most_one_change_of_leader_by_our_choice(self) -> None:
        world = changing(MIDDLE, NEW)

        assert drive(world) == Settled()
        assert len([one for one in world.history if isinstance(one, MoveLeader)]) == 1

    def test_two_minors_up_edit_by_edit(self) -> None:
        world = running(OLD)
        for version in (MIDDLE, NEW):
            world.edit(version=version)
            assert drive(world) == Settled()

        assert versions(world) == [NEW] * 3

    def test_to_3_7_with_no_entry_of_3_5_left_in_any_log(self) -> None:
        """3.7 panics at such entries. A cancelled downgrade makes every member take a snapshot,
        after which none is left."""
        world = changing(OLD, MIDDLE)
        assert drive(world) == Settled()
        world.edit(version=NEW)
        world.history.clear()

        assert drive(world) == Settled()
        steps = ["EnableDowngrade", "CancelDowngrade", f"version {NEW}"]
        assert [one for one in labels(world.history) if one in steps] == steps

    def test_the_way_to_3_7_was_reported_as_a_downgrade_for_which_nobody_had_asked(self) -> None:
        """And its end as an edit of spec.version."""
        world = changing(OLD, MIDDLE)
        assert drive(world) == Settled()
        world.edit(version=NEW)

        asked = until(world, "EnableDowngrade")
        assert isinstance(asked, EnableDowngrade)
        assert "downgrade to 3.5, for a moment on the way up: each member" in asked.reason
        over = until(world, "CancelDowngrade")
        assert isinstance(over, CancelDowngrade)
        assert over.reason == f"the downgrade is cancelled: the cluster is to run etcd {NEW}"

    def test_to_3_7_directly_if_no_member_ever_ran_3_5(self) -> None:
        world = changing(MIDDLE, NEW)

        assert drive(world) == Settled()
        assert "EnableDowngrade" not in labels(world.history)

    def test_another_change_in_the_same_edit_is_one_restart(self) -> None:
        """And the old version never gets an option that only the new version knows."""
        world = changing(MIDDLE, NEW)
        world.edit(version=NEW, pod={"labels": {"a": "b"}})

        assert drive(world) == Settled()
        assert labels(world.history)[0] == f"version {NEW}"
        assert len(restarts(world)) == 3

    @pytest.mark.parametrize("silent", [(), (1,), (0, 1, 2)])
    def test_another_change_in_the_same_edit_is_one_restart_even_if_a_member_is_briefly_silent(
        self, silent: tuple[int, ...]
    ) -> None:
        """The other change was rolled out first, with the old version."""
        world = changing(MIDDLE, NEW)
        world.edit(version=NEW, pod={"labels": {"a": "b"}})
        seen = without_status(world.observe(), *silent)

        step = decide(seen if len(silent) == 1 else replace(seen, etcd=None))

        assert isinstance(step, Wait)
        assert step.soon

    @pytest.mark.parametrize("child", ["Service c", "Service c-client", "PodDisruptionBudget c"])
    def test_a_deleted_child_was_not_put_back_while_the_version_waited(self, child: str) -> None:
        """The change waited for etcd, which refused it, or for members to write the older
        format."""
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
    def test_a_manual_change_of_the_pods_is_put_back_while_the_version_waits(
        self, path: str
    ) -> None:
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "EnableDowngrade"))
        spec = world.alter("StatefulSet", "c")["spec"]
        if path == "replicas":
            spec["replicas"] = 5
        else:
            spec["template"]["spec"]["containers"][0]["image"] = "altered"
            world._control()  # the controller reports the rolling restart as over

        assert labels([decide(world.observe())]) == ["StatefulSet c"]

    def test_an_alarm_that_is_over_is_disarmed_while_the_version_waits(self) -> None:
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "EnableDowngrade"))
        seen = world.observe()
        assert isinstance(decide(seen), Wait)

        compared = replace(seen, alarms=(Alarm("CORRUPT", 5),), hashes={0: 1, 1: 1, 2: 1})
        assert isinstance(decide(compared), DisarmAlarm)

    def test_the_other_changes_of_an_edit_wait_with_the_version(self) -> None:
        """They would need a restart of their own, with the old version."""
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
    def test_a_private_build_was_waited_for_without_end(self, before: str, after: str) -> None:
        """Its members report `3.6.14-acme.1`, while the tag of the image is only the number."""
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

    def test_not_before_every_member_reports_the_recorded_version(self) -> None:
        seen = changing(MIDDLE, NEW).observe()

        assert decide(with_status(seen, 0, version=OLD)) == Wait(
            f"every member to run etcd {MIDDLE}", soon=True
        )

    def test_new_members_of_the_same_edit_join_first(self) -> None:
        """They are created with the running image."""
        world = changing(MIDDLE, NEW)
        world.edit(size=5)

        assert drive(world) == Settled()
        steps = labels(world.history)
        assert steps.index("promote c-4") < steps.index(f"version {NEW}")
        assert versions(world) == [NEW] * 5

    @pytest.mark.parametrize(("before", "after"), [(MIDDLE, NEW), (NEW, MIDDLE)])
    def test_surplus_members_of_the_same_edit_are_removed_first(
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

    def test_a_size_edited_half_way_does_not_wait_for_the_last_restart(self) -> None:
        world = changing(MIDDLE, NEW)
        until(world, "restart c-1")
        world.history.clear()
        world.edit(size=5)

        assert drive(world) == Settled()
        steps = labels(world.history)
        assert steps.index("promote c-4") < steps.index("restart c-1")
        assert "restart c-3" not in steps
        assert versions(world) == [NEW] * 5

    def test_is_decided_twice(self) -> None:
        """I9: the members' versions may have changed since."""
        step = until(changing(MIDDLE, NEW), f"version {NEW}")

        assert isinstance(step, WriteBootstrap)
        assert step.final


class TestEarlierSecret:
    """The Secret was restored from a backup that is older than the last changes of the version."""

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
    def test_took_the_cluster_down_and_up_again_although_the_spec_had_not_changed(
        self, path: tuple[str, ...], storage: dict
    ) -> None:
        """I9. Two minors down, etcd refused, and the cluster stayed like that."""
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
        """By the record it was only a patch, but the members run two minors below."""
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
    def test_without_a_quorum_a_recovery_used_a_version_that_cannot_read_the_data(
        self, path: tuple[str, str]
    ) -> None:
        """The recorded version could not be changed either, because that needs every member to
        serve."""
        seen = self.restored(*path).observe()

        step = decide(replace(seen, etcd=None, statuses={}))

        assert isinstance(step, WriteBootstrap)
        assert step.record.version == path[-1]

    def test_without_a_quorum_the_stateful_set_has_to_agree(self) -> None:
        world = self.restored(OLD, MIDDLE)
        silent = replace(world.observe(), etcd=None, statuses={})
        older = with_status(world.observe(), 0, version=OLD).statuses
        annotations = world.alter("StatefulSet", "c")["metadata"]["annotations"]
        annotations[naming.VERSION_ANNOTATION] = OLD

        assert upgrade.correct_record(silent) is not None
        assert upgrade.correct_record(replace(silent, statuses={0: older[0]})) is None
        assert upgrade.correct_record(replace(silent, pods=())) is None
        assert upgrade.correct_record(replace(silent, stateful_set=None)) is None
        assert upgrade.correct_record(replace(world.observe(), etcd=None, statuses={})) is None

    def test_is_corrected_although_one_member_is_silent_for_a_moment(self) -> None:
        step = decide(without_status(self.restored(OLD, MIDDLE).observe(), 2))

        assert isinstance(step, WriteBootstrap)
        assert step.record.version == MIDDLE

    def test_is_not_assumed_because_pods_report_another_version(self) -> None:
        """They may run a private build, or somebody else's image, which an edit would put back."""
        seen = running(MIDDLE).observe()
        for ordinal in range(3):
            seen = with_status(seen, ordinal, version="3.6.15")

        assert decide(seen) == Settled()

    def test_is_not_assumed_while_pods_have_two_versions(self) -> None:
        seen = self.restored(OLD, MIDDLE).observe()
        older = replace(seen.pods[2], spec_hash="", image=f"etcd:v{OLD}")

        assert upgrade.correct_record(replace(seen, pods=(*seen.pods[:2], older))) is None


class TestUnset:
    """A new operator has another default version. Running clusters keep theirs."""

    def test_a_running_cluster_stays(self) -> None:
        world = running(MIDDLE)
        del world.body["spec"]["version"]
        assert str(world.cluster.version) == NEW

        assert drive(world) == Settled()
        assert world.history == []

    def test_half_way_it_continues_with_what_has_begun(self) -> None:
        world = changing(MIDDLE, NEW)
        until(world, "restart c-2")
        del world.body["spec"]["version"]

        assert drive(world) == Settled()
        assert versions(world) == [NEW] * 3

    def test_declaring_the_running_version_is_no_change(self) -> None:
        world = running(MIDDLE)
        world.edit(version=MIDDLE)

        assert drive(world) == Settled()
        assert world.history == []


class TestAnotherImageByHand:
    """Somebody sets the image in the StatefulSet while the operator is away, and pods are created
    again meanwhile. Their annotation still says what the operator has rendered."""

    def made_by_hand(self, *ordinals: int) -> World:
        world = running(MIDDLE)
        live = world.alter("StatefulSet", "c")
        (etcd,) = live["spec"]["template"]["spec"]["containers"]
        etcd["image"] = etcd["image"].replace(MIDDLE, NEW)
        for ordinal in ordinals:
            world.restart_pod(ordinal)
        for _ in range(4):
            world.turn()
        assert [versions(world)[one] for one in ordinals] == [NEW] * len(ordinals)
        return world

    @pytest.mark.parametrize("ordinals", [(1,), (0, 1, 2)])
    def test_members_ran_it_until_something_else_restarted_them(
        self, ordinals: tuple[int, ...]
    ) -> None:
        """I9"""
        world = self.made_by_hand(*ordinals)

        assert drive(world) == Settled()

        assert versions(world) == [MIDDLE] * 3
        assert sorted(restarts(world)) == [f"c-{one}" for one in ordinals]
        assert world.etcd.minor == "3.6"
        assert world.etcd.downgrade == ""

    def test_an_edit_of_the_version_waited_for_them_for_ever(self) -> None:
        world = self.made_by_hand(1)
        world.edit(version="3.6.15")

        assert drive(world) == Settled()
        assert versions(world) == ["3.6.15"] * 3


class TestJump:
    @pytest.mark.parametrize(
        ("before", "after", "first"), [(OLD, NEW, "a 3.6 first"), (NEW, OLD, "a 3.6 first")]
    )
    def test_is_held_with_the_version_to_declare_first(
        self, before: str, after: str, first: str
    ) -> None:
        world = changing(before, after)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "VersionJump"
        assert f"the cluster runs etcd {before}" in rest.message
        assert first in rest.message
        assert f"to {after} when that is done" in rest.message
        assert world.history == []

    def test_the_cluster_continues_with_the_version_it_runs(self) -> None:
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
        """After a plain rollback of the image, etcd finds data that it cannot read."""
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
        """Each restart means a new member, and none may join amid a downgrade. The first pod was
        recreated, failed and was removed, over and over."""
        world = changing(NEW, MIDDLE, size, **EMPTY_DIR)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "DowngradeNeedsVolumes"
        assert f"Set spec.version to {NEW}" in rest.message
        assert world.history == []

    def test_the_next_one_was_refused_as_long_as_etcd_had_not_ended_the_last(self) -> None:
        """It looks only every `downgrade-check-time` whether one is over."""
        world = changing(NEW, MIDDLE)
        world.etcd.ends_downgrades = False
        assert drive(world) == Settled()
        assert world.etcd.downgrade == "3.6"
        world.edit(version=OLD)
        world.history.clear()

        assert drive(world) == Settled()
        assert versions(world) == [OLD] * 3
        told = [one for one in world.history if isinstance(one, CancelDowngrade | EnableDowngrade)]
        assert [one.reason for one in told] == [
            "the downgrade to 3.6 is cancelled, so that one to 3.5 can begin",
            "etcd is asked to allow a downgrade to 3.5",
        ]

    def test_a_patch_with_an_empty_dir(self) -> None:
        world = changing("3.7.3", "3.7.1", **EMPTY_DIR)

        assert drive(world) == Settled()

    def test_is_not_settled_before_the_controller_has_seen_the_new_template(
        self,
    ) -> None:
        """The status said that the cluster was as declared, before any pod had been restarted."""
        world = changing(NEW, MIDDLE)
        world.apply(until(world, "StatefulSet c"))

        assert decide(world.observe()) == Wait(
            "the controller of StatefulSet c to observe its latest template"
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

    def test_a_member_that_does_not_report_its_format_is_waited_for(self) -> None:
        world = changing(NEW, MIDDLE)
        until(world, f"version {MIDDLE}")

        assert isinstance(decide(with_status(world.observe(), 1, storage_version="")), Wait)

    def test_an_absent_leader_is_waited_for(self) -> None:
        seen = changing(NEW, MIDDLE).observe()
        leader = next(one for one in range(3) if seat(seen, one).leads)

        assert upgrade.advance(without_status(seen, leader)) == Wait(
            f"the leader, c-{leader}, to answer", soon=True
        )

    @pytest.mark.parametrize("told", [True, False], ids=["at once", "later"])
    def test_cancelled_before_the_record_changes(self, *, told: bool) -> None:
        """If the downgrade stayed enabled, the cluster version could never rise again to the one
        that members run."""
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
    def test_cancelled_half_way(self, restarted: int) -> None:
        world = changing(NEW, MIDDLE)
        while len(restarts(world)) < restarted:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        world.edit(version=NEW)

        assert drive(world) == Settled()

        assert "CancelDowngrade" in labels(world.history)
        assert versions(world) == [NEW] * 3
        assert world.etcd.minor == "3.7"


class TestJoiningDuringADowngrade:
    """etcd lets no member join then. One that tries fails until it is removed."""

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
    def test_a_cluster_that_grows(self, label: str, before: str, after: str) -> None:
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
    def test_a_cluster_that_loses_a_member(
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
    def test_the_downgrade_is_cancelled_before_a_member_is_added(self, label: str) -> None:
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
    """Members that were removed again after they had been added."""
    steps = labels(world.history)
    added = [one.removeprefix("add ") for one in steps if one.startswith("add ")]
    return [one for one in added if f"remove {one}" in steps[steps.index(f"add {one}") :]]


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
