"""Scale-down: the highest ordinal first, one at a time, and nothing is lost or left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import seat, with_pod, with_status, without_status
from worlds import OLD, World, drive, formed, is_write, labels, until

from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.members import replicas, shrink
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    Hold,
    MemberRemove,
    MoveLeader,
    Settled,
    Step,
    Wait,
)
from etcd_stateful.observed.members import Alarm

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def shrunk(before: int, after: int, **spec: object) -> World:
    world = formed(before, **spec)
    world.history.clear()
    world.edit(size=after)
    return world


def test_the_whole_chain() -> None:
    """F5: the claim is deleted too, so that a later member finds no old data."""
    world = shrunk(5, 3)
    lead(world, 0)

    assert drive(world) == Settled()

    assert labels(world.history) == [
        "remove c-4",
        "size 4",
        "StatefulSet c",
        "remove c-3",
        "size 3",
        "StatefulSet c",
        "PodDisruptionBudget c",
        "delete data-c-3",
        "delete data-c-4",
    ]
    assert sorted(world.claims) == [0, 1, 2]
    assert sorted(world.pods) == [0, 1, 2]


def test_the_volume_that_a_removal_waits_for_was_not_named() -> None:
    """Two of three serve, so the third has to come back first, and only the user can see to it."""
    world = formed(3)
    world.claims[0].data = replace(world.claims[0].data, cluster_uid=OLD)
    world.restart_pod(0)
    drive(world)
    world.edit(size=1)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "ForeignData"
    assert "the volume of pod c-0 holds data of c-0 of the cluster with UID" in rest.message


def lead(world: World, ordinal: int) -> None:
    world.etcd.move_leader(world.data(ordinal).member_id)


@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
@pytest.mark.parametrize(
    ("before", "after"), [(one, other) for one in range(2, 8) for other in range(1, one)]
)
def test_from_any_size_to_any_below_in_the_order_of_numbers(
    before: int, after: int, storage: dict
) -> None:
    """F10: by number, highest first, whichever member leads."""
    world = shrunk(before, after, **storage)
    lead(world, before - 1)

    assert drive(world) == Settled()

    gone = [one for one in labels(world.history) if one.startswith("remove")]
    assert gone == [f"remove c-{one}" for one in reversed(range(after, before))]
    assert len(world.etcd.members) == after
    assert len(world.pods) == after


def test_the_leader_hands_over_before_it_goes() -> None:
    world = shrunk(3, 2)
    lead(world, 2)

    assert drive(world) == Settled()
    assert labels(world.history)[:2] == ["lead c-0", "remove c-2"]


def test_a_leader_that_stays_does_not_hand_over() -> None:
    world = shrunk(7, 3)
    lead(world, 1)

    assert drive(world) == Settled()
    assert not [one for one in world.history if isinstance(one, MoveLeader)]


def test_the_new_leader_is_one_that_stays() -> None:
    """Under load, the member with the highest index may happen to be the next to be removed."""
    world = shrunk(5, 2)
    lead(world, 4)
    seen = world.observe()
    ahead = with_status(with_status(seen, 3, applied_index=999), 1, applied_index=500)

    step = decide(ahead)

    assert isinstance(step, MoveLeader)
    assert step.member_id == seat(seen, 1).member.member_id


def test_a_member_that_is_stopping_does_not_become_leader() -> None:
    world = shrunk(5, 3)
    lead(world, 4)

    step = decide(with_pod(world.observe(), 0, deleting=True))

    assert isinstance(step, MoveLeader)
    assert step.reason.startswith("c-1 is to lead")


def test_a_leader_of_the_past_handed_over_for_ever() -> None:
    """Its disk hangs, so it has not heard of its successor, and goes on naming itself (seen on
    3.5.35 and 3.7.3)."""
    world = shrunk(3, 2)
    lead(world, 0)
    seen = with_pod(world.observe(), 2, ready=False)
    term, itself = seen.statuses[2].term - 1, seen.statuses[2].member_id

    step = decide(with_status(seen, 2, term=term, leader_id=itself))

    assert labels([step]) == ["remove c-2"]


def test_a_member_with_a_disk_that_hangs_does_not_become_leader() -> None:
    world = shrunk(5, 3)
    lead(world, 4)

    step = decide(with_pod(world.observe(), 0, ready=False))

    assert labels([step]) == ["lead c-1"]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_growing_again_half_way(size: int) -> None:
    """F11: the step that has begun is finished first, then the new size counts."""
    world = shrunk(5, 1)
    until(world, "remove c-2")
    world.edit(size=size)

    assert drive(world) == Settled()
    assert len(world.etcd.voters) == size
    assert len(world.pods) == size


def test_not_settled_before_the_last_pod_has_stopped_and_its_claim_is_gone() -> None:
    """An etcd that has not joined yet ignores SIGTERM, and stops only after 30 seconds."""
    world = shrunk(3, 2)
    lead(world, 0)
    while is_write(step := decide(world.observe())):
        world.apply(step)

    assert step == Wait("pods c-2, no longer needed, to stop")
    assert 2 in world.claims
    assert drive(world) == Settled()
    assert 2 not in world.claims


def test_grown_again_before_the_claim_is_gone_finds_no_old_data() -> None:
    """F5"""
    world = shrunk(3, 2)
    until(world, "delete data-c-2")
    old = world.claims[2].uid
    world.edit(size=3)

    assert drive(world) == Settled()
    assert world.claims[2].uid != old


def test_no_member_is_removed_while_the_start_of_a_vacant_ordinal_is_silent() -> None:
    """After a restore in place the data is at the highest ordinal, and the ordinals below grow
    first."""
    world = formed(3)
    for ordinal in (0, 1):
        world.etcd.remove(world.data(ordinal).member_id)
        world.empty(ordinal)
    world.edit(size=2)
    until(world, "add c-0")
    seen = world.observe()
    silent = replace(seen, pods=tuple(replace(pod, answer=None) for pod in seen.pods))

    assert isinstance(decide(silent), Wait)


def test_restored_data_had_one_copy_while_the_other_pods_were_being_created() -> None:
    """The pods of all but one still waited for their volumes, and the first member of the restored
    cluster was removed already, and its claim deleted."""
    world = formed(4)
    world.edit(size=3)
    for ordinal in (0, 1, 2):
        world.etcd.remove(world.data(ordinal).member_id)
        world.empty(ordinal)
    world.stuck |= {1, 2}

    assert drive(world) == Wait("pod c-1 to become ready")
    assert world.serving() == {0, 3}
    world.stuck.clear()
    world.history.clear()
    assert drive(world) == Settled()
    first = labels(world.history).index("remove c-3")
    assert {"promote c-1", "promote c-2"} <= set(labels(world.history)[:first])


def test_fewer_members_than_declared_were_left_while_a_lost_one_was_being_replaced() -> None:
    world = shrunk(5, 3)
    world.stuck.add(1)
    world.empty(1)

    assert drive(world) == Wait("pod c-1 to become ready")
    assert world.serving() == {0, 2, 3}
    world.stuck.clear()
    assert drive(world) == Settled()
    assert world.serving() == {0, 1, 2}


def test_a_member_makes_room_for_a_pod_that_no_node_has_room_for() -> None:
    world = shrunk(5, 3)
    world.stuck.add(1)
    world.empty(1)
    drive(world)
    world.pods[1].trouble = "no node has room for it"

    drive(world)

    assert world.serving() == {0, 2}


def test_grown_again_while_the_pod_is_stopping() -> None:
    """The pod comes back on its old claim and runs on data of a member that is no longer listed."""
    world = shrunk(3, 2)
    until(world, "StatefulSet c")
    world.apply(decide(world.observe()))
    world.pods[2].deleting = True
    world.edit(size=3)

    assert drive(world) == Settled()
    assert len(world.etcd.voters) == 3


class TestOnlyWithAQuorum:
    """I1"""

    def test_three_to_one_with_a_silent_member_continues_once_it_is_back(self) -> None:
        world = shrunk(3, 1)
        world.pods[0].silent = True

        assert drive(world) == Wait("c-0 to serve, so that c-2 can be removed", soon=True)
        assert world.history == []
        world.pods[0].silent = False
        assert drive(world) == Settled()

    def test_a_healthy_member_was_removed_beside_one_with_a_disk_that_hangs(self) -> None:
        """Its etcd answers from memory and names a leader (seen on 3.5.35 and 3.7.3), and etcd lets
        the other go. Then the rest of two has no quorum. Its probe reads with a quorum."""
        world = shrunk(3, 2)
        lead(world, 0)
        hangs = with_pod(world.observe(), 1, ready=False)

        assert decide(hangs) == Wait("c-1 to serve, so that c-2 can be removed", soon=True)
        assert labels([decide(with_pod(hangs, 1, unready="another container"))]) == ["remove c-2"]

    def test_under_corrupt_no_pod_is_ready_which_says_nothing_of_its_disk(self) -> None:
        world = shrunk(3, 2)
        lead(world, 0)
        world.etcd.alarms = [Alarm("CORRUPT", 1)]

        assert labels([shrink.remove_highest(world.observe())]) == ["remove c-2"]

    def test_three_to_one_with_a_lost_member_continues_once_it_is_replaced(self) -> None:
        world = shrunk(3, 1)
        world.claims[0].data = None
        world.pods[0].deleting = True
        world.turn()

        assert drive(world) == Settled()
        steps = [one for one in labels(world.history) if not one.startswith("lead")]
        assert steps[0] == "remove c-0"
        assert len(world.etcd.voters) == 1

    def test_a_silent_member_that_is_surplus_is_removed(self) -> None:
        """F24"""
        world = shrunk(3, 1)
        world.pods[2].silent = True

        assert drive(world) == Settled()

    def test_a_pod_that_is_being_deleted_does_not_count(self) -> None:
        world = shrunk(3, 2)
        seen = world.observe()
        follower = next(one for one in (0, 1) if not seat(seen, one).leads)

        step = decide(with_pod(seen, follower, deleting=True))

        assert isinstance(step, Wait)
        assert step.reason.startswith(f"c-{follower} ")

    def test_an_absent_leader_is_waited_for(self) -> None:
        world = shrunk(5, 3)
        seen = world.observe()
        leader = next(one for one in range(5) if seat(seen, one).leads)

        assert decide(without_status(seen, leader)) == Wait(
            f"the leader, c-{leader}, to answer", soon=True
        )

    def test_the_newer_of_two_claimed_leaders_is_asked(self) -> None:
        world = shrunk(5, 3)
        seen = world.observe()
        follower = next(one for one in range(4) if not seat(seen, one).leads)
        own = seen.statuses[follower].member_id
        two = with_status(seen, follower, leader_id=own, term=99)

        step = decide(two)

        assert isinstance(step, MemberRemove | MoveLeader)
        assert step.leader.member_id == own
        assert step.leader.address == f"10.0.0.{follower}"


@pytest.mark.parametrize(("before", "after"), [(5, 3), (3, 5)])
def test_only_lowered_replicas_are_decided_twice(before: int, after: int) -> None:
    """I5: with an old view they would be lowered below a member that was added since."""
    step = until(shrunk(before, after), "StatefulSet c")

    assert is_final(step) is (after < before)


def test_replicas_are_lowered_only_after_the_list(  # I5
) -> None:
    world = shrunk(5, 1)
    gaps: list[int] = []

    def note(_: Step) -> None:
        replicas = world.objects["StatefulSet", "c"]["spec"]["replicas"]
        gaps.append(replicas - len(world.etcd.members))

    assert drive(world, each=note) == Settled()
    assert set(gaps) == {0, 1}


def test_a_moment_without_a_member_list_brings_no_removed_member_back() -> None:
    """In the middle of a shrink the StatefulSet was scaled up again to what claims and record
    said."""
    world = shrunk(5, 1)
    raised: list[Step] = []

    def silence(_: Step) -> None:
        step = decide(replace(world.observe(), etcd=None, statuses={}))
        if isinstance(step, ApplyChild) and step.kind in ("StatefulSet", "PodDisruptionBudget"):
            raised.append(step)

    assert drive(world, each=silence) == Settled()
    assert raised == []


@pytest.mark.parametrize(("by_hand", "then"), [(1, 4), (6, 6)])
def test_a_manual_scale_in_the_middle_is_only_raised_without_a_member_list(
    by_hand: int, then: int
) -> None:
    """I5: nothing says which members were added since the last list."""
    world = shrunk(5, 3)
    until(world, "StatefulSet c")
    world.apply(decide(world.observe()))
    world.alter("StatefulSet", "c")["spec"]["replicas"] = by_hand
    world.cut_off = True

    drive(world)

    assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == then


def test_the_size_is_not_recorded_while_it_is_the_initial_one() -> None:
    """That would be one more write for every cluster."""
    world = formed(3)

    assert replicas.record(world.observe()) is None


def test_an_unreachable_etcd_does_not_bring_removed_ordinals_back() -> None:
    """The record says that the cluster began with five, but it has fewer members now."""
    world = shrunk(5, 3)
    assert drive(world) == Settled()
    world.history.clear()
    world.cut_off = True

    drive(world)

    assert world.history == []


def test_a_stateful_set_lost_after_a_shrink_comes_back_with_the_present_size() -> None:
    world = shrunk(5, 3)
    assert drive(world) == Settled()
    world.cut_off = True
    world.delete_stateful_set()

    drive(world)

    assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3


def test_a_quorum_after_a_shrink_is_counted_by_the_present_members() -> None:
    world = shrunk(5, 3)
    assert drive(world) == Settled()
    for ordinal in (1, 2):
        world.claims[ordinal].data = None
        world.restart_pod(ordinal)
    world.turn()

    rest = drive(world)

    assert rest.reason == "QuorumLost"
    assert "the data of c-1, c-2 is lost" in rest.message


def test_a_size_is_recorded_only_from_the_member_list() -> None:
    """I5: somebody has scaled the StatefulSet, and nothing says who the members are."""
    world = formed(3)
    world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5

    assert replicas.record(replace(world.observe(), etcd=None)) is None


def test_kubectl_scale_of_the_stateful_set_does_not_shrink_the_cluster() -> None:
    world = formed(3)
    world.alter("StatefulSet", "c")["spec"]["replicas"] = 1
    world.history.clear()

    assert drive(world) == Settled()
    assert labels(world.history) == ["StatefulSet c"]
    assert len(world.etcd.members) == 3


def test_nothing_is_removed_while_paused() -> None:
    world = shrunk(5, 3)
    until(world, "remove c-3")
    world.edit(paused=True)
    done = len(world.history)

    assert drive(world).reason == "Paused"
    assert len(world.history) == done
    world.edit(paused=False)
    assert drive(world) == Settled()


def test_a_voter_without_a_pod_can_be_removed() -> None:
    world = shrunk(3, 2)
    seen = without_status(world.observe(), 2)

    step = decide(replace(seen, pods=seen.pods[:2]))

    assert isinstance(step, MemberRemove)


@pytest.mark.parametrize("latched", [True, False])
def test_recreating_a_stateful_set_is_decided_twice(latched: bool) -> None:
    """With an old view of the claims it could get fewer replicas than there are members (I5), and
    before the cluster has formed, with an old view of the record, another version (I9)."""
    seen = replace(formed(3).observe(), stateful_set=None, pods=(), etcd=None, statuses={})
    seen = replace(seen, client_service=None, disruption_budget=None)
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    record = replace(seen.secret.bootstrap, latched=latched)

    step = decide(replace(seen, secret=replace(seen.secret, bootstrap=record)))

    assert isinstance(step, ApplyChild)
    assert step.kind == "StatefulSet"
    assert is_final(step)


def test_removed_members_kept_the_quota_that_another_pod_needed() -> None:
    """The StatefulSet controller deletes no pod before all that it has to create exist. So a
    smaller spec.size, the way out of a quota, led nowhere."""
    world = formed(5)
    del world.pods[1]
    world.edit(size=3)

    def observed(seconds: float) -> Observation:
        return replace(world.observe(), missing={"c-1": seconds})

    while is_write(step := decide(observed(1.0))):
        world.apply(step)
    assert sorted(world.pods) == [0, 2, 3, 4]
    assert not any(pod.deleting for pod in world.pods.values()), "its controller may do it"

    while is_write(step := decide(observed(60.0))):
        world.apply(step)

    assert [one for one, pod in world.pods.items() if pod.deleting] == [3, 4]
    assert isinstance(step, Wait)
    assert step.reason.startswith("pod c-1 to be created")
