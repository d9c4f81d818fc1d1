"""Rolling restarts of pods that are not Ready, whatever keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from views import DOWN, TRIED_AGAIN, newest, with_claim, with_members, with_pod, without_status
from worlds import World, body, drive, formed, labels, until

from etcd_stateful.membership.rolling import roll, version_first
from etcd_stateful.membership.steps import Settled
from etcd_stateful.observed.members import Alarm, Member
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.start.ticket import Finding
from unit.membership.rolling.edits import EMPTY_DIR, LABEL, edited


class TestUnready:
    def test_an_edit_that_may_help_is_applied_at_once(self) -> None:
        """No pod can be scheduled, and the edit changes that."""
        world = World(body(3, pod={"nodeSelector": {"a": "b"}}))
        world.stuck = {0, 1, 2}
        drive(world)
        world.edit(pod={})
        world.stuck = set()

        assert drive(world) == Settled()

    def test_also_without_a_quorum(self) -> None:
        world = formed(3)
        for ordinal in (0, 1):
            world.pods[ordinal].where = "pending"
        world.stuck = {0, 1}
        world.edit(**LABEL)
        world.history.clear()
        drive(world)

        assert labels(world.history) == ["StatefulSet c", "restart c-0", "restart c-1"]

    def test_without_a_quorum_one_whose_etcd_answers_is_left_alone(self) -> None:
        """Its data may be the last good copy, and the new template may be broken."""
        world = edited(3)
        for ordinal in (0, 1):
            world.pods[ordinal].where = "pending"
        seen = world.observe()
        assert seen.etcd is None

        assert 2 in seen.statuses
        others = with_pod(with_pod(seen, 0, revision=newest(seen)), 1, revision=newest(seen))
        assert roll.restart_unready(others) is None

    def test_a_silent_and_unready_member_that_the_quorum_may_need_is_left_alone(self) -> None:
        """I1: its probe and its answer may both be late, while it still serves."""
        world = edited(3)
        seen = with_pod(without_status(world.observe(), 1, 2), 2, ready=False)
        crashing = with_pod(seen, 1, ready=False, trouble="CrashLoopBackOff")

        assert labels([roll.restart_unready(crashing)]) == ["restart c-1"]
        assert roll.restart_unready(with_pod(crashing, 1, revision=newest(seen))) is None

    def test_a_silent_member_was_restarted_beside_one_with_a_disk_that_hangs(self) -> None:
        """I1: one of the two others answers from memory alone, so the quorum needs this one."""
        seen = with_pod(without_status(edited(3).observe(), 1), 1, ready=False)
        assert labels([roll.restart_unready(seen)]) == ["restart c-1"]

        assert roll.restart_unready(with_pod(seen, 2, ready=False)) is None

    @pytest.mark.parametrize(("learner", "left_alone"), [(False, True), (True, False)])
    def test_members_that_were_added_by_hand_count_for_that_quorum(
        self, learner: bool, left_alone: bool
    ) -> None:
        """I1: with a dead fourth member, all three others are needed. One was restarted
        nevertheless."""
        seen = with_pod(without_status(edited(3).observe(), 1), 1, ready=False)
        assert labels([roll.restart_unready(seen)]) == ["restart c-1"]

        other = Member(0x77, "", ("http://10.0.0.9:2380",), learner=learner)
        seen = with_members(seen, *seen.etcd.members, other)

        assert (roll.restart_unready(seen) is None) == left_alone

    def test_of_four_voters_a_quorum_needs_three(
        self,
    ) -> None:
        """I1: the pod was counted as if its member left the list. Growth from three to five passes
        through four."""
        seen = with_pod(without_status(edited(4).observe(), 1), 1, ready=False)
        assert labels([roll.restart_unready(seen)]) == ["restart c-1"]

        seen = with_pod(without_status(seen, 3), 3, revision=newest(seen))
        assert roll.restart_unready(seen) is None

    def test_one_of_two_is_recreated_while_the_other_serves(self) -> None:
        seen = with_pod(without_status(edited(2).observe(), 1), 1, ready=False)

        assert labels([roll.restart_unready(seen)]) == ["restart c-1"]
        assert roll.restart_unready(without_status(seen, 0)) is None

    def test_a_member_that_the_quorum_may_need_is_left_alone_while_it_is_started_again(
        self,
    ) -> None:
        seen = with_pod(without_status(edited(3).observe(), 1, 2), 2, ready=False)
        assert labels([roll.restart_unready(with_pod(seen, 1, **DOWN))]) == ["restart c-1"]

        assert labels([roll.restart_unready(with_pod(seen, 1, **TRIED_AGAIN))]) != ["restart c-1"]

    def cut_off(self) -> World:
        """No member can be reached, and the template of every pod is outdated."""
        world = edited(3)
        world.cut_off = True
        return world

    def unready(self, world: World, **first: Any) -> list[str]:
        """No pod is Ready; `first` are further changes to c-0."""
        seen = world.observe()
        for pod in seen.pods:
            seen = with_pod(seen, pod.ordinal, ready=False, **(first if not pod.ordinal else {}))
        step = roll.restart_unready(seen)
        return labels([step]) if step else []

    def test_an_operator_that_is_cut_off_restarts_one_after_the_other(self) -> None:
        """I8: it cannot tell which pods still run etcd."""
        world = self.cut_off()
        assert self.unready(world) == ["restart c-0"]

        world.restart_pod(0)
        assert self.unready(world) == []

        del world.pods[0]
        assert self.unready(world) == []

        world._control()
        assert world.pods[0].where == "pending"
        assert self.unready(world) == []

        world.turn()
        assert world.pods[0].where == "etcd"
        assert self.unready(world) == ["restart c-1"]

    def test_one_after_the_other_also_over_several_passes(self) -> None:
        """I8, by the rules that every write is checked against."""
        world = self.cut_off()
        for ordinal in (1, 2):
            world.pods[ordinal].silent = True

        drive(world)

        assert labels(world.history) == ["restart c-0", "restart c-1", "restart c-2"]

    def test_a_silent_pod_was_restarted_while_the_pod_of_a_removed_member_stopped(self) -> None:
        """I8: only the pods that the StatefulSet asks for were looked at."""
        world = formed(5)
        world.edit(size=4)
        until(world, "StatefulSet c")
        world.edit(size=4, **LABEL)
        world.apply(until(world, "StatefulSet c"))
        world.pods[0].silent = True
        world.turn()
        assert world.pods[4].deleting
        assert roll.restart_unready(world.observe()) is None
        assert roll.ailing_pod(world.observe()) is None

        world.turn()
        assert 4 not in world.pods
        assert labels([roll.restart_unready(world.observe())]) == ["restart c-0"]

    @pytest.mark.parametrize("missing", ["image_missing", "start_missing"])
    def test_an_operator_that_is_cut_off_restarted_all_for_an_image_that_nobody_has(
        self, missing: str
    ) -> None:
        """I1: a pod that fails did not count as away, whatever it fails from. After an alarm
        CORRUPT no pod is Ready, though a quorum may run."""
        world = self.cut_off()
        del world.pods[0]
        world._control()
        pulling = {"trouble": "image x cannot be pulled (ImagePullBackOff)", missing: True}
        assert self.unready(world, trouble="cannot be scheduled") == ["restart c-1"]

        assert self.unready(world, **pulling) == []
        assert self.unready(world, **pulling, deleting=True, overdue=True) == ["restart c-1"]

    def test_another_image_is_tried_where_the_first_one_is_missing(self) -> None:
        """First by the pod that lacks it, then by the others, one after the other."""
        world = formed(3)
        world.cut_off = True
        for pod in world.pods.values():
            pod.silent = True
        world.operator_image, world.bad_starts = "operator:2", {"operator:2"}
        world.edit(**LABEL)
        drive(world)
        assert labels(world.history[-2:]) == ["StatefulSet c", "restart c-0"]

        world.operator_image = "operator:3"
        world.history.clear()
        drive(world)

        expected = ["StatefulSet c", "restart c-0", "restart c-1", "restart c-2"]
        assert labels(world.history) == expected

    def test_an_image_of_an_older_template_keeps_no_other_from_the_edit(self) -> None:
        """Nor does that of an older operator, by the revision alone."""
        world = self.cut_off()
        seen = with_pod(world.observe(), 0, ready=False)
        seen = with_pod(seen, 2, ready=False, etcd_started=False, trouble="its image is missing")
        of_operator = {"start_missing": True, "spec_hash": version_first.template_hash(seen)}

        for lacks in ({"image_missing": True}, of_operator):
            older = with_pod(seen, 2, **lacks)
            assert labels([roll.restart_unready(older)]) == ["restart c-0"]
            assert roll.restart_unready(with_pod(older, 2, revision=newest(seen))) is None

    def test_a_pod_that_fails_is_restarted_though_another_lacks_the_image(self) -> None:
        """Nothing is lost by it: the image may be on its node."""
        world = self.cut_off()
        del world.pods[0]
        world._control()
        seen = with_pod(world.observe(), 0, trouble="its image is missing", start_missing=True)

        assert roll.restart_unready(with_pod(seen, 1, ready=False)) is None
        assert labels([roll.restart_unready(with_pod(seen, 1, **DOWN))]) == ["restart c-1"]

    @pytest.mark.parametrize(
        "down",
        [
            {"deleting": True, "overdue": True},
            {"trouble": "cannot be scheduled"},
            {"age": 30.0},
            {"answer": StartAnswer("x", Finding("no-data"))},
        ],
        ids=str,
    )
    def test_a_pod_that_does_not_come_back_keeps_no_other_from_the_edit(self, down: dict) -> None:
        world = self.cut_off()
        del world.pods[0]
        world._control()
        assert self.unready(world) == []

        assert self.unready(world, **down) == ["restart c-1"]

    def test_a_pod_that_is_never_created_kept_a_failing_one_from_the_edit(self) -> None:
        """A quota or a policy refused the other pod for ever, and with the edit there could have
        been a quorum again."""
        world = self.cut_off()
        del world.pods[0]
        seen = with_pod(world.observe(), 1, **DOWN)

        assert labels([roll.restart_unready(seen)]) == ["restart c-1"]
        assert roll.restart_unready(with_pod(seen, 1, crashing=False)) is None, "it may run"
        assert roll.restart_unready(with_pod(seen, 1, crashing=False, **TRIED_AGAIN)) is None

    def test_a_pod_that_no_member_has_yet_kept_a_silent_one_from_the_edit(self) -> None:
        """A quota refuses the pods that a larger size asks for."""
        world = edited(3)
        world.edit(size=5)
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        seen = without_status(with_pod(world.observe(), 1, ready=False), 1)
        assert seen.replicas == 5

        step = roll.restart_unready(replace(seen, pods=seen.pods[:3]))

        assert labels([step]) == ["restart c-1"]

    def test_a_pod_whose_etcd_has_not_started_keeps_no_other_from_the_edit(self) -> None:
        world = self.cut_off()
        for ordinal in (0, 1):
            world.pods[ordinal].where = "pending"

        assert self.unready(world, deleting=True) == ["restart c-1"]

    def test_not_a_pod_that_stops_or_is_up_to_date_or_ready(self) -> None:
        world = edited(3)
        seen = without_status(with_pod(world.observe(), 1, ready=False), 1)
        assert labels([roll.restart_unready(seen)]) == ["restart c-1"]

        for change in ({"deleting": True}, {"revision": newest(seen)}, {"ready": True}):
            assert roll.restart_unready(with_pod(seen, 1, **change)) is None

    def test_not_a_pod_whose_claim_is_being_deleted(self) -> None:
        """It would come back bound to that claim."""
        seen = without_status(with_pod(edited(3).observe(), 1, ready=False), 1)

        assert roll.restart_unready(with_claim(seen, 1, deleting=True)) is None

    @pytest.mark.parametrize("started", [True, False])
    def test_with_an_empty_dir_only_before_it_has_data(self, *, started: bool) -> None:
        world = formed(3, pod=EMPTY_DIR)
        world.edit(pod=EMPTY_DIR | {"labels": {"a": "b"}})
        world.apply(until(world, "StatefulSet c"))
        world._control()
        seen = without_status(world.observe(), 1)

        step = roll.restart_unready(with_pod(seen, 1, ready=False, etcd_started=started))

        assert (step is None) is started

    def failing_on_an_empty_dir(self, size: int) -> World:
        world = formed(size, pod=EMPTY_DIR)
        world.pods[1].crashing = True
        world.edit(pod=EMPTY_DIR | {"labels": {"a": "b"}})
        world.history.clear()
        return world

    @pytest.mark.parametrize("size", [3, 5])
    def test_a_member_that_fails_on_an_empty_dir_never_got_the_edit_that_cures_it(
        self, size: int
    ) -> None:
        """Such as more memory. All others have the data, and each of them is replaced as well."""
        world = self.failing_on_an_empty_dir(size)

        assert drive(world) == Settled()

        assert labels(world.history)[:2] == ["StatefulSet c", "restart c-1"]
        assert len(world.etcd.voters) == size

    def test_its_data_does_not_go_if_others_may_lack_it(self) -> None:
        world = self.failing_on_an_empty_dir(2)
        drive(world)
        assert labels(world.history) == ["StatefulSet c"]

        world = self.failing_on_an_empty_dir(3)
        until(world, "restart c-1")
        seen = world.observe()
        corrupt = (Alarm("CORRUPT", seen.statuses[0].member_id),)
        assert roll.restart_unready(replace(seen, alarms=corrupt)) is None
        assert roll.restart_unready(without_status(seen, 0)) is None
        assert roll.restart_unready(with_pod(seen, 1, crashing=False)) is None
