"""Rolling restarts: causes and order. Unready pods come first, one at a time, the leader last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from views import (
    DOWN,
    TRIED_AGAIN,
    newest,
    seat,
    with_claim,
    with_members,
    with_pod,
    with_status,
    without_status,
)
from worlds import World, body, claim_gone, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import roll, version_first
from etcd_stateful.membership.steps import DeletePod, Hold, MoveLeader, Settled, Step, Wait
from etcd_stateful.observed.members import Alarm, Member
from etcd_stateful.observed.objects import Foreign
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.start.ticket import Finding

EMPTY_DIR = {"emptyDir": {}}
LABEL = {"pod": {"labels": {"team": "a"}}}


def edited(size: int = 3, **spec: object) -> World:
    """A settled cluster whose spec was edited; its StatefulSet has the new template already."""
    world = formed(size)
    world.history.clear()
    world.edit(**(spec or LABEL))
    until(world, "StatefulSet c")
    world.apply(decide(world.observe()))
    world.turn()
    world.history.clear()
    return world


def lead(world: World, ordinal: int) -> None:
    world.etcd.move_leader(world.data(ordinal).member_id)


@pytest.mark.parametrize(
    "spec",
    [
        {"pod": {"labels": {"a": "b"}}},
        {"pod": {"annotations": {"a": "b"}}},
        {"pod": {"resources": {"requests": {"memory": "1Gi"}}}},
        {"pod": {"nodeSelector": {"a": "b"}}},
        {"etcd": {"heartbeatIntervalMilliseconds": 200}},
        {"repository": "registry.example/etcd"},
    ],
    ids=["labels", "annotations", "resources", "nodes", "configuration", "image"],
)
def test_every_pod_is_recreated_for_an_edit_of_what_is_in_it(spec: dict) -> None:
    """F21: no edit is ignored silently."""
    world = formed(3)
    uids = {pod.uid for pod in world.pods.values()}
    world.edit(**spec)

    assert drive(world) == Settled()
    assert not uids & {pod.uid for pod in world.pods.values()}


@pytest.mark.parametrize(
    "spec",
    [
        {"retainedClaims": {"discard": "nobody"}},
        {"pod": {"busyboxImage": "busybox:1"}},
        {"pod": {"labels": {}}},
        {"version": "3.7.3"},
        {"size": 3},
    ],
    ids=["retained claims", "busybox", "no labels", "the same version", "the same size"],
)
def test_no_pod_is_recreated_for_any_other_edit(spec: dict) -> None:
    world = formed(3)
    uids = {pod.uid for pod in world.pods.values()}
    world.edit(**spec)

    assert drive(world) == Settled()
    assert uids == {pod.uid for pod in world.pods.values()}


class TestAnotherOperator:
    """It renders the same spec differently, which must not restart every cluster."""

    def rendered(self, size: int = 3) -> World:
        world = formed(size)
        live = world.alter("StatefulSet", "c")
        live["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["periodSeconds"] = 11
        world._control()
        for pod in world.pods.values():
            pod.revision = live["status"]["updateRevision"]
        world.history.clear()
        return world

    def test_restarts_nothing(self) -> None:
        world = self.rendered()

        assert drive(world) == Settled()
        assert labels(world.history) == ["StatefulSet c"]
        assert world.observe().outdated == ("c-0", "c-1", "c-2")

    def test_a_pod_that_is_recreated_anyway_gets_it(self) -> None:
        world = self.rendered()
        drive(world)
        world.restart_pod(1)

        assert drive(world) == Settled()
        assert world.observe().outdated == ("c-0", "c-2")

    def test_an_edit_of_what_is_in_pods_restarts_them(self) -> None:
        world = self.rendered()
        drive(world)
        world.edit(pod={"annotations": {"roll": "1"}})

        assert drive(world) == Settled()
        assert world.observe().outdated == ()

    def lacking(self, world: World, *ordinals: int) -> World:
        """Pods that were recreated by an operator whose own image can no longer be pulled."""
        world.operator_image = "operator:bad"
        world.bad_starts = {"operator:bad"}
        until(world, "StatefulSet c")
        world.apply(decide(world.observe()))
        for ordinal in ordinals:
            world.restart_pod(ordinal)
        world.history.clear()
        return world

    def test_a_pod_waited_for_the_image_of_an_operator_that_was_replaced(self) -> None:
        world = self.lacking(formed(3), 1)
        waits = drive(world)
        assert isinstance(waits, Wait)
        assert waits.reason == "pod c-1: its image cannot be pulled"
        assert world.history == []
        others = [world.pods[one].uid for one in (0, 2)]

        world.operator_image = "operator:good"

        assert drive(world) == Settled()
        assert labels(world.history) == ["StatefulSet c", "restart c-1"]
        assert [world.pods[one].uid for one in (0, 2)] == others

    def test_pods_waited_for_that_image_without_a_quorum(self) -> None:
        world = self.lacking(formed(3), 0, 1)
        claims = {ordinal: claim.uid for ordinal, claim in world.claims.items()}
        drive(world)
        assert world.history == []

        world.operator_image = "operator:good"

        assert drive(world) == Settled()
        assert labels(world.history) == ["StatefulSet c", "restart c-0", "restart c-1"]
        assert {ordinal: claim.uid for ordinal, claim in world.claims.items()} == claims

    def test_a_cluster_never_formed_because_that_image_was_missing(self) -> None:
        world = World(body(3))
        world.bad_starts = {world.operator_image}
        drive(world)
        assert not world.ticketed

        world.operator_image = "operator:good"

        assert drive(world) == Settled()

    def test_growth_continues_that_waited_for_that_image(self) -> None:
        world = self.lacking(formed(3))
        world.edit(size=5)
        drive(world)

        world.operator_image = "operator:good"

        assert drive(world) == Settled()
        assert [one for one in labels(world.history) if one.startswith("restart")] == [
            "restart c-3", "restart c-4",
        ]  # fmt: skip

    def test_a_pod_that_may_have_data_in_an_empty_dir_is_not_recreated_for_it(self) -> None:
        """Its node was restarted and no longer has the image, but the emptyDir is still there."""
        world = formed(3, pod=EMPTY_DIR)
        world.operator_image = "operator:new"
        until(world, "StatefulSet c")
        world.apply(decide(world.observe()))
        world.turn()
        lacks = with_pod(world.observe(), 0, start_missing=True, etcd_started=False, **DOWN)
        seen = without_status(lacks, 0)

        assert roll.restart_unready(seen) is None
        assert roll.restart_unready(with_pod(seen, 0, record=None)) is not None

    def test_a_manual_edit_of_the_template_is_put_back_without_a_restart(self) -> None:
        world = formed(3)
        live = world.alter("StatefulSet", "c")
        live["spec"]["template"]["metadata"]["annotations"][naming.SPEC_HASH] = "by-hand"
        world.turn()
        world.history.clear()

        assert drive(world) == Settled()
        assert labels(world.history) == ["StatefulSet c"]


class TestOrder:
    def test_followers_highest_first_and_the_leader_last_after_it_has_handed_over(self) -> None:
        """F27"""
        world = edited(5)
        lead(world, 3)

        assert drive(world) == Settled()
        assert labels(world.history) == [
            "restart c-4",
            "restart c-2",
            "restart c-1",
            "restart c-0",
            "lead c-0",
            "restart c-3",
        ]

    @pytest.mark.parametrize("leader", [0, 1, 2])
    def test_one_change_of_leader_is_enough(self, leader: int) -> None:
        """The new leader is one that was restarted already."""
        world = edited()
        lead(world, leader)

        assert drive(world) == Settled()
        steps = world.history
        assert len([one for one in steps if isinstance(one, MoveLeader)]) == 1
        assert labels(steps)[-1] == f"restart c-{leader}"

    def test_the_new_leader_was_restarted_already(self) -> None:
        """I8: otherwise it would have to hand over again."""
        world = edited(3)
        lead(world, 1)
        until(world, "restart c-0")
        seen = world.observe()

        step = changes.hand_over(seen, seat(seen, 1), "it is to be removed")

        assert step is not None
        assert step.member_id == world.data(2).member_id

    def test_one_that_does_not_serve_goes_first(self) -> None:
        world = edited(5)
        world.pods[1].silent = True

        assert labels([decide(world.observe())]) == ["restart c-1"]

    def test_the_next_only_when_all_serve_again(self) -> None:
        """I8"""
        world = edited()
        world.apply(decide(world.observe()))
        assert labels(world.history) == ["restart c-2"]
        world.stuck = {2}

        drive(world)

        assert labels(world.history) == ["restart c-2"]

    def test_the_next_only_when_all_are_ready_again(self) -> None:
        world = edited()

        step = decide(with_pod(world.observe(), 0, ready=False, revision=newest(world.observe())))

        assert step == Wait("pod c-0 to become ready")

    def test_the_next_only_when_all_answer(self) -> None:
        world = edited()
        seen = world.observe()
        follower = next(one for one in range(3) if not seat(seen, one).leads)

        step = decide(without_status(with_pod(seen, follower, revision="new"), follower))

        assert not is_write(step) or labels([step]) == [f"restart c-{follower}"]

    def test_an_edit_never_reached_a_member_that_was_too_slow_to_answer(self) -> None:
        """It may need the edit for that, as if it has too little CPU. Its probes have five seconds,
        the operator's questions one."""
        slow = without_status(edited(3).observe(), 1)
        assert labels([decide(slow)]) == ["restart c-1"]

        assert decide(with_pod(slow, 1, revision=newest(slow))) == Wait(
            "etcd in c-1 to answer", soon=True
        )
        assert decide(with_pod(slow, 0, ready=False)) == Wait("pod c-0 to become ready")
        assert decide(without_status(slow, 2)) == Wait("etcd in c-1, c-2 to answer", soon=True)

    def test_an_edit_that_was_taken_back_never_reached_the_member_that_it_had_broken(self) -> None:
        """Its etcd answered, but no longer heard the others, as with a label that somebody's
        NetworkPolicy selects. The operator waited for it to become ready."""
        world = edited(3)
        lead(world, 0)
        world.apply(until(world, "restart c-2"))
        world.turn()
        world.edit(pod={})
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        broken = with_status(with_pod(world.observe(), 2, ready=False), 2, leader_id=0)

        assert labels([decide(broken)]) == ["restart c-2"]

    def test_nor_did_a_version_that_was_taken_back(self) -> None:
        """I9: only if the data has a format that the older etcd reads."""
        world = formed(3, version="3.6.14")
        lead(world, 0)
        world.edit(version="3.7.3")
        world.apply(until(world, "restart c-2"))
        world.turn()
        world.edit(version="3.6.14")
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        broken = with_status(with_pod(world.observe(), 2, ready=False), 2, leader_id=0)

        assert labels([decide(broken)]) == ["restart c-2"]
        for known in ("3.7", ""):
            assert roll.ailing_pod(with_status(broken, 2, storage_version=known)) is None

    def test_an_edit_never_reached_a_member_that_answered_without_being_ready(self) -> None:
        """It may need the edit for that, as if its disk is slow: etcd answers from memory, while
        its probe reads; or it does not hear the leader."""
        world = edited(3)
        lead(world, 0)
        slow = with_pod(world.observe(), 1, ready=False)
        assert labels([decide(slow)]) == ["restart c-1"]
        assert labels([decide(with_status(slow, 1, leader_id=0))]) == ["restart c-1"]

        assert decide(with_pod(slow, 1, revision=newest(slow))) == Wait("pod c-1 to become ready")
        assert decide(with_pod(slow, 0, ready=False)) == Wait("pod c-0 to become ready")
        assert not isinstance(decide(without_status(slow, 2)), DeletePod)

    def test_a_leader_of_the_past_was_asked_to_hand_over_instead_of_being_restarted(self) -> None:
        """With a disk that hangs it goes on naming itself, and does not hear of its successor."""
        world = edited(3)
        lead(world, 0)
        seen = with_pod(world.observe(), 2, ready=False)
        term, itself = seen.statuses[2].term - 1, seen.statuses[2].member_id

        assert labels([decide(with_status(seen, 2, term=term, leader_id=itself))]) == [
            "restart c-2"
        ]

    def test_not_while_another_pod_is_in_trouble_that_may_have_the_edit_already(self) -> None:
        world = edited(3)
        lead(world, 0)
        seen = with_pod(world.observe(), 1, ready=False)
        other = replace(seen.pods[0], ordinal=3, name="c-3", revision=newest(seen), ready=False)
        assert labels([roll.ailing_pod(replace(seen, pods=(*seen.pods, other)))]) == ["restart c-1"]

        for trouble in ({"trouble": "no node has room"}, {"image_missing": True}):
            failing = replace(other, etcd_started=False, **trouble)
            assert roll.ailing_pod(replace(seen, pods=(*seen.pods, failing))) is None

    def test_not_one_whose_etcd_is_being_started_again(self) -> None:
        """It may come up, and with an emptyDir its data would go."""
        seen = without_status(edited(3).observe(), 1)

        assert roll.ailing_pod(with_pod(seen, 1, **TRIED_AGAIN)) is None

    def test_a_leader_that_is_not_ready_hands_over_before_it_is_restarted(self) -> None:
        world = edited(3)
        lead(world, 1)

        assert isinstance(decide(with_pod(world.observe(), 1, ready=False)), MoveLeader)

    def test_the_only_data_of_a_slow_member_stays(self) -> None:
        world = formed(2, pod={"emptyDir": {}})
        world.edit(pod={"emptyDir": {}} | {"labels": {"a": "b"}})
        world.apply(decide(world.observe()))
        world.turn()

        step = decide(without_status(world.observe(), 1))

        assert isinstance(step, Hold)
        assert step.reason == "RestartNeedsMembers"

    GATE = "containers with unready status: [proxy]"

    def test_an_edit_did_not_reach_pods_that_an_added_container_kept_from_being_ready(self) -> None:
        """The edit has an annotation that keeps the container away, and all etcds serve."""
        seen = edited(3).observe()
        for ordinal in range(3):
            seen = with_pod(seen, ordinal, ready=False, unready=self.GATE)

        assert labels([decide(seen)]) == ["restart c-2"]
        assert decide(with_pod(seen, 2, revision=newest(seen))) == Wait(
            f"pod c-2 to become ready: {self.GATE}"
        )
        assert decide(with_pod(seen, 1, unready="")) == Wait("pod c-1 to become ready")

    def test_a_member_that_the_quorum_needs_was_restarted_as_an_added_container_failed(
        self,
    ) -> None:
        """I1: its etcd was ready, and missed an answer."""
        seen = without_status(edited(3).observe(), 0, 1)
        seen = with_pod(
            seen, 0, ready=False, trouble="no node has room for it", revision=newest(seen)
        )
        failing = {"ready": False, "trouble": "container proxy keeps failing"}
        assert labels([roll.restart_unready(with_pod(seen, 1, **failing))]) == ["restart c-1"]

        assert roll.restart_unready(with_pod(seen, 1, **failing, unready=self.GATE)) is None

    def test_a_pod_that_an_added_container_keeps_from_being_ready_goes_first(self) -> None:
        seen = with_pod(edited(5).observe(), 2, ready=False, unready=self.GATE)

        assert labels([decide(seen)]) == ["restart c-2"]

    def test_never_without_a_quorum_of_the_others(self) -> None:
        """I1"""
        seen = edited(3).observe()
        assert isinstance(roll.next_pod(seen), DeletePod)

        step = roll.next_pod(without_status(seen, 1))

        assert step == Wait("a quorum to serve without c-2", soon=True)

    def test_with_two_of_three_members_left_none_is_restarted(self) -> None:
        """I1"""
        seen = edited(3).observe()
        first, second, _ = seen.etcd.members

        step = roll.next_pod(with_members(seen, first, second))

        assert isinstance(step, Wait)
        assert step.reason.startswith("a quorum to serve without")

    def test_never_two_at_once(self) -> None:
        world = edited(7)
        down: list[int] = []

        def note(_: Step) -> None:
            down.append(7 - len(world.serving()))

        assert drive(world, each=note) == Settled()
        assert max(down) <= 1


class TestSmall:
    @pytest.mark.parametrize("size", [1, 2])
    def test_the_outage_is_reported(self, size: int) -> None:
        world = edited(size)

        step = until(world, f"restart c-{size - 1}" if size == 1 else "restart c-1")

        assert "clients are not served meanwhile" in step.reason
        assert drive(world) == Settled()
        assert len([one for one in world.history if isinstance(one, DeletePod)]) == size

    def test_of_three_no_outage_is_reported(self) -> None:
        world = edited(3)

        assert "not served" not in decide(world.observe()).reason

    def test_of_two_the_leader_hands_over(self) -> None:
        world = edited(2)
        lead(world, 1)

        assert drive(world) == Settled()
        assert labels(world.history) == ["restart c-0", "lead c-0", "restart c-1"]

    @pytest.mark.parametrize("size", [1, 2])
    def test_with_an_empty_dir_it_is_held_because_data_would_be_lost(self, size: int) -> None:
        world = formed(size, pod=EMPTY_DIR)
        world.edit(pod=EMPTY_DIR | {"labels": {"a": "b"}})
        world.history.clear()

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RestartNeedsMembers"
        assert "Set spec.size to 3" in rest.message
        assert labels(world.history) == ["StatefulSet c"]

    def test_the_suggested_way_out_works(self) -> None:
        world = formed(1, pod=EMPTY_DIR)
        world.edit(pod=EMPTY_DIR | {"labels": {"a": "b"}})
        drive(world)
        world.edit(size=3)

        assert drive(world) == Settled()
        assert world.observe().outdated == ()

    @pytest.mark.parametrize("size", [3, 5])
    def test_with_an_empty_dir_each_restart_is_a_replacement(self, size: int) -> None:
        world = formed(size, pod=EMPTY_DIR)
        first = set(world.etcd.members)
        world.edit(pod=EMPTY_DIR | {"labels": {"a": "b"}})

        assert drive(world) == Settled()
        assert not first & set(world.etcd.members)
        assert len(world.etcd.voters) == size


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


def test_a_pod_that_is_no_member_yet_kept_the_node_of_a_member_that_had_restarted() -> None:
    """Of four members on three nodes one waits for a node. It got that of a member that restarted,
    and neither went on: none is added while one is away."""
    world = formed(3)
    world.edit(size=4)
    world.stuck = {3}
    assert isinstance(drive(world, idle=3), Wait)
    world.restart_pod(2)
    world.stuck = {2}
    deleted = []
    for _ in range(80):
        step = decide(with_pod(world.observe(), 2, crowded_out=2 in world.stuck))
        if isinstance(step, DeletePod):
            deleted.append(step.name)
            world.stuck = {3}
        world.apply(step) if is_write(step) else world.turn()

    assert deleted == ["c-3"]
    assert world.serving() == {0, 1, 2}


def test_a_pod_that_is_no_member_yet_does_not_give_way_to_another() -> None:
    world = formed(3)
    world.edit(size=5)
    world.apply(until(world, "StatefulSet c"))
    world.turn()
    seen = with_pod(with_pod(world.observe(), 3, age=99.0), 4, age=99.0)
    crowded = {"in_start": False, "crowded_out": True, "age": 99.0}

    assert labels([roll.give_way(with_pod(seen, 2, **crowded))]) == ["restart c-3"]
    assert roll.give_way(with_pod(seen, 3, **crowded)) is None


class Quota(World):
    """A quota for two pods. The StatefulSet controller creates c-1 and c-2 side by side
    (`slowStartBatch`, 1.36.3), so either comes first: here c-2, as often as `wins`."""

    wins = 2

    def __init__(self, resource: dict) -> None:
        super().__init__(resource)
        self.missing: dict[str, float] = {}

    def _control(self) -> None:
        before = set(self.pods)
        super()._control()
        made = sorted(self.pods.keys() - before)
        if len(self.pods) > 2:
            del self.pods[made[0 if self.wins else -1]]
            self.wins -= len(made) > 1

    def turn(self) -> None:
        super().turn()
        absent = [naming.pod("c", one) for one in range(3) if one not in self.pods]
        self.missing = {name: self.missing.get(name, 0.0) + 1 for name in absent}

    def observe(self) -> Observation:
        return replace(super().observe(), missing=self.missing)


class TestAPodThatIsNoMemberYetUnderAQuota:
    def crowded(self) -> Quota:
        world = Quota(body(2))
        assert drive(world, idle=3) == Settled()
        world.edit(size=3)
        drive(world, idle=3)
        world.history.clear()
        return world

    def test_kept_the_pod_of_a_member_from_being_created_again(self) -> None:
        """The other member alone is no quorum, and nothing said so again."""
        world = self.crowded()
        world.restart_pod(1)
        for _ in range(200):
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()

        assert world.serving() == {0, 1}
        assert labels(world.history) == ["restart c-2"] * 2

    def test_stays_where_something_else_is_in_the_way_of_that_pod(self) -> None:
        world = self.crowded()
        world.restart_pod(1)
        for _ in range(40):
            world.turn()
        seen = world.observe()
        assert labels([roll.give_way(seen)]) == ["restart c-2"]

        other = Foreign("Pod", "c-1", "nobody", orphan=True)
        assert roll.give_way(replace(seen, namesakes=(other,))) is None
        assert roll.give_way(with_claim(seen, 1, record=None)) is None, "of no member"
        assert roll.give_way(replace(seen, missing={"c-1": 30.0})) is None, "it may only be late"
        assert roll.give_way(with_pod(seen, 2, age=30.0)) is None, "it has just given way"


class TestAboveAClaimThatIsKept:
    """A finalizer keeps the claim of a removed member. The StatefulSet controller creates no pod
    above it, so one that is deleted there is gone for as long."""

    def kept(self) -> World:
        world = formed(5)
        world.stuck_claims = {0}
        world.claims[0].deleting = True
        drive(world)
        assert world.serving() == {1, 2, 3, 4}
        world.history.clear()
        return world

    def test_a_member_whose_etcd_fails_was_deleted(self) -> None:
        """It may come up by itself, as its container is restarted."""
        world = self.kept()
        world.pods[4].crashing = True

        rest = drive(world, idle=60)

        assert world.history == []
        assert rest == Wait(f"pod c-0 to be created; it waits for {claim_gone(0).reason}")
        world.stuck_claims = set()
        drive(world, idle=60)
        assert labels(world.history)[0] == "restart c-4"

    def test_so_was_a_slow_one_for_an_edit(self) -> None:
        world = self.kept()
        world.edit(**LABEL)
        drive(world, idle=3)
        world.history.clear()

        seen = with_pod(world.observe(), 4, ready=False)

        assert roll.ailing_pod(seen) is None
        gone = tuple(claim for claim in seen.claims if claim.ordinal)
        refused = replace(seen, claims=gone)
        assert roll.ailing_pod(refused) is None, "as where a policy refuses c-0"
        waits = replace(seen.pods[0], ordinal=0, name="c-0", ready=False)
        made = replace(refused, pods=(waits, *seen.pods))
        assert labels([roll.ailing_pod(made)]) == ["restart c-4"]


class TestCrashing:
    """A restarted container skips `start`, which alone can tell what is on the volume."""

    @pytest.mark.parametrize(("age", "restarted"), [(30.0, False), (30.5, True)])
    def test_is_recreated_once_it_is_old_enough(self, age: float, *, restarted: bool) -> None:
        world = formed(3)
        world.pods[1].crashing = True
        seen = with_pod(world.observe(), 1, age=age)

        assert (labels([decide(seen)]) == ["restart c-1"]) is restarted

    def test_an_emptied_volume_is_found_that_way(self) -> None:
        world = formed(3)
        world.claims[1].data = None
        world.pods[1].crashing = True

        assert drive(world, idle=40) == Settled()
        assert "remove c-1" in labels(world.history)

    def test_not_while_the_member_list_is_unknown(self) -> None:
        world = formed(3)
        for pod in world.pods.values():
            pod.crashing, pod.age = True, 99.0
        world.history.clear()

        drive(world)

        assert world.history == []

    def test_not_a_pod_with_the_only_copy_in_an_empty_dir(self) -> None:
        world = formed(3, pod=EMPTY_DIR)
        world.pods[1].crashing, world.pods[1].age = True, 99.0
        world.history.clear()

        drive(world)

        assert world.history == []

    def test_not_a_pod_whose_data_etcd_refuses(self) -> None:
        """`start` would find nothing new."""
        seen = with_pod(formed(3).observe(), 1, crashing=True, age=99.0)
        assert labels([roll.recreate_crashing(seen)]) == ["restart c-1"]

        assert roll.recreate_crashing(with_pod(seen, 1, damage="it lacks entries")) is None

    def test_not_a_pod_whose_container_is_being_started_again(self) -> None:
        seen = without_status(formed(3).observe(), 1)
        assert labels([roll.recreate_crashing(with_pod(seen, 1, age=99.0, **DOWN))]) == [
            "restart c-1"
        ]

        step = decide(with_pod(seen, 1, age=99.0, **TRIED_AGAIN))
        assert step == Wait("pod c-1: container etcd keeps failing")

    def test_not_on_a_claim_that_is_being_deleted(self) -> None:
        world = formed(3)
        seen = without_status(with_pod(world.observe(), 1, crashing=True, age=99.0), 1)

        assert roll.recreate_crashing(with_claim(seen, 1, deleting=True)) is None

    def test_one_above_a_pod_that_a_policy_refuses_was_deleted_and_did_not_come_back(self) -> None:
        """The StatefulSet controller creates none above one that it cannot create."""
        seen = without_status(with_pod(formed(5).observe(), 4, crashing=True, age=99.0), 0, 4)
        seen = replace(seen, pods=tuple(pod for pod in seen.pods if pod.ordinal != 0))
        assert roll.recreate_crashing(seen) is None

        lowest = without_status(with_pod(formed(5).observe(), 0, crashing=True, age=99.0), 0, 4)
        lowest = replace(lowest, pods=tuple(pod for pod in lowest.pods if pod.ordinal != 4))
        assert labels([roll.recreate_crashing(lowest)]) == ["restart c-0"]


class TestOutdated:
    def test_not_before_the_controller_has_seen_the_edit(self) -> None:
        world = formed(3)
        world.edit(**LABEL)
        world.apply(until(world, "StatefulSet c"))

        assert not world.observe().outdated
        assert not roll.is_complete(world.observe())
        world._control()
        assert world.observe().outdated
        assert not roll.is_complete(world.observe())

    def test_not_a_pod_of_the_present_spec(self) -> None:
        """The edit was taken back, so there is no reason left to restart."""
        world = formed(3)
        world.edit(**LABEL)
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        world.edit(pod={})

        assert drive(world) == Settled()
        assert not [one for one in world.history if isinstance(one, DeletePod)]

    def test_an_edit_never_reached_a_pod_that_had_lost_the_label_with_its_revision(self) -> None:
        """Somebody has removed it, or a tool that removes labels that it does not know."""
        world = edited(3)
        world.pods[1].revision = ""

        assert drive(world) == Settled()
        assert "restart c-1" in labels(world.history)

    def test_pods_without_the_annotation_are(self) -> None:
        """They are from before pods carried it, and are restarted once, at the next edit."""
        world = edited()
        seen = world.observe()
        bare = replace(seen, pods=tuple(replace(pod, spec_hash="") for pod in seen.pods))

        assert not roll.is_complete(bare)
