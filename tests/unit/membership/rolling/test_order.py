"""Rolling restarts: causes and order. Unready pods come first, one at a time, the leader last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import (
    DOWN,
    TRIED_AGAIN,
    newest,
    seat,
    with_members,
    with_pod,
    with_status,
    without_status,
)
from worlds import World, body, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import roll
from etcd_stateful.membership.steps import DeletePod, Hold, MoveLeader, Settled, Step, Wait
from unit.membership.rolling.edits import EMPTY_DIR, edited


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
