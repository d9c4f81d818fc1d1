"""Downgrades of etcd, and what joins meanwhile."""

from __future__ import annotations

import pytest
from views import seat, with_status, without_status
from worlds import World, drive, is_write, labels, until

from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import upgrade
from etcd_stateful.membership.steps import (
    CancelDowngrade,
    DeletePod,
    EnableDowngrade,
    Hold,
    Settled,
    Step,
    Wait,
)
from unit.membership.versions.running_versions import (
    EMPTY_DIR,
    MIDDLE,
    NEW,
    OLD,
    changing,
    restarts,
    versions,
)


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
