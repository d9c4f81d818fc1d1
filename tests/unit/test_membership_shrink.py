"""Scale-down: the highest ordinal first, one at a time, and nothing is lost or left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import seat, with_pod, with_status, without_status
from worlds import World, drive, formed, is_write, labels, until

from etcd_stateful.membership import replicas
from etcd_stateful.membership.irreversible import is_final
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ApplyChild, MemberRemove, MoveLeader, Settled, Step, Wait

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def shrunk(before: int, after: int, **spec: object) -> World:
    world = formed(before, **spec)
    world.history.clear()
    world.edit(size=after)
    return world


def test_the_whole_chain() -> None:
    """F5: the claim goes too, so that a member to come finds no old data."""
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


def lead(world: World, ordinal: int) -> None:
    world.etcd.move_leader(world.data(ordinal).member_id)


@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
@pytest.mark.parametrize(
    ("before", "after"), [(one, other) for one in range(2, 8) for other in range(1, one)]
)
def test_from_any_size_to_any_below_in_the_order_of_numbers(
    before: int, after: int, storage: dict
) -> None:
    """F10: numeric, highest first, whoever leads."""
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


def test_a_leader_that_stays_is_left_alone() -> None:
    world = shrunk(7, 3)
    lead(world, 1)

    assert drive(world) == Settled()
    assert not [one for one in world.history if isinstance(one, MoveLeader)]


def test_the_heir_is_one_that_stays() -> None:
    """Under load, the one that is furthest on by chance may be the next to go."""
    world = shrunk(5, 2)
    lead(world, 4)
    seen = world.observe()
    ahead = with_status(with_status(seen, 3, applied_index=999), 1, applied_index=500)

    step = decide(ahead)

    assert isinstance(step, MoveLeader)
    assert step.member_id == seat(seen, 1).member.member_id


def test_an_heir_that_is_stopping_is_none() -> None:
    world = shrunk(5, 3)
    lead(world, 4)

    step = decide(with_pod(world.observe(), 0, deleting=True))

    assert isinstance(step, MoveLeader)
    assert step.reason.startswith("c-1 is to lead")


@pytest.mark.parametrize("size", [2, 3, 5])
def test_back_up_half_way(size: int) -> None:
    """F11: the step that was begun is finished, then the new size counts."""
    world = shrunk(5, 1)
    until(world, "remove c-2")
    world.edit(size=size)

    assert drive(world) == Settled()
    assert len(world.etcd.voters) == size
    assert len(world.pods) == size


def test_not_as_declared_before_the_last_pod_has_stopped_and_its_claim_is_gone() -> None:
    """An etcd that had not joined yet takes no notice of SIGTERM, and stops after 30 seconds."""
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


def test_not_in_place_of_a_vacant_ordinal_whose_start_is_silent_for_a_moment() -> None:
    """After a restore in place the data is at the highest ordinal; what is below grows first."""
    world = formed(3)
    for ordinal in (0, 1):
        world.etcd.remove(world.data(ordinal).member_id)
        world.empty(ordinal)
    world.edit(size=2)
    until(world, "add c-0")
    seen = world.observe()
    silent = replace(seen, pods=tuple(replace(pod, answer=None) for pod in seen.pods))

    assert isinstance(decide(silent), Wait)


def test_grown_again_while_the_pod_is_stopping() -> None:
    """Its pod comes back on the old claim and runs its old data, which no list knows any more."""
    world = shrunk(3, 2)
    until(world, "StatefulSet c")
    world.apply(decide(world.observe()))
    world.pods[2].deleting = True
    world.edit(size=3)

    assert drive(world) == Settled()
    assert len(world.etcd.voters) == 3


class TestOnlyWithAQuorum:
    """I1"""

    def test_three_to_one_with_a_dead_member_goes_on_once_it_is_back(self) -> None:
        world = shrunk(3, 1)
        world.pods[0].silent = True

        assert drive(world) == Wait("c-0 to serve, so that c-2 can be removed", soon=True)
        assert world.history == []
        world.pods[0].silent = False
        assert drive(world) == Settled()

    def test_three_to_one_with_a_lost_member_goes_on_once_it_is_replaced(self) -> None:
        world = shrunk(3, 1)
        world.claims[0].data = None
        world.pods[0].deleting = True
        world.turn()

        assert drive(world) == Settled()
        steps = [one for one in labels(world.history) if not one.startswith("lead")]
        assert steps[0] == "remove c-0"
        assert len(world.etcd.voters) == 1

    def test_a_dead_one_that_is_to_go_anyway_goes(self) -> None:
        """F24"""
        world = shrunk(3, 1)
        world.pods[2].silent = True

        assert drive(world) == Settled()

    def test_a_pod_on_its_way_out_is_not_counted_on(self) -> None:
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

        assert decide(without_status(seen, leader)) == Wait("the leader to answer", soon=True)

    def test_the_newest_of_two_who_say_that_they_lead_is_asked(self) -> None:
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
    """I5: by an old view they would be lowered below a member that was added since."""
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


def test_a_list_that_is_silent_for_a_moment_brings_no_removed_member_back() -> None:
    """The StatefulSet was scaled up again in the middle of a shrink, as claims and record told."""
    world = shrunk(5, 1)
    raised: list[Step] = []

    def silence(_: Step) -> None:
        step = decide(replace(world.observe(), etcd=None, statuses={}))
        if isinstance(step, ApplyChild) and step.kind in ("StatefulSet", "PodDisruptionBudget"):
            raised.append(step)

    assert drive(world, each=silence) == Settled()
    assert raised == []


@pytest.mark.parametrize(("by_hand", "then"), [(1, 4), (6, 6)])
def test_scaled_by_hand_in_the_middle_it_is_only_put_up_without_a_list(
    by_hand: int, then: int
) -> None:
    """I5: who is there beyond what the list said last, nobody can tell."""
    world = shrunk(5, 3)
    until(world, "StatefulSet c")
    world.apply(decide(world.observe()))
    world.alter("StatefulSet", "c")["spec"]["replicas"] = by_hand
    world.cut_off = True

    drive(world)

    assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == then


def test_a_cluster_of_the_size_it_began_with_puts_none_on_record() -> None:
    """It would be a write more in the life of each."""
    world = formed(3)

    assert replicas.keep(world.observe()) is None


def test_an_unreachable_etcd_does_not_bring_shrunk_ordinals_back() -> None:
    """The cluster began with five; what it began with is not what it has."""
    world = shrunk(5, 3)
    assert drive(world) == Settled()
    world.history.clear()
    world.cut_off = True

    drive(world)

    assert world.history == []


def test_a_stateful_set_lost_after_a_shrink_comes_back_with_what_there_is() -> None:
    world = shrunk(5, 3)
    assert drive(world) == Settled()
    world.cut_off = True
    world.delete_stateful_set()

    drive(world)

    assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3


def test_a_quorum_lost_after_a_shrink_is_counted_by_what_there_is() -> None:
    world = shrunk(5, 3)
    assert drive(world) == Settled()
    for ordinal in (1, 2):
        world.claims[ordinal].data = None
        world.restart_pod(ordinal)
    world.turn()

    rest = drive(world)

    assert rest.reason == "QuorumLost"
    assert "the data of c-1, c-2 is lost" in rest.message


def test_a_size_goes_on_record_only_by_the_list() -> None:
    """I5: somebody has scaled the StatefulSet, and nobody knows the members."""
    world = formed(3)
    world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5

    assert replicas.keep(replace(world.observe(), etcd=None)) is None


def test_kubectl_scale_of_the_stateful_set_is_no_shrink() -> None:
    world = formed(3)
    world.alter("StatefulSet", "c")["spec"]["replicas"] = 1
    world.history.clear()

    assert drive(world) == Settled()
    assert labels(world.history) == ["StatefulSet c"]
    assert len(world.etcd.members) == 3


def test_nothing_goes_while_paused() -> None:
    world = shrunk(5, 3)
    until(world, "remove c-3")
    world.edit(paused=True)
    done = len(world.history)

    assert drive(world).reason == "Paused"
    assert len(world.history) == done
    world.edit(paused=False)
    assert drive(world) == Settled()


def test_a_voter_without_a_pod_can_go() -> None:
    world = shrunk(3, 2)
    seen = without_status(world.observe(), 2)

    step = decide(replace(seen, pods=seen.pods[:2]))

    assert isinstance(step, MemberRemove)


@pytest.mark.parametrize("latched", [True, False])
def test_a_stateful_set_is_made_again_only_on_a_second_look(latched: bool) -> None:
    """By an old view of the claims it would have fewer replicas than there are members (I5), and
    before it has formed by one of the record another version (I9)."""
    seen = replace(formed(3).observe(), stateful_set=None, pods=(), etcd=None, statuses={})
    assert seen.secret is not None
    assert seen.secret.bootstrap is not None
    record = replace(seen.secret.bootstrap, latched=latched)

    step = decide(replace(seen, secret=replace(seen.secret, bootstrap=record)))

    assert isinstance(step, ApplyChild)
    assert step.kind == "StatefulSet"
    assert is_final(step)
