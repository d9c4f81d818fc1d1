"""Claims that a deleted cluster of the same name left behind: hold, adopt, discard.

Each test runs from the old cluster's deletion until the new one serves.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import (
    OLDER,
    UID,
    Conflict,
    Data,
    World,
    body,
    claim_gone,
    drive,
    formed,
    is_write,
    labels,
    until,
)

from etcd_stateful import naming
from etcd_stateful.api.cluster import RetainedClaims
from etcd_stateful.manifests.statefulset import is_assumed
from etcd_stateful.membership.beginning import tickets
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    DeleteClaim,
    Hold,
    PushTicket,
    Settled,
    Wait,
)
from etcd_stateful.observed.pods import Pod
from etcd_stateful.start.ticket import Finding

NEW = "e3c0ffee-0000-4000-8000-00000000000f"


def again(old: World, **retained: str) -> World:
    return old.remake(NEW, **({"retainedClaims": retained} if retained else {}))


def adopting() -> tuple[Observation, Pod, Finding]:
    """The world just before its first ticket, with a waiting pod and what that pod found."""
    world = again(formed(3), adopt=UID)
    while not isinstance(step := decide(world.observe()), PushTicket):
        world.apply(step) if is_write(step) else world.turn()
    seen = world.observe()
    pod = seen.pod(1)
    assert pod is not None
    assert pod.answer is not None
    return seen, pod, pod.answer.finding


class TestHold:
    def test_the_claims_their_uid_and_both_ways_out_are_named(self) -> None:
        world = again(formed(3))

        rest = drive(world)

        assert rest == Hold(
            "RetainedClaims",
            "claims data-c-0, data-c-1, data-c-2 hold the data of a deleted cluster of this name "
            f"(UID {UID}). To adopt that data, set spec.version to the version that it ran, or "
            f'another patch of that minor, and spec.retainedClaims.adopt to "{UID}"; to delete it '
            f'for good and start empty, set spec.retainedClaims.discard to "{UID}"',
        )
        assert world.history == []

    def test_a_cluster_on_empty_dirs_was_told_to_adopt_which_its_spec_may_not_say(self) -> None:
        world = formed(3).remake(NEW, pod={"emptyDir": {}})

        rest = drive(world)

        assert rest == Hold(
            "RetainedClaims",
            "claims data-c-0, data-c-1, data-c-2 hold the data of a deleted cluster of this name "
            f"(UID {UID}), and this one keeps its data in emptyDir volumes. To go on with that "
            "data, delete the EtcdCluster, and create it again without spec.pod.emptyDir; to "
            f'delete it for good, set spec.retainedClaims.discard to "{UID}"',
        )
        world.edit(retainedClaims={"discard": UID})
        assert labels([decide(world.observe())]) == ["delete data-c-0"]

    @pytest.mark.parametrize("given", [{"adopt": OLDER}, {"discard": OLDER}])
    def test_a_uid_of_another_cluster_does_not_count(self, given: dict[str, str]) -> None:
        world = again(formed(3), **given)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RetainedClaims"
        assert world.history == []

    def test_one_claim_is_enough_to_hold(self) -> None:
        world = again(formed(3))
        del world.claims[0], world.claims[2]

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.message.startswith("claims data-c-1 hold")

    def test_claims_that_never_had_a_member_are_reused(self) -> None:
        old = World(body(3))
        while not old.pods:
            step = decide(old.observe())
            old.apply(step) if is_write(step) else old.turn()
        world = again(old)
        assert {claim.annotations[naming.CLUSTER_UID] for claim in world.claims.values()} == {UID}

        assert drive(world) == Settled()

    def test_claims_that_appear_before_the_stateful_set_does_still_hold(self) -> None:
        claims = formed(3).claims
        world = World(body(3, uid=NEW))
        for _ in range(2):
            world.apply(decide(world.observe()))
        world.claims = claims

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "RetainedClaims"

    @pytest.mark.parametrize("lost", ["secret", "stateful_set"])
    def test_a_running_cluster_that_lost_a_child_is_not_held_for_its_own_claims(
        self, lost: str
    ) -> None:
        world = formed(3)
        world.lose_secret() if lost == "secret" else world.delete_stateful_set()

        assert drive(world) == Settled()

    def test_claims_whose_record_was_edited_hold_before_anything_is_made(self) -> None:
        world = again(formed(3), adopt=UID)
        world.claims[1].annotations[naming.MEMBER_ID] = "nonsense"

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRecordDamaged"
        assert "data-c-1" in rest.message
        assert "delete the claim" in rest.message
        assert world.history == []


class TestAdopt:
    def test_the_old_data_is_served_again_under_its_own_ids(self) -> None:
        old = formed(3)
        members = {old.data(ordinal).member_id for ordinal in range(3)}
        world = again(old, adopt=UID)

        assert drive(world) == Settled()

        assert labels(world.history) == [
            "CreateSecret",
            "Service c",
            "StatefulSet c",
            "Service c-client",
            "PodDisruptionBudget c",
            "record data-c-0",
            "record data-c-1",
            "record data-c-2",
            "push c-0 adopt",
            "push c-1 adopt",
            "push c-2 adopt",
            "ledger 0",
            "StatefulSet c",
        ]
        assert not world.record.untried
        assert not is_assumed(world.objects["StatefulSet", "c"])
        assert world.record.cluster_id == old.record.cluster_id
        assert {world.data(ordinal).member_id for ordinal in range(3)} == members
        assert {world.data(ordinal).cluster_uid for ordinal in range(3)} == {NEW}

    @pytest.mark.parametrize("wrong", ["3.5.33", "3.7.3"])
    @pytest.mark.parametrize("fails", ["crashing", "late_images"])
    def test_a_wrong_version_of_the_data_can_be_corrected_by_an_edit(
        self, wrong: str, fails: str
    ) -> None:
        """Nothing records which version the data is of; the first guess was kept for good."""
        world = again(formed(3, version="3.6.14"), adopt=UID)
        world.edit(version=wrong)
        world.late_images = {wrong} if fails == "late_images" else set()
        world.apply(until(world, "push c-2 adopt"))
        for pod in world.pods.values():
            pod.crashing = fails == "crashing"
        assert world.record.untried
        rest = drive(world)
        assert isinstance(rest, Wait)
        assert rest.reason.endswith(
            f"; etcd {wrong} is only assumed, as no record says which version wrote the data: if "
            "members fail because of that, set spec.version to the version that they ran"
        )

        world.edit(version="3.6.14")

        assert drive(world) == Settled()
        assert {pod.version for pod in world.pods.values()} == {"3.6.14"}
        assert not world.record.untried

    def test_once_a_quorum_has_answered_an_edit_cannot_skip_the_gates(self) -> None:
        world = again(formed(3, version="3.5.33"), adopt=UID)
        world.edit(version="3.5.33")
        assert drive(world) == Settled()
        for pod in world.pods.values():
            pod.crashing = True
        world.edit(version="3.7.3")

        drive(world)

        assert world.record.version == "3.5.33"

    def test_the_record_is_latched_so_nothing_empty_can_form_beside_the_data(self) -> None:
        step = decide(again(formed(3), adopt=UID).observe())

        assert isinstance(step, CreateSecret)
        assert step.record.latched
        assert step.record.members == ()

    def test_it_comes_up_with_as_many_members_as_there_were(self) -> None:
        world = again(formed(5), adopt=UID)
        world.edit(size=1)

        assert drive(world) == Settled()

        applied = [one for one in world.history if isinstance(one, ApplyChild)]
        sizes = [one.manifest["spec"]["replicas"] for one in applied if one.kind == "StatefulSet"]
        assert sizes[0] == 5
        assert sorted(world.members[world.record.cluster_id]) == [world.data(0).member_id]

    def test_the_field_may_be_removed_afterwards(self) -> None:
        world = again(formed(3), adopt=UID)
        drive(world)
        del world.body["spec"]["retainedClaims"]
        for ordinal in range(3):
            world.restart_pod(ordinal)

        assert drive(world) == Settled()

    def test_removing_the_field_half_way_holds_what_is_left(self) -> None:
        world = again(formed(3), adopt=UID)
        while labels(world.history)[-1:] != ["push c-0 adopt"]:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        del world.body["spec"]["retainedClaims"]

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ForeignData"
        assert f'set spec.retainedClaims.adopt to "{UID}"' in rest.message
        assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3

    def test_data_of_an_unrecorded_recovery_was_adopted_beside_the_others(self) -> None:
        """By its log it is the only member, but the others' logs say otherwise: two clusters with
        one ID."""
        seen, pod, finding = adopting()

        assert tickets.may_adopt(seen, pod, finding)
        assert not tickets.may_adopt(seen, pod, replace(finding, epoch=2))

    def test_data_without_a_cluster_uid_does_not_match_an_unset_adopt(self) -> None:
        seen, pod, finding = adopting()
        unset = replace(seen, cluster=replace(seen.cluster, retained_claims=RetainedClaims()))

        assert not tickets.may_adopt(unset, pod, replace(finding, cluster_uid=""))

    def test_damaged_data_is_not_adopted(self) -> None:
        """For damaged data, `start` reports the IDs in the marker, whatever the log says."""
        seen, pod, finding = adopting()

        assert not tickets.may_adopt(seen, pod, replace(finding, found="damaged"))

    @pytest.mark.parametrize("what", ["member_id", "cluster_id", "member", "cluster_uid"])
    def test_a_log_that_disagrees_with_the_claim_is_not_adopted(self, what: str) -> None:
        """Volumes were swapped, or restored beneath the claims."""
        old = formed(3)
        wrong = {"member_id": 5, "cluster_id": 6, "member": "c-2", "cluster_uid": OLDER}[what]
        old.claims[1].data = replace(old.claims[1].data, **{what: wrong})
        world = again(old, adopt=UID)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ForeignData"
        assert "the volume of pod c-1 holds data of" in rest.message
        assert [push.pod for push in world.history if isinstance(push, PushTicket)] == [
            "c-0",
            "c-2",
        ]

    def test_a_volume_that_was_emptied_since_the_last_look_broke_a_rule(self) -> None:
        """`start` looks at its volume again before it takes a ticket, and refuses this one."""
        world = again(formed(3), adopt=UID)
        late = until(world, "push c-2 adopt")
        world.claims[2].data = None

        with pytest.raises(Conflict, match="finds no log"):
            world.apply(late)

        assert drive(world) == Settled()
        assert "remove c-2" in labels(world.history)

    def test_claims_of_two_etcd_clusters_are_not_adopted(self) -> None:
        old = formed(3)
        old.claims[1].annotations[naming.CLUSTER_ID] = "00000000000000aa"
        world = again(old, adopt=UID)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "SplitBrain"
        assert world.history == []

    def test_an_emptied_volume_among_them_is_replaced_once_the_others_serve(self) -> None:
        old = formed(3)
        lost = old.data(2).member_id
        old.claims[2].data = None
        world = again(old, adopt=UID)

        assert drive(world) == Settled()

        steps = labels(world.history)
        assert steps.index("push c-1 adopt") < steps.index("remove c-2") < steps.index("add c-2")
        assert world.data(2).member_id != lost

    def test_a_lost_claim_of_the_last_ordinal_is_recreated_once_there_is_a_list(self) -> None:
        old = formed(3)
        world = again(old, adopt=UID)
        del world.claims[2]

        assert drive(world) == Settled()

        assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3
        assert "remove c-2" in labels(world.history)

    def test_with_nothing_to_adopt_no_empty_cluster_is_created_instead(self) -> None:
        world = World(body(3, uid=NEW, retainedClaims={"adopt": UID}))

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "NothingToAdopt"
        assert UID in rest.message
        assert world.history == []

    def test_without_the_field_it_starts_empty(self) -> None:
        world = World(body(3, uid=NEW, retainedClaims={"adopt": UID}))
        drive(world)
        del world.body["spec"]["retainedClaims"]

        assert drive(world) == Settled()

    def test_a_leftover_claim_does_not_keep_a_stateful_set_from_being_recreated(
        self,
    ) -> None:
        """c-2 never came up, so its claim still belongs to the old cluster; the others serve."""
        world = again(formed(3), adopt=UID)
        world.stuck = {2}
        drive(world)
        assert world.claims[2].annotations[naming.CLUSTER_UID] == UID
        del world.body["spec"]["retainedClaims"]
        world.delete_stateful_set()

        assert labels([decide(world.observe())]) == ["StatefulSet c"]

    def test_a_secret_lost_afterwards_is_recreated_although_the_field_is_still_set(self) -> None:
        world = again(formed(3), adopt=UID)
        drive(world)
        world.lose_secret()

        assert drive(world) == Settled()


class TestDiscard:
    def test_every_claim_of_that_uid_is_deleted_and_an_empty_cluster_starts(
        self,
    ) -> None:
        old = formed(3)
        uids = [claim.uid for claim in old.claims.values()]
        world = again(old, discard=UID)

        assert drive(world) == Settled()

        deletions = [step for step in world.history if isinstance(step, DeleteClaim)]
        assert labels(world.history)[:4] == [
            "delete data-c-0",
            "delete data-c-1",
            "delete data-c-2",
            "CreateSecret",
        ]
        assert [step.uid for step in deletions] == uids
        assert all(step.resource_version for step in deletions)
        assert world.record.cluster_id != old.record.cluster_id
        assert world.record.attempt == 1

    def test_a_claim_that_is_held_by_a_pod_is_waited_for(self) -> None:
        world = again(formed(1), discard=UID)
        world.claims[0].deleting = True

        assert decide(world.observe()) == claim_gone(0)

    def test_nothing_starts_before_the_last_one_is_gone(self) -> None:
        world = again(formed(2), discard=UID)
        world.apply(decide(world.observe()))
        assert world.claims[0].deleting

        assert isinstance(decide(world.observe()), Wait)


class TestTwoOldClusters:
    @pytest.fixture
    def world(self) -> World:
        world = again(formed(3))
        other = {naming.CLUSTER_UID: OLDER, naming.CLUSTER_ID: "00000000000000aa"}
        world.claims[2].annotations |= other
        return world

    @pytest.mark.parametrize("adopt", [None, UID, OLDER])
    def test_both_are_named_and_one_has_to_be_discarded_first(
        self, world: World, adopt: str | None
    ) -> None:
        """It is not enough to name one for adoption: what should become of the other?"""
        if adopt:
            world.edit(retainedClaims={"adopt": adopt})

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RetainedClaims"
        assert "2 deleted clusters of this name" in rest.message
        assert UID in rest.message
        assert OLDER in rest.message
        assert "set spec.retainedClaims.discard to the UID of the one" in rest.message

    def test_discarding_one_first_works(self, world: World) -> None:
        world.edit(retainedClaims={"discard": OLDER})
        rest = drive(world)
        assert isinstance(rest, Hold)
        assert sorted(world.claims) == [0, 1]

        world.edit(retainedClaims={"adopt": UID})
        assert drive(world) == Settled()

        pushes = [
            (one.pod, one.ticket.state) for one in world.history if isinstance(one, PushTicket)
        ]
        assert pushes == [("c-0", "adopt"), ("c-1", "adopt"), ("c-2", "existing")]


class TestInterruptedAdoption:
    """The cluster that adopted the claims was deleted before it had adopted all of them: they name
    two deleted clusters, and are members of one etcd cluster."""

    @pytest.fixture
    def world(self) -> World:
        second = again(formed(3), adopt=UID)
        second.stuck = {1, 2}
        drive(second)
        return second.remake(OLDER)

    def test_no_member_of_the_same_etcd_cluster_was_to_be_discarded(self, world: World) -> None:
        """Two of three members would have been deleted for good, whichever was adopted."""
        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RetainedClaims"
        assert "discard" not in rest.message.partition("to delete it for good")[0]
        assert "adopted only in part" in rest.message

    @pytest.mark.parametrize(("first", "then", "size"), [(UID, NEW, 3), (NEW, UID, 1)])
    def test_all_of_them_serve_again(self, world: World, first: str, then: str, size: int) -> None:
        world.edit(size=size, retainedClaims={"adopt": first})

        rest = drive(world)
        assert isinstance(rest, Hold)
        assert f'set spec.retainedClaims.adopt to "{then}"' in rest.message

        world.edit(size=3, retainedClaims={"adopt": then})
        assert drive(world) == Settled()
        states = [one.ticket.state for one in world.history if isinstance(one, PushTicket)]
        assert states == ["adopt"] * 3
        assert not [one for one in world.history if isinstance(one, DeleteClaim)]


class TestTamperedClaims:
    def test_a_restored_claim_is_held(self) -> None:
        """Its annotations were restored with it, but its UID is new."""
        world = formed(3)
        world.claims[1].uid = "restored"

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRestored"
        assert "claim data-c-1 is not the one its record was written for" in rest.message

    def test_a_restored_claim_is_not_adopted_either(self) -> None:
        old = formed(3)
        old.claims[1].uid = "restored"
        world = again(old, adopt=UID)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRestored"
        assert not [step for step in world.history if isinstance(step, PushTicket)]

    @pytest.mark.parametrize("missing", [naming.CLUSTER_UID, naming.CLAIM_UID, naming.CLUSTER_ID])
    def test_an_incomplete_record_is_held(self, missing: str) -> None:
        world = formed(3)
        del world.claims[1].annotations[missing]

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRecordDamaged"

    def test_children_are_still_put_back(self) -> None:
        world = formed(3)
        world.claims[1].uid = "restored"
        del world.objects["Service", "c-client"]

        assert labels([decide(world.observe())]) == ["Service c-client"]


class TestForeignData:
    def test_another_members_volume_is_not_started(self) -> None:
        """The volume beneath c-1's claim is a clone of c-0's."""
        world = formed(3)
        world.claims[1].data = world.claims[0].data
        world.restart_pod(1)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ForeignData"
        assert "the volume of pod c-1 holds data of c-0" in rest.message
        assert rest.message.endswith(
            "Give the pod its own volume back, or delete claim data-c-1 with its data, and a new "
            "member takes its place"
        )

        world.claims[1].deleting = True

        assert drive(world) == Settled()
        assert len(world.etcd.voters) == 3

    def test_deleting_a_claim_is_not_suggested_if_its_member_could_not_be_replaced(self) -> None:
        world = formed(3)
        world.claims[1].data = world.claims[0].data
        world.restart_pod(1)
        drive(world)
        seen = replace(world.observe(), etcd=None, statuses={})

        rest = decide(seen)

        assert isinstance(rest, Hold)
        assert rest.reason == "ForeignData"
        assert rest.message.endswith("Give the pod its own volume back")

    @pytest.mark.parametrize("used", [2, 3])
    def test_volumes_that_others_have_used_left_a_new_cluster_without_a_way_on(
        self, used: int
    ) -> None:
        """They were made by hand, and bound again. There was no volume of its own to give back."""
        world = World(body(3))
        world.apply(until(world, "StatefulSet c"))
        world._control()
        for ordinal in range(used):
            old = Data(OLDER, f"c-{ordinal}", 7 + ordinal, 9, 1, "")
            world.claims[ordinal].data = old

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ForeignData"
        assert rest.message.endswith(
            "Give the pod its own volume back, or if nobody needs that data, delete claim "
            "data-c-0 and the pod, to begin on another volume"
        )
        for ordinal in range(used):
            world.empty(ordinal)
        assert drive(world) == Settled()

    def test_data_without_a_name_is_reported_as_unknown(self) -> None:
        world = formed(3)
        world.claims[1].data = replace(world.claims[1].data, member="", cluster_uid="")
        world.restart_pod(1)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "holds data of an unknown member: " in rest.message

    def test_adoption_is_not_suggested_where_it_cannot_be_done(self) -> None:
        """This cluster already has an ID, and the data has another."""
        world = formed(3)
        world.claims[1].data = replace(world.claims[1].data, cluster_uid=OLDER, cluster_id=9)
        world.restart_pod(1)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert "adopt" not in rest.message

    def test_the_answer_of_a_pod_that_is_being_deleted_is_ignored(self) -> None:
        world = formed(3)
        world.claims[1].data = world.claims[0].data
        world.run_start(1)
        world.pods[1].deleting = True

        assert decide(world.observe()) == Wait("pod c-1 to stop; the StatefulSet then recreates it")

    def test_a_pod_beyond_the_replicas_is_not_reported_as_lost(self) -> None:
        """It is about to be deleted; somebody had scaled the StatefulSet by hand."""
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 4
        world.turn()
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 3

        assert decide(world.observe()) == Wait("pods c-3, no longer needed, to stop")


def test_a_claim_that_does_not_exist_is_waited_for() -> None:
    world = World(body(1))
    while not world.pods:
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()

    step = decide(replace(world.observe(), claims=()))

    assert step == Wait("claim data-c-0 of pod c-0 to appear")


def test_an_unschedulable_pod_whose_claim_is_gone_is_reported_with_its_trouble() -> None:
    """The StatefulSet controller recreates the claim only when the pod changes, and this one does
    not."""
    seen = formed(3).observe()
    held = replace(
        seen.pods[1],
        etcd_started=False,
        ready=False,
        trouble="held back by scheduling gates, until they are removed: a.b/c",
    )
    claims = tuple(claim for claim in seen.claims if claim.ordinal != 1)
    statuses = {ordinal: one for ordinal, one in seen.statuses.items() if ordinal != 1}
    pods = (seen.pods[0], held, seen.pods[2])

    step = decide(replace(seen, pods=pods, claims=claims, statuses=statuses))

    assert step == Wait(f"pod c-1: {held.trouble}; its claim data-c-1 does not exist")


def test_a_late_first_member_on_a_claim_that_is_being_deleted_is_replaced() -> None:
    """F7: the claim stays while the pod uses it, and the pod cannot start with it."""
    world = World(body(3))
    world.stuck = {2}
    drive(world)
    world.stuck = set()
    world.claims[2].deleting = True
    world.history.clear()

    assert drive(world) == Settled()
    assert labels(world.history)[:3] == ["remove c-2", "restart c-2", "add c-2"]


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ("pending", "pod c-1 to become ready"),
        ("start", "pod c-1 to answer from its init container start"),
        ("etcd", "pod c-1 to become ready"),
    ],
)
def test_a_pod_that_does_not_serve_is_reported(waits: str, words: str) -> None:
    world = formed(3)
    world.pods[1].where, world.pods[1].silent = waits, True
    world.claims[1].data = None if waits == "etcd" else world.claims[1].data

    assert decide(world.observe()) == Wait(words)


def test_a_serving_pod_that_is_being_deleted_is_waited_for() -> None:
    world = formed(3)
    world.pods[1].deleting = True
    assert world.observe().pods[1].ready

    assert decide(world.observe()) == Wait("pod c-1 to stop; the StatefulSet then recreates it")


def test_the_trouble_of_a_pod_is_reported() -> None:
    world = formed(3)
    world.pods[1].where, world.pods[1].trouble = "pending", "image x cannot be pulled"

    assert decide(world.observe()) == Wait("pod c-1: image x cannot be pulled")


def test_a_cluster_that_nobody_can_reach_is_not_settled_before_the_first_answer() -> None:
    world = World(body(1))
    world.cut_off = True

    assert drive(world) == Wait("a quorum to answer for the first time")
