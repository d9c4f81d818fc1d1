"""Replacement at any ordinal, whatever was lost: member removed, volume recreated, member added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from views import seat, with_claim, with_members, with_pod, without_status
from world_api import Volume
from worlds import OLD, World, body, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.beginning import leftovers
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.members import replace as replacing
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    DeleteClaim,
    DeletePod,
    Hold,
    MemberRemove,
    MoveLeader,
    Settled,
    Step,
    Wait,
)
from etcd_stateful.observed.members import Alarm

EMPTY_DIR = {"pod": {"emptyDir": {}}}

BUDGET = "PodDisruptionBudget c"
REJOINS = ["add c-{0}", "ledger", "record", "push c-{0} existing", "promote c-{0}"]


def emptied(world: World, ordinal: int) -> None:
    """Empties the mounted volume. `start` looks at it when the pod has been recreated."""
    world.claims[ordinal].data = None
    world.restart_pod(ordinal)


def deleted(world: World, ordinal: int) -> None:
    world.claims[ordinal].deleting = True


def damaged_log(world: World, ordinal: int) -> None:
    world.claims[ordinal].damaged = "no record"
    world.restart_pod(ordinal)


def refused_by_etcd(world: World, ordinal: int) -> None:
    world.pods[ordinal].damage = "crc mismatch"


def phase_lost(world: World, ordinal: int) -> None:
    world.claims[ordinal].phase = "Lost"


def node_gone(world: World, ordinal: int) -> None:
    pod = world.pods[ordinal]
    pod.where, pod.node_gone = "pending", True
    world.stuck = set()


def removed_by_hand(world: World, ordinal: int) -> None:
    world.etcd.remove(world.data(ordinal).member_id)


WAYS = {
    emptied: ["remove c-{0}"],
    deleted: ["remove c-{0}", "restart c-{0}"],
    damaged_log: ["remove c-{0}", "delete data-c-{0}", "restart c-{0}"],
    refused_by_etcd: ["remove c-{0}", "delete data-c-{0}", "restart c-{0}"],
    phase_lost: ["remove c-{0}", "delete data-c-{0}", "restart c-{0}"],
    node_gone: ["remove c-{0}", "delete data-c-{0}", "restart c-{0}"],
    removed_by_hand: ["delete data-c-{0}", "restart c-{0}"],
}
"""Ways to lose a member, each with the steps before the member joins again."""


def chain(history: list[Step], ordinal: int) -> list[str]:
    """The steps at one ordinal, without leader changes and numbers."""
    found = [one for one in labels(history) if not one.startswith("lead")]
    return [one.split()[0] if one[:6] in {"ledger", "record"} else one for one in found]


@pytest.mark.parametrize("ordinal", [0, 1, 2])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_any_ordinal_of_three_whatever_was_lost(way: object, ordinal: int) -> None:
    world = formed(3)
    lost = world.data(ordinal).member_id
    world.history.clear()
    way(world, ordinal)

    assert drive(world) == Settled()

    assert world.data(ordinal).member_id != lost
    assert lost not in world.etcd.members
    expected = [one.format(ordinal) for one in WAYS[way] + REJOINS]
    assert chain(world.history, ordinal) == expected


@pytest.mark.parametrize(
    ("size", "ordinal"),
    [*((5, ordinal) for ordinal in range(5)), (4, 0), (4, 3), (6, 0), (6, 5), (7, 0), (7, 6)],
)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_any_ordinal_of_more(way: object, size: int, ordinal: int) -> None:
    world = formed(size)
    lost = world.data(ordinal).member_id
    world.history.clear()
    way(world, ordinal)

    assert drive(world) == Settled()

    assert lost not in world.etcd.members
    assert len(world.etcd.voters) == size
    steps = chain(world.history, ordinal)
    assert [one for one in steps if one != BUDGET] == [
        one.format(ordinal) for one in WAYS[way] + REJOINS
    ]
    # A quorum of one member less is smaller only for an even number of members.
    assert steps.count(BUDGET) == (0 if size % 2 else 2)


@pytest.mark.parametrize("ordinal", range(5))
def test_any_ordinal_of_five_with_an_empty_dir(ordinal: int) -> None:
    world = formed(5, **EMPTY_DIR)
    lost = world.data(ordinal).member_id
    world.empty(ordinal)

    assert drive(world) == Settled()
    assert world.data(ordinal).member_id != lost


@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
def test_two_of_five_at_once(storage: dict) -> None:
    """F24: repair needs a quorum, not every member."""
    world = formed(5, **storage)
    for ordinal in (0, 3):
        world.empty(ordinal)

    assert drive(world) == Settled()
    assert len(world.etcd.voters) == 5


@pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
def test_the_leader_that_still_serves_hands_over_first(storage: dict) -> None:
    world = formed(3)
    leader = world.seat(world.etcd.leader)
    world.history.clear()
    world.claims[leader].deleting = True

    assert drive(world) == Settled()
    assert labels(world.history)[0].startswith("lead ")
    assert labels(world.history)[1] == f"remove c-{leader}"


def test_a_lost_member_never_becomes_leader() -> None:
    world = formed(3)
    world.etcd.move_leader(world.data(2).member_id)
    for ordinal in (0, 2):
        world.claims[ordinal].deleting = True
    seen = world.observe()

    step = changes.remove(seen, seat(seen, 2), "its claim goes")

    assert isinstance(step, MoveLeader)
    assert step.member_id == world.data(1).member_id


def test_members_that_still_serve_are_replaced_one_by_one() -> None:
    """All claims were deleted under pods that still serve. There is no hurry, so each waits for the
    one before."""
    world = formed(5)
    for claim in world.claims.values():
        claim.deleting = True
    fewest: list[int] = []

    def note(_: Step) -> None:
        fewest.append(len(world.etcd.voters))

    assert drive(world, each=note) == Settled()
    assert min(fewest) == 4
    assert not any(claim.deleting for claim in world.claims.values())


def test_two_lost_members_beside_a_new_version_did_not_wait_for_each_other() -> None:
    """The first waited for a restart to prove its image, the restart waited for the second, and the
    second for the first."""
    world = formed(5, version="3.7.2")
    for ordinal in (0, 1):
        world.claims[ordinal].deleting = True
    world.edit(version="3.7.3")

    assert drive(world) == Settled()
    assert not any(claim.deleting for claim in world.claims.values())


def test_a_member_that_does_not_serve_is_replaced_before_one_that_does() -> None:
    world = formed(5)
    for ordinal in (0, 4):
        world.claims[ordinal].deleting = True
    world.pods[4].silent = True

    assert labels([decide(world.observe())]) == ["remove c-4"]


class TestOnlyWithAQuorumOfTheRest:
    """I1"""

    def test_of_two_one_that_does_not_serve_is_a_lost_quorum(self) -> None:
        world = formed(2)
        world.empty(1)
        world.turn()
        members = dict(world.etcd.members)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert world.etcd.members == members

    def test_of_two_one_that_still_serves_is_replaced(self) -> None:
        world = formed(2)
        world.claims[1].deleting = True

        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 2

    def test_of_three_not_while_another_is_down(self) -> None:
        world = formed(3)
        world.claims[2].deleting = True
        seen = world.observe()
        follower = next(one for one in (0, 1) if not seat(seen, one).leads)

        step = decide(without_status(seen, follower))

        assert step == Wait(
            f"c-{follower} to serve, so that c-2 can be replaced: claim data-c-2 is being deleted",
            soon=True,
        )

    def test_of_three_a_serving_one_was_removed_beside_one_with_a_disk_that_hangs(self) -> None:
        """That one answers from memory, but is of no use to the quorum of the two that are left."""
        world = formed(3)
        world.claims[2].deleting = True
        seen = world.observe()
        follower = next(one for one in (0, 1) if not seat(seen, one).leads)

        step = decide(with_pod(seen, follower, ready=False))

        assert step == Wait(
            f"c-{follower} to serve, so that c-2 can be replaced: claim data-c-2 is being deleted",
            soon=True,
        )

    def test_a_lost_one_was_kept_for_its_use_although_its_disk_hangs(self) -> None:
        """The one before it has yet to be replaced, which may wait for a node."""
        world = formed(5)
        world.claims[0].deleting = True
        seen = world.observe()
        seen = with_members(seen, *(one for one in seen.members if one != seat(seen, 4).member))
        assert not isinstance(replacing.remove_lost_voter(seen), MemberRemove)

        step = replacing.remove_lost_voter(with_pod(seen, 0, ready=False))

        assert isinstance(step, MemberRemove | MoveLeader)
        assert "c-0" in step.reason

    def test_the_only_member_is_held_and_the_ways_out_are_named(self) -> None:
        world = formed(1)
        world.claims[0].deleting = True

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "LastMember"
        assert "claim data-c-0 is being deleted" in rest.message
        assert "set spec.size to 3" in rest.message

    def test_the_suggested_way_out_works(self) -> None:
        world = formed(1)
        world.claims[0].deleting = True
        drive(world)
        world.edit(size=3)

        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 3
        assert not world.claims[0].deleting


class TestClaimOfARemovedMember:
    """I6: deleted only if its record is complete and the linearizable list confirms it."""

    @pytest.fixture
    def seen(self) -> Observation:
        """c-1 was removed by hand, and its pod still runs."""
        world = formed(3)
        removed_by_hand(world, 1)
        return world.observe()

    def test_is_deleted_by_uid_and_resource_version(self, seen: Observation) -> None:
        step = decide(seen)

        assert isinstance(step, DeleteClaim)
        assert (step.name, step.uid) == ("data-c-1", seen.claims[1].uid)
        assert step.resource_version == seen.claims[1].resource_version

    @pytest.mark.parametrize(
        "change",
        [
            {"cluster_uid": OLD},
            {"cluster_id": 7},
            {"claim_uid": "restored"},
            {"cluster_uid": ""},
        ],
        ids=["another owner", "another etcd cluster", "restored", "nobody's"],
    )
    def test_stays_if_its_record_says_otherwise(self, seen: Observation, change: dict) -> None:
        record = replace(seen.claims[1].record, **change)
        found = with_claim(seen, 1, record=record)

        assert not leftovers.is_removed_members(found, found.claims[1])
        assert not is_write(decide(found))

    def test_stays_while_its_member_is_listed_anywhere(self, seen: Observation) -> None:
        listed = seat(seen, 2).member.member_id
        found = with_claim(seen, 1, record=replace(seen.claims[1].record, member_id=listed))

        assert not leftovers.is_removed_members(found, found.claims[1])
        assert not is_write(decide(found))

    def test_stays_without_a_record(self, seen: Observation) -> None:
        step = decide(with_claim(seen, 1, record=None))

        assert isinstance(step, Hold)
        assert step.reason == "ClaimUnrecorded"
        assert "claim data-c-1" in step.message
        assert "delete the claim and the pod" in step.message

    def test_stays_with_a_record_that_cannot_be_read(self, seen: Observation) -> None:
        found = with_claim(seen, 1, damage="half of it is missing")

        assert not leftovers.is_removed_members(found, found.claims[1])
        assert decide(found).reason == "ClaimRecordDamaged"

    def test_stays_without_a_list(self, seen: Observation) -> None:
        found = replace(seen, etcd=None)

        assert not leftovers.is_removed_members(found, found.claims[1])
        assert not is_write(decide(found))

    def test_stays_under_a_list_of_another_cluster(self, seen: Observation) -> None:
        found = replace(seen, etcd=replace(seen.etcd, cluster_id=7))

        assert not leftovers.is_removed_members(found, found.claims[1])
        assert decide(found).reason == "SplitBrain"

    def test_is_deleted_also_if_its_adoption_was_not_recorded_yet(self) -> None:
        old = formed(3)
        world = old.remake("new-uid", retainedClaims={"adopt": old.cluster.uid})
        until(world, "record data-c-2")
        removed_by_hand(world, 2)
        world.claims[2].damaged = "no record"

        assert drive(world) == Settled()
        assert "delete data-c-2" in labels(world.history)

    def test_an_empty_one_is_reused(self) -> None:
        world = formed(3)
        uid = world.claims[1].uid
        emptied(world, 1)

        assert drive(world) == Settled()
        assert world.claims[1].uid == uid


class TestPods:
    def test_a_pod_that_was_created_on_a_terminating_claim_is_recreated(self) -> None:
        """F7: the claim cannot go before the pod that is bound to it."""
        world = formed(3)
        world.hasty = True
        world.history.clear()
        deleted(world, 1)
        until(world, "restart c-1")
        world.apply(decide(world.observe()))
        world.turn()
        assert world.claims[1].deleting
        world.hasty = False

        assert drive(world) == Settled()
        assert chain(world.history, 1)[:3] == ["remove c-1", "restart c-1", "restart c-1"]

    @pytest.mark.parametrize("formed_yet", [True, False])
    def test_a_pending_pod_on_a_terminating_claim_is_recreated(self, *, formed_yet: bool) -> None:
        """pvc-protection keeps the claim for the pod, and the pod cannot be scheduled."""
        world = formed(3) if formed_yet else World(body(3))
        if not formed_yet:
            world.stuck = {1}
            until(world, "ledger 2")
        world.pods[1].where = "pending"
        world.claims[1].deleting = True
        world.stuck = set()

        assert drive(world) == Settled()

    def test_a_removed_members_pod_on_a_silent_node_is_force_deleted(self) -> None:
        world = formed(3)
        world.pods[1].deleting = world.pods[1].overdue = True
        world.pods[1].silent = True
        world.claims[1].deleting = True
        world.history.clear()

        assert drive(world) == Settled()
        assert labels(world.history)[:2] == ["remove c-1", "force c-1"]

    def test_a_members_pod_on_a_silent_node_is_never_force_deleted(self) -> None:
        """The status said for good that it was about to stop, and not what to do about a dead
        node."""
        world = formed(3)
        world.pods[1].deleting = world.pods[1].overdue = True
        world.pods[1].silent = True
        world.history.clear()

        assert drive(world) == Wait(
            "pod c-1 (its node does not confirm that it has stopped; if the node is off for good, "
            "delete the Node, or force-delete the pod) to stop; the StatefulSet then recreates it"
        )
        assert world.history == []

    KEPT = {"deleting": True, "overdue": True, "kept_by": "mesh/a"}  # noqa: RUF012

    def test_a_finalizer_that_kept_a_members_pod_was_taken_for_a_dead_node(self) -> None:
        """The status advised to delete the Node, or to force-delete the pod, which stays all the
        same."""
        seen = without_status(with_pod(formed(3).observe(), 1, ready=False, **self.KEPT), 1)

        assert decide(seen) == Wait(
            "pod c-1 (its finalizer mesh/a keeps it: if what set that is gone, remove it from "
            "metadata.finalizers) to stop; the StatefulSet then recreates it"
        )

    def test_a_removed_members_pod_that_a_finalizer_keeps_was_force_deleted_for_ever(self) -> None:
        world = formed(3)
        removed_by_hand(world, 1)

        step = decide(with_pod(world.observe(), 1, ready=False, **self.KEPT))

        assert isinstance(step, Wait)
        assert "its finalizer mesh/a keeps it" in step.reason

    @pytest.mark.parametrize("overdue", [True, False])
    def test_a_pod_that_is_stopping_in_time_is_waited_for(self, *, overdue: bool) -> None:
        world = formed(3)
        removed_by_hand(world, 1)
        seen = with_pod(world.observe(), 1, deleting=True, overdue=overdue)

        step = decide(seen)

        assert (isinstance(step, DeletePod) and step.force) is overdue

    def test_with_an_empty_dir_the_pod_of_a_removed_member_is_recreated(self) -> None:
        world = formed(3, **EMPTY_DIR)
        removed_by_hand(world, 1)
        world.history.clear()

        assert drive(world) == Settled()
        assert chain(world.history, 1)[:2] == ["restart c-1", "add c-1"]

    def test_a_pod_beyond_the_replicas_is_left_to_the_stateful_set_controller(self) -> None:
        world = formed(3)
        seen = world.observe()
        beyond = replace(seen.pods[2], ordinal=3, name="c-3")

        step = decide(replace(seen, pods=(*seen.pods, beyond)))

        assert step == Wait("pods c-3, no longer needed, to stop")

    def test_a_pod_beyond_the_replicas_on_a_silent_node_is_force_deleted(self) -> None:
        """Otherwise its claim would stay for as long as the Node does."""
        world = formed(3)
        seen = world.observe()
        beyond = replace(seen.pods[2], ordinal=3, name="c-3", deleting=True, overdue=True)

        step = decide(replace(seen, pods=(*seen.pods, beyond)))

        assert isinstance(step, DeletePod)
        assert (step.name, step.force) == ("c-3", True)


def test_a_running_pod_whose_claim_is_gone_is_recreated() -> None:
    world = formed(3)
    del world.claims[1]
    seen = world.observe()
    gone = with_pod(seen, 1, etcd_started=True)

    assert isinstance(decide(gone), MemberRemove)
    off = with_members(gone, *[one for one in gone.etcd.members if one != seat(gone, 1).member])
    step = decide(off)
    assert isinstance(step, DeletePod)
    assert "its claim is gone" in step.reason


def record_damaged(world: World, ordinal: int) -> None:
    del world.claims[ordinal].annotations[naming.CLUSTER_UID]


def claim_restored(world: World, ordinal: int) -> None:
    world.claims[ordinal].annotations[naming.CLAIM_UID] = "restored"


HELD = {record_damaged: "ClaimRecordDamaged", claim_restored: "ClaimRestored"}


@pytest.mark.parametrize("way", HELD, ids=lambda way: way.__name__)
class TestADistrustedClaimThatAHumanDeletes:
    def test_stayed_for_good_because_its_pod_ran_on(self, way: object) -> None:
        """A claim stays for as long as its pod, and nobody deleted the pod."""
        world = formed(3)
        way(world, 1)
        rest = drive(world)
        assert rest.reason == HELD[way]
        assert "delete the claim" in rest.message
        world.history.clear()

        deleted(world, 1)

        assert drive(world) == Settled()
        assert chain(world.history, 1) == [one.format(1) for one in WAYS[deleted] + REJOINS]

    @pytest.mark.parametrize("size", [1, 3])
    def test_waits_for_the_others_like_any_other(self, way: object, size: int) -> None:
        """I1"""
        world = formed(size)
        way(world, 0)
        deleted(world, 0)
        for ordinal in range(1, size):
            world.pods[ordinal].silent = ordinal == 2
        world.history.clear()

        rest = drive(world)

        assert world.history == []
        assert "claim data-c-0 is being deleted" in str(rest)

    def test_is_waited_for_while_another_is_not_deleted(self, way: object) -> None:
        world = formed(3)
        way(world, 1)
        way(world, 2)
        deleted(world, 1)
        world.history.clear()

        rest = drive(world)

        assert rest.reason == HELD[way]
        assert "data-c-2" in rest.message
        assert world.history == []


@pytest.mark.parametrize("way", HELD, ids=lambda way: way.__name__)
def test_a_distrusted_claim_that_no_pod_uses_kept_a_lost_member_from_being_replaced(
    way: Callable[[World, int], None],
) -> None:
    """Such as that of a removed member, which somebody had made again for a look at its volume. It
    is still told, once nothing else is left to do."""
    world = formed(3)
    notes = dict(world.claims[2].annotations)
    world.claims[3] = Volume("made-again", 999, notes | {naming.CLAIM_UID: "made-again"})
    way(world, 3)
    world.empty(1)
    world.history.clear()

    rest = drive(world)

    assert {"remove c-1", "add c-1"} <= set(labels(world.history))
    assert world.serving() == {0, 1, 2}
    assert rest.reason == HELD[way]
    assert "data-c-3" in rest.message


def test_a_damaged_claim_that_is_deleted_while_the_secret_is_lost_says_what_to_do() -> None:
    """An unreadable claim cannot be used to rebuild the record, and it stays as long as its pod."""
    world = formed(3)
    record_damaged(world, 1)
    deleted(world, 1)
    world.lose_secret()
    world.history.clear()

    rest = drive(world)

    assert rest.reason == "ClaimRecordDamaged"
    assert "delete the pod" in rest.message
    world.restart_pod(1)
    assert drive(world) == Settled()


def test_members_of_two_clusters_are_not_touched() -> None:
    world = formed(3)
    stray = world.claims[1].data
    world.claims[1].data = replace(stray, cluster_id=7, member_id=8)
    other = formed(1)
    world.etcds[7] = next(iter(other.etcds.values()))
    member = replace(next(iter(world.etcds[7].members.values())), member_id=8)
    world.etcds[7].members = {8: member}
    world.history.clear()

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "SplitBrain"
    assert world.history == []


def test_a_claim_without_its_owner_label_is_no_reason_to_replace() -> None:
    world = formed(3)
    world.claims[1].annotations.pop(naming.CLUSTER_UID)

    assert drive(world).reason == "ClaimRecordDamaged"


class TestAnOrdinalWhoseClaimOnlyAPersonMayDelete:
    """The node of its volume is gone, and no member has ever had it."""

    def waiting(self, size: int) -> World:
        world = formed(3)
        world.stuck = {3}
        world.edit(size=size)
        until(world, "StatefulSet c")
        world.apply(decide(world.observe()))
        world.turn()
        world.pods[3].node_gone = True
        return world

    def test_kept_other_ordinals_from_growing(self) -> None:
        world = self.waiting(5)

        rest = drive(world)

        assert rest.reason == "ClaimUnrecorded"
        assert sorted(world.serving()) == [0, 1, 2, 4]

    def test_kept_the_alarm_of_a_full_quota_from_being_disarmed(self) -> None:
        world = self.waiting(4)
        world.etcd.alarms.append(Alarm("NOSPACE", min(world.etcd.members)))

        rest = drive(world)

        assert rest.reason == "ClaimUnrecorded"
        assert not world.etcd.alarms
