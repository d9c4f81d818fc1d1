"""Upgrades of etcd: one step at a time that etcd allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import with_status, without_status
from worlds import World, drive, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import upgrade
from etcd_stateful.membership.steps import (
    ApplyChild,
    CancelDowngrade,
    DisarmAlarm,
    EnableDowngrade,
    Hold,
    MoveLeader,
    Settled,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.members import Alarm
from unit.membership.versions.running_versions import (
    EMPTY_DIR,
    MIDDLE,
    NEW,
    OLD,
    changing,
    restarts,
    running,
    versions,
)


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

    def test_from_the_middle_of_a_change_took_the_cluster_down_and_up_again(self) -> None:
        world = self.restored(OLD, MIDDLE, NEW)
        amid = replace(world.record, version=MIDDLE, before=OLD)
        world.secret = (world.secret[0] + 1, amid)

        assert drive(world) == Settled()

        assert {type(step) for step in world.history} == {WriteBootstrap}
        assert world.record.version == NEW

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
