"""The safety rules, one class each, in the states in which they are easiest to break.

`worlds.World.apply` raises RuleBroken for a write that breaks a rule. These tests create the
states, and check which step is chosen instead.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import world_rules as rules
from views import with_pod
from worlds import (
    OLD,
    UID,
    Conflict,
    Data,
    World,
    body,
    drive,
    formed,
    is_write,
    labels,
    until,
)

from etcd_stateful import naming
from etcd_stateful.membership import stalled
from etcd_stateful.membership.beginning import attempts, bootstrap, tickets
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    DeleteClaim,
    Hold,
    PushTicket,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.members import EtcdView, Member, MemberStatus
from etcd_stateful.observed.objects import Foreign
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.member import MemberRecord

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def before(world: World, label: str) -> World:
    """The world just before the step of that label."""
    until(world, label)
    return world


def pushes(world: World) -> list[PushTicket]:
    return [step for step in world.history if isinstance(step, PushTicket)]


class TestI3OneTicketForOneMember:
    """F4: a member that lost its data never comes back under its ID. Another member takes its
    place."""

    def test_a_recreated_claim_gets_a_ticket_for_another_member_only(self) -> None:
        world = formed(3)
        lost = world.data(1).member_id
        world.empty(1)

        assert drive(world) == Settled()

        assert [push.pod for push in pushes(world)] == ["c-0", "c-1", "c-2", "c-1"]
        assert pushes(world)[-1].ticket.member_id == world.data(1).member_id != lost

    def test_a_restarted_pod_on_an_empty_dir_gets_a_ticket_for_another_member_only(self) -> None:
        world = formed(3, **EMPTY_DIR)
        lost = world.data(2).member_id
        world.restart_pod(2)

        assert drive(world) == Settled()

        assert pushes(world)[-1].ticket.member_id == world.data(2).member_id != lost

    def test_start_running_again_in_the_same_pod_gets_a_ticket_for_another_member_only(
        self,
    ) -> None:
        """The container was restarted on a volume that was emptied under it."""
        world = formed(3)
        lost = world.data(0).member_id
        world.claims[0].data = None
        world.run_start(0)

        assert drive(world) == Settled()

        assert pushes(world)[-1].ticket.member_id == world.data(0).member_id != lost

    def test_before_the_latch_the_ticket_of_an_earlier_run_goes_to_no_other_run(self) -> None:
        world = before(World(body(3)), "record data-c-1")
        first = world.record.members[1].member_id
        world.restart_pod(1)
        world.turn()

        assert drive(world) == Settled()

        assert [push.pod for push in pushes(world)] == ["c-0", "c-2", "c-1"]
        assert world.data(1).member_id != first

    def test_the_same_run_may_get_the_same_ticket_again(self) -> None:
        world = before(World(body(1)), "push c-0 new")
        first = decide(world.observe())

        assert decide(world.observe()) == first

    def test_no_record_or_ticket_for_a_run_that_is_not_in_the_ledger(self) -> None:
        world = before(World(body(1)), "record data-c-0")
        world.pods[0].challenge = "another-run"
        world.stuck = {0}

        step = decide(world.observe())

        assert isinstance(step, WriteBootstrap)
        assert step.record.attempt == 2

    def test_a_pod_of_an_earlier_epoch_gets_no_ticket(self) -> None:
        """It would refuse the ticket, and would be sent it again and again."""
        world = formed(3)
        world.empty(1)
        while not isinstance(step := decide(world.observe()), PushTicket):
            world.apply(step) if is_write(step) else world.turn()
        seen = world.observe()
        assert isinstance(tickets.hand_out(with_pod(seen, 1, epoch=1)), PushTicket)

        assert tickets.hand_out(with_pod(seen, 1, epoch=0)) is None

    def test_a_ticket_is_never_pushed_without_its_record_on_the_claim(self) -> None:
        world = before(World(body(1)), "push c-0 new")
        del world.claims[0].annotations[naming.MEMBER_ID]
        del world.claims[0].annotations[naming.CLAIM_UID]
        del world.claims[0].annotations[naming.CLUSTER_ID]

        assert labels([decide(world.observe())]) == ["record data-c-0"]

    @pytest.mark.parametrize("key", [naming.MEMBER_ID, naming.CLAIM_UID, naming.CLUSTER_ID])
    def test_an_incomplete_record_on_a_claim_holds(self, key: str) -> None:
        world = before(World(body(1)), "push c-0 new")
        del world.claims[0].annotations[key]

        rest = decide(world.observe())

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRecordDamaged"
        assert "claim data-c-0" in rest.message


class TestI4NewOnlyBeforeTheLatch:
    def test_no_ticket_after_the_latch_says_new(self) -> None:
        world = formed(5)

        states = [push.ticket.state for push in pushes(world)]
        latch = labels(world.history).index("latch")
        after = [one for one in world.history[latch:] if isinstance(one, PushTicket)]

        assert states == ["new", "new", "new", "existing", "existing"]
        assert [one.ticket.state for one in after] == ["existing", "existing"]

    def test_a_run_that_was_in_the_ledger_before_the_latch_joins_as_existing(self) -> None:
        world = before(World(body(3)), "push c-2 existing")

        step = decide(world.observe())

        assert isinstance(step, PushTicket)
        assert world.record.challenge(step.ticket.member_id) == step.ticket.challenge
        assert step.ticket.state == "existing"

    def test_nothing_takes_the_latch_off(self) -> None:
        world = formed(3)
        for ordinal in range(3):
            world.empty(ordinal)
        drive(world)

        assert world.record.latched


class TestAnotherAttempt:
    """A crash before the cluster has formed needs no human, as long as no volume has data."""

    def test_another_attempt_starts_if_every_volume_is_empty_again(self) -> None:
        world = before(World(body(3)), "record data-c-0")
        first = world.record
        for ordinal in range(3):
            world.restart_pod(ordinal)

        assert drive(world) == Settled()

        assert world.record.attempt == 2
        assert world.record.token != first.token
        assert world.record.cluster_id != first.cluster_id
        assert "ledger 0" in labels(world.history)

    def test_volumes_that_were_emptied_before_the_latch_get_new_ids(self) -> None:
        world = World(body(1))
        world.cut_off = True
        drive(world)
        assert world.data(0) is not None
        first = world.record.members[0].member_id
        world.empty(0)
        world.turn()
        world.cut_off = False

        assert drive(world) == Settled()
        assert world.data(0).member_id != first

    def test_no_other_attempt_while_no_ticket_was_spent(self) -> None:
        """All pods wait and none can be served: another attempt would get no further."""
        world = World(body(1))
        while not world.pods:
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()
        world.claims[0].deleting = True
        assert labels([decide(world.observe())]) == ["restart c-0"]

        assert drive(world) == Settled()
        assert world.record.attempt == 1

    def test_another_attempt_starts_if_the_claim_of_a_recorded_run_is_being_deleted(self) -> None:
        """The ledger's entry may stand for a ticket that was pushed."""
        world = before(World(body(1)), "record data-c-0")
        world.claims[0].deleting = True

        assert drive(world) == Settled()
        assert world.record.attempt == 2

    def test_one_pod_with_data_forbids_another_attempt(self) -> None:
        """Its volume may hold writes that a quorum acknowledged."""
        world = before(World(body(3)), "record data-c-1")
        world.restart_pod(1)
        world.restart_pod(2)

        rest = drive(world)

        assert rest == Hold(
            "QuorumLost",
            "the volumes of c-1, c-2 are empty although their start tickets were used, and too "
            "few members are left to form the cluster. c-0 may hold data, so the operator does "
            "not start over by itself: to do so without that data, delete the claims and pods of "
            "c-0",
        )
        assert world.record.attempt == 1

    def test_another_attempt_starts_once_that_data_was_given_up(self) -> None:
        world = before(World(body(3)), "record data-c-1")
        world.restart_pod(1)
        world.restart_pod(2)
        drive(world)
        world.empty(0)

        assert drive(world) == Settled()
        assert world.record.attempt == 2

    def test_one_lost_member_of_three_does_not_stop_the_others_from_forming(self) -> None:
        world = before(World(body(3)), "push c-2 existing")
        assert world.record.latched

        world = before(World(body(3)), "record data-c-1")
        world.restart_pod(2)
        world.turn()

        assert labels([decide(world.observe())]) == ["record data-c-1"]

    def test_a_pod_that_does_not_wait_in_start_forbids_another_attempt(self) -> None:
        world = before(World(body(3)), "record data-c-0")
        for ordinal in range(3):
            world.restart_pod(ordinal)
        world.stuck = {2}

        drive(world)

        assert world.record.attempt == 1

    def test_a_pod_that_is_being_deleted_forbids_another_attempt(self) -> None:
        world = before(World(body(3)), "record data-c-0")
        for ordinal in range(3):
            world.restart_pod(ordinal)
        world.turn()
        assert labels([decide(world.observe())]) == ["ledger 0"]
        world.pods[2].deleting = True

        assert not is_write(decide(world.observe()))

    @pytest.mark.parametrize("wrong", ["unreadable", "foreign"])
    def test_a_volume_that_is_not_known_to_be_empty_forbids_another_attempt(
        self, wrong: str
    ) -> None:
        world = before(World(body(3)), "record data-c-0")
        for ordinal in range(3):
            world.restart_pod(ordinal)
        if wrong == "unreadable":
            world.claims[2].unreadable = "I/O error"
        else:
            world.claims[2].data = Data(OLD, "c-2", 7, 8)

        drive(world)

        assert world.record.attempt == 1

    def test_an_answering_etcd_forbids_another_attempt(self) -> None:
        world = before(World(body(1)), "record data-c-0")
        world.restart_pod(0)
        world.turn()
        seen = world.observe()
        view = EtcdView(world.record.cluster_id, ())
        record = replace(world.record, latched=False)
        assert labels([decide(seen)]) == ["ledger 0"]

        step = decide(replace(seen, etcd=view))

        assert isinstance(step, WriteBootstrap)
        assert step.record == records.latch(record)

    def test_an_answering_etcd_forbids_an_attempt_that_was_possible_before(self) -> None:
        world = before(World(body(1)), "record data-c-0")
        world.restart_pod(0)
        world.turn()
        view = EtcdView(world.record.cluster_id, ())

        assert attempts.another_attempt(world.observe()) is not None
        assert attempts.another_attempt(replace(world.observe(), etcd=view)) is None

    @pytest.mark.parametrize(("edited", "expected"), [(1, 3), (5, 5)])
    def test_a_size_that_is_edited_meanwhile_only_adds_members(
        self, edited: int, expected: int
    ) -> None:
        """Replicas are never lowered. A pod without a member in the record could never start."""
        world = before(World(body(3)), "record data-c-0")
        world.edit(size=edited)
        for ordinal in range(3):
            world.restart_pod(ordinal)

        rest = drive(world)

        assert len(world.record.members) == expected
        assert rest == Settled()
        assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == edited


class TestI5ReplicasAreNotLowered:
    def replicas(self, world: World) -> int:
        return world.objects["StatefulSet", "c"]["spec"]["replicas"]

    @pytest.mark.parametrize("size", [1, 2])
    def test_they_follow_the_member_list_one_by_one(self, size: int) -> None:
        world = formed(3)
        world.edit(size=size)
        highest: list[tuple[int, int]] = []

        def note(_: Step) -> None:
            seats = [rules.seat_of(one) for one in world.etcd.members.values()]
            highest.append((self.replicas(world), max(seats) + 1))

        assert drive(world, each=note) == Settled()
        assert all(replicas >= least for replicas, least in highest)
        assert self.replicas(world) == size

    @pytest.mark.parametrize("size", [1, 3])
    @pytest.mark.parametrize("with_pods", [False, True])
    def test_a_recreated_stateful_set_has_as_many_as_before(
        self, size: int, *, with_pods: bool
    ) -> None:
        world = formed(3)
        world.delete_stateful_set(with_pods=with_pods)
        world.edit(size=size)

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.manifest["spec"]["replicas"] == 3

    @pytest.mark.parametrize("with_pods", [False, True])
    def test_a_size_edited_while_the_stateful_set_is_missing_is_applied_afterwards(
        self, *, with_pods: bool
    ) -> None:
        world = formed(3)
        world.delete_stateful_set(with_pods=with_pods)
        world.edit(size=1)

        assert drive(world) == Settled()
        assert self.replicas(world) == 1

    def test_they_are_not_raised_for_growth_without_a_member_list(self) -> None:
        world = formed(3)
        world.cut_off = True
        world.edit(size=5)

        drive(world)

        assert self.replicas(world) == 3

    def test_scaled_down_by_hand_is_put_back_at_once(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 1

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.reason == "StatefulSet c differs at spec.replicas"
        assert step.manifest["spec"]["replicas"] == 3

    def test_a_first_ordinal_that_somebody_set_stopped_the_pod_of_the_first_member(self) -> None:
        """For ever: it is no field of the manifest, so it passed for an addition."""
        world = formed(3)
        world.alter("StatefulSet", "c")["spec"]["ordinals"] = {"start": 1}

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.reason == "StatefulSet c differs at spec.ordinals.start"
        assert drive(world) == Settled()
        assert world.objects["StatefulSet", "c"]["spec"]["ordinals"] == {"start": 0}

    def test_a_manual_scale_down_stayed_while_another_minor_was_requested(self) -> None:
        """The version change waited for the very member that was stopped."""
        world = formed(3)
        world.edit(version="3.6.16")
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 2
        for _ in range(3):
            world.turn()
        assert sorted(world.pods) == [0, 1]

        drive(world)

        assert sorted(world.pods) == [0, 1, 2]

    def test_an_edit_waited_for_a_default_version_that_nobody_had_requested(self) -> None:
        """The cluster was created by an older operator, and its members are silent for a moment."""
        world = formed(3, version="3.7.2")
        del world.body["spec"]["version"]
        world.edit(pod={"labels": {"a": "b"}})
        world.cut_off = True

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.kind == "StatefulSet"

    def test_the_member_list_of_another_cluster_is_ignored(self) -> None:
        """For example of a cluster that answers at a reused address."""
        seen = formed(3).observe()
        assert seen.etcd is not None
        other = replace(seen.etcd, cluster_id=seen.etcd.cluster_id + 1, members=())
        to_one = replace(seen.cluster, size=1)

        assert replicas.wanted(replace(seen, cluster=to_one)) == 3
        assert replicas.wanted(replace(seen, cluster=to_one, etcd=other)) == 3

    def test_they_stay_without_a_member_list_and_a_record(self) -> None:
        seen = replace(formed(3).observe(), secret=None, etcd=None)
        scaled = replace(seen, stateful_set={"spec": {"replicas": 5}})

        assert (replicas.wanted(seen), replicas.wanted(scaled)) == (3, 5)

    def test_a_manual_scale_up_is_put_back_with_a_member_list(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 50

        assert drive(world) == Settled()
        assert self.replicas(world) == 3

    def test_a_manual_scale_up_stays_without_a_member_list(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5
        world.cut_off = True

        drive(world)

        assert self.replicas(world) == 5

    def test_ordinals_that_no_member_can_have_kept_the_operator_busy_without_a_member_list(
        self,
    ) -> None:
        """Each pass went through all of them, so whoever may scale a StatefulSet could use up the
        memory of an operator that serves other namespaces too."""
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 10**6
        world.cut_off = True
        seen = world.observe()

        assert len(stalled.missing(replace(seen, pods=()))) == naming.MAX_SIZE
        drive(world)

        assert self.replicas(world) == naming.MAX_SIZE

    def test_a_list_of_another_cluster_lowers_nothing(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5
        stranger = EtcdView(77, (Member(1, "c-0", ("http://x:2380",), learner=False),))

        step = decide(replace(world.observe(), etcd=stranger))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    def test_a_member_beyond_the_size_keeps_its_pod_while_it_is_listed(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 5
        listed = world.members[world.record.cluster_id]
        listed[99] = Member(99, "c-4", ("http://c-4.c.ns.svc:2380",), learner=False)

        assert drive(world) == Settled()

        assert labels(world.history)[-4:] == [
            "remove c-4",
            "size 3",
            "StatefulSet c",
            "PodDisruptionBudget c",
        ]
        assert self.replicas(world) == 3

    def test_a_claim_with_a_member_keeps_its_pod_without_a_member_list(self) -> None:
        """The StatefulSet is gone, and its replacement must not have too few replicas."""
        world = formed(3)
        world.cut_off = True
        world.delete_stateful_set()
        seen = world.observe()
        record = MemberRecord(UID, "v-4", 5, world.record.cluster_id)
        claim = replace(seen.claims[0], ordinal=4, name="data-c-4", uid="v-4", record=record)

        step = decide(replace(seen, claims=(*seen.claims, claim)))

        assert isinstance(step, ApplyChild)
        assert step.manifest["spec"]["replicas"] == 5

    def test_a_lost_secret_does_not_lose_the_number_of_members(self) -> None:
        """Then the StatefulSet is lost too, and the claims of the highest ordinals."""
        world = formed(5)
        world.lose_secret()
        world.cut_off = True
        drive(world)
        del world.claims[4], world.claims[3]
        world.delete_stateful_set(with_pods=True)

        drive(world)

        assert self.replicas(world) == 5

    def test_a_manually_scaled_number_is_not_taken_for_the_number_of_members(self) -> None:
        world = formed(3)
        world.objects["StatefulSet", "c"]["spec"]["replicas"] = 1000
        world.lose_secret()

        drive(world)

        assert world.record.size <= 7

    def test_a_step_from_an_old_view_conflicts(self) -> None:
        world = formed(3)
        world.alter("StatefulSet", "c")["spec"]["replicas"] = 1
        step = decide(world.observe())
        assert isinstance(step, ApplyChild)
        world.alter("StatefulSet", "c")["spec"]["replicas"] = 3

        with pytest.raises(Conflict, match="resourceVersion"):
            world.apply(step)

    @pytest.mark.parametrize(
        "name", ["c-7", "c-50", "c-999999999", "c-" + "9" * 5000, "d-4", "c-04"]
    )
    def test_a_member_with_an_absurd_name_creates_no_pods(self, name: str) -> None:
        world = formed(3)
        listed = world.members[world.record.cluster_id]
        listed[99] = Member(99, name, ("http://x:2380",), learner=False)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "UnknownMember"
        assert "0000000000000063 at http://x:2380" in rest.message
        assert self.replicas(world) == 3
        assert len(listed) == 4


class TestI6NoClaimIsDeletedUnasked:
    def test_without_discard_no_claim_is_deleted_in_any_state(self) -> None:
        world = formed(3)
        drive(world)
        world.lose_secret()
        world.delete_stateful_set(with_pods=True)
        drive(world)

        assert not [step for step in world.history if isinstance(step, DeleteClaim)]

    @pytest.mark.parametrize("key", [naming.CLUSTER_UID, naming.CLAIM_UID])
    def test_a_record_with_an_empty_uid_does_not_match_an_unset_discard(self, key: str) -> None:
        """An unset `discard` reads as empty text."""
        world = formed(1).remake("new-uid")
        world.claims[0].annotations[key] = ""

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "ClaimRecordDamaged"
        assert 0 in world.claims

    def test_an_empty_uid_in_a_record_is_neither_discarded_nor_adopted(self) -> None:
        world = formed(1).remake("new-uid")
        seen = world.observe()
        record = replace(seen.claims[0].record, cluster_uid="")
        claim = replace(seen.claims[0], record=record)

        rest = decide(replace(seen, claims=(claim,)))

        assert isinstance(rest, Hold)
        assert rest.reason == "RetainedClaims"

    def test_a_running_cluster_keeps_its_claims_whatever_discard_says(self) -> None:
        world = formed(3)
        world.edit(retainedClaims={"discard": UID})

        assert drive(world) == Settled()

    def test_claims_of_another_uid_than_the_one_named_stay(self) -> None:
        world = formed(2).remake("new-uid", retainedClaims={"discard": OLD})

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RetainedClaims"
        assert len(world.claims) == 2


class TestI7TheClusterIdStays:
    def test_etcd_answering_with_another_id_is_split_brain(self) -> None:
        world = formed(3)
        seen = world.observe()
        other = EtcdView(0x77, seen.etcd.members)

        step = decide(replace(seen, etcd=other))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"
        assert "0000000000000077" in step.message
        assert f"{world.record.cluster_id:016x}" in step.message

    def test_a_member_in_another_cluster_is_split_brain(self) -> None:
        world = formed(3)
        seen = world.observe()
        stray = replace(seen.statuses[2], cluster_id=0x77)

        step = decide(replace(seen, statuses={**seen.statuses, 2: stray}))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"
        assert "0000000000000077 in pods c-2, but the record says" in step.message

    def test_split_brain_before_the_latch_latches_nothing(self) -> None:
        world = before(World(body(3)), "latch")
        seen = world.observe()

        step = decide(replace(seen, etcd=EtcdView(0x77, ())))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    def test_a_stray_member_before_the_latch_stops_the_tickets(self) -> None:
        world = before(World(body(3)), "push c-1 new")
        seen = world.observe()
        stray = MemberStatus(1, 0x77, "3.7.3", 1, 2, 8, learner=False, db_size=1)

        step = decide(replace(seen, statuses={0: stray}))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    def test_a_secret_written_for_another_cluster_holds(self) -> None:
        world = formed(3)
        world.secret = (world.secret[0], replace(world.record, cluster_uid=OLD))

        step = decide(world.observe())

        assert isinstance(step, Hold)
        assert step.reason == "SecretOfAnotherCluster"
        assert OLD in step.message


class TestI9TheVersionStays:
    def versions(self, world: World) -> set[str]:
        live = world.objects["StatefulSet", "c"]
        image = live["spec"]["template"]["spec"]["containers"][0]["image"]
        return {
            live["metadata"]["annotations"][naming.VERSION_ANNOTATION],
            image.partition(":v")[2],
        }

    def test_an_edit_that_skips_a_minor_is_held_and_changes_nothing(self) -> None:
        world = formed(3)
        world.history.clear()
        world.edit(version="3.5.33")

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "VersionJump"
        assert world.history == []

    @pytest.mark.parametrize("with_pods", [False, True])
    def test_a_recreated_stateful_set_runs_the_same_version(self, *, with_pods: bool) -> None:
        """If somebody deletes it after an edit, it must not come back with a silent downgrade, or
        past the gates."""
        world = formed(3, version="3.5.33")
        world.edit(version="3.7.3")
        world.delete_stateful_set(with_pods=with_pods)

        drive(world)

        assert self.versions(world) == {"3.5.33"}

    @pytest.mark.parametrize("noted", ["3.5.33", "", "nonsense", None])
    def test_an_altered_version_annotation_is_put_back(self, noted: str | None) -> None:
        world = formed(3)
        notes = world.objects["StatefulSet", "c"]["metadata"]["annotations"]
        notes[naming.VERSION_ANNOTATION] = noted
        if noted is None:
            notes.clear()

        step = decide(world.observe())

        assert isinstance(step, ApplyChild)
        assert step.manifest["metadata"]["annotations"][naming.VERSION_ANNOTATION] == "3.7.3"
        assert drive(world) == Settled()

    def test_a_lost_secret_does_not_lose_the_version(self) -> None:
        world = formed(3, version="3.5.33")
        world.edit(version="3.7.3")
        world.lose_secret()

        drive(world)

        assert self.versions(world) == {"3.5.33"}
        assert world.record.version == "3.5.33"

    @pytest.mark.parametrize("wanted", ["3.7.3", "3.5.33"])
    def test_another_attempt_gets_the_version_in_the_spec(self, wanted: str) -> None:
        """No volume has data, so there is no version to keep, and it may have been the mistake."""
        world = before(World(body(3, version="3.6.14")), "record data-c-0")
        world.edit(version=wanted)
        for ordinal in range(3):
            world.restart_pod(ordinal)

        before(world, "latch")

        assert world.record.attempt == 2
        assert (world.record.version, world.record.oldest) == (wanted, wanted)
        assert self.versions(world) == {wanted}

    def test_a_record_without_a_version_takes_it_from_the_stateful_set(self) -> None:
        world = formed(3, version="3.5.33")
        world.secret = (world.secret[0], replace(world.record, version=""))
        world.edit(version="3.7.3")

        drive(world)

        assert self.versions(world) == {"3.5.33"}


class TestI10OthersObjectsAreLeftAlone:
    @pytest.mark.parametrize(
        ("kind", "name"), [("Secret", "c-start"), ("Service", "c"), ("StatefulSet", "c")]
    )
    def test_a_taken_name_holds_before_anything_is_written(self, kind: str, name: str) -> None:
        world = World(body(3))
        world.foreign = (Foreign(kind, name, "Deployment x"),)

        rest = drive(world)

        assert rest == Hold(
            "NameTaken",
            f"{kind} {name} belongs to Deployment x. It is left alone; delete it, or recreate it "
            "under another name, or choose another name for the cluster",
        )
        assert world.history == []

    @pytest.mark.parametrize(
        ("kind", "name"), [("Secret", "c-start"), ("Service", "c"), ("StatefulSet", "c")]
    )
    def test_an_object_that_is_about_to_be_deleted_is_waited_for(
        self, kind: str, name: str
    ) -> None:
        world = World(body(3))
        world.foreign = (Foreign(kind, name, "the deleted cluster", passing=True),)

        rest = drive(world)

        assert rest == Wait(f"{kind} {name} of the deleted cluster to be gone")
        world.foreign = tuple(replace(one, kept_by="lb/cleanup") for one in world.foreign)
        assert decide(world.observe()) == Wait(
            f"{kind} {name} of the deleted cluster to be gone (its finalizer lb/cleanup keeps it: "
            "if what set that is gone, remove it from metadata.finalizers)"
        ), "nothing said what keeps it"
        assert world.history == []

        world.foreign = ()
        assert drive(world) == Settled()

    def test_a_taken_client_service_does_not_keep_the_members_from_forming(self) -> None:
        world = World(body(3))
        world.foreign = (Foreign("Service", "c-client", "EtcdCluster c-client"),)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "NameTaken"
        assert "Service c-client" in rest.message
        assert world.record.latched
        assert "Service c-client" not in labels(world.history)

    def test_a_client_service_that_is_about_to_be_deleted_is_waited_for(self) -> None:
        world = World(body(3))
        world.foreign = (Foreign("Service", "c-client", "x", passing=True),)

        assert drive(world) == Wait("Service c-client of x to be gone")

        world.foreign = ()
        assert drive(world) == Settled()

    def test_an_object_that_will_be_deleted_is_reported_before_one_that_stays(self) -> None:
        world = World(body(3))
        world.foreign = (
            Foreign("Service", "c", "x"),
            Foreign("StatefulSet", "c", "y", passing=True),
        )

        assert isinstance(decide(world.observe()), Wait)


class TestI11NothingStartsEmptyByItself:
    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_a_lost_secret_of_a_running_cluster_is_recreated_as_latched(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        before_it = world.record
        world.lose_secret()

        assert drive(world) == Settled()

        assert world.record.latched
        assert world.record.cluster_id == before_it.cluster_id
        assert labels(world.history)[-1] == "CreateSecret"

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_with_the_secret_and_every_volume_lost_the_status_remembers(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        world.body["status"] = {"clusterID": f"{world.record.cluster_id:016x}"}
        world.lose_secret()
        world.claims.clear()
        world.pods.clear()

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert len(pushes(world)) == 3

    def test_with_secret_and_status_lost_and_every_volume_emptied_the_claims_remember(self) -> None:
        world = formed(3)
        world.lose_secret()
        for claim in world.claims.values():
            claim.data = None
        for ordinal in range(3):
            world.restart_pod(ordinal)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert "restore a backup" in rest.message
        assert {push.ticket.state for push in pushes(world)} == {"new", "existing"}
        assert len(pushes(world)) == 3

    def test_a_secret_lost_while_tickets_were_out_leads_to_no_new_ticket(self) -> None:
        world = before(World(body(3)), "push c-1 new")
        world.lose_secret()

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert len(pushes(world)) == 1

    def test_all_members_lost_at_once_is_held(self) -> None:
        world = formed(3)
        for ordinal in range(3):
            world.empty(ordinal)

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "QuorumLost"
        assert len(pushes(world)) == 3

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_with_every_record_lost_no_cluster_starts_beside_a_running_etcd(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        world.lose_secret()
        world.cut_off = True
        for holder in (*world.claims.values(), *world.pods.values()):
            holder.annotations = {}

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RecordsLost"
        assert "pod c-0" in rest.message
        assert world.secret is None

    def test_the_suggested_way_out_of_lost_records_works(self) -> None:
        world = formed(3)
        cluster_id = world.record.cluster_id
        world.lose_secret()
        world.cut_off = True
        for claim in world.claims.values():
            claim.annotations = {}
        drive(world)
        world.body["status"] = {"clusterID": f"{cluster_id:016x}"}
        world.cut_off = False

        assert drive(world) == Settled()
        assert world.record.cluster_id == cluster_id

    def test_with_every_record_lost_etcd_is_not_asked(self) -> None:
        """It would answer, but without a record nothing says which cluster it belongs to."""
        world = formed(3)
        world.lose_secret()
        for claim in world.claims.values():
            claim.annotations = {}

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "RecordsLost"

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_with_the_secret_lost_and_etcd_silent_the_records_on_claims_or_pods_remember(
        self, storage: dict
    ) -> None:
        world = formed(3, **storage)
        cluster_id = world.record.cluster_id
        world.lose_secret()
        world.cut_off = True

        step = decide(world.observe())

        assert isinstance(step, CreateSecret)
        assert step.record.latched
        assert step.record.cluster_id == cluster_id

    def test_claims_of_two_etcd_clusters_are_split_brain(self) -> None:
        world = formed(3)
        world.lose_secret()
        world.claims[2].annotations[naming.CLUSTER_ID] = "00000000000000aa"

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "SplitBrain"
        assert "claim data-c-2 says 00000000000000aa" in rest.message
        assert world.secret is None

    def test_the_suggested_way_out_of_two_etcd_clusters_works(self) -> None:
        """The message named two IDs, but neither whose they were nor what to do."""
        world = formed(3)
        formed_as = f"{world.record.cluster_id:016x}"
        world.lose_secret()
        world.claims[2].annotations[naming.CLUSTER_ID] = "00000000000000aa"
        rest = drive(world)
        assert isinstance(rest, Hold)
        assert f"claim data-c-0 says {formed_as}" in rest.message
        assert "status.clusterID" in rest.message

        world.body["status"] = {"clusterID": formed_as}
        drive(world)

        assert f"{world.record.cluster_id:016x}" == formed_as

    def test_a_claim_of_an_earlier_attempt_is_no_split_brain_if_the_status_tells(
        self,
    ) -> None:
        """c-1 was recorded by an attempt, and had no ticket yet from the next one, which formed."""
        world = formed(3)
        formed_as = world.record.cluster_id
        world.body["status"] = {"clusterID": f"{formed_as:016x}"}
        world.claims[1].annotations[naming.CLUSTER_ID] = "00000000000000aa"
        world.lose_secret()

        drive(world)

        assert world.record.cluster_id == formed_as

    def test_the_status_does_not_outweigh_what_etcd_answers(self) -> None:
        world = formed(3)
        world.body["status"] = {"clusterID": f"{world.record.cluster_id:016x}"}
        world.lose_secret()
        seen = world.observe()

        step = decide(replace(seen, etcd=EtcdView(0x77, ())))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_a_damaged_secret_is_held(self, storage: dict) -> None:
        world = formed(3, **storage)
        world.damage = "its data has no 'bootstrap' in base64"

        rest = drive(world)

        assert isinstance(rest, Hold)
        assert rest.reason == "SecretDamaged"
        assert "no 'bootstrap'" in rest.message
        assert "delete it" in rest.message

    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_deleting_a_newer_operators_record_is_not_suggested(self, storage: dict) -> None:
        seen = formed(3, **storage).observe()
        newer = replace(seen.secret, bootstrap=None, damage="it is of format 2", newer=True)

        rest = decide(replace(seen, secret=newer))

        assert isinstance(rest, Hold)
        assert rest.reason == "SecretDamaged"
        assert "it is of format 2. Install the newer operator again" in rest.message
        assert "delete it" not in rest.message

    def test_a_secret_without_a_record_is_held(self) -> None:
        world = formed(1)
        seen = world.observe()

        rest = decide(replace(seen, secret=replace(seen.secret, bootstrap=None)))

        assert isinstance(rest, Hold)
        assert "no record" in rest.message


class TestPaused:
    @pytest.mark.parametrize("storage", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
    def test_nothing_is_written_from_any_point_on(self, storage: dict) -> None:
        world = World(body(3, **storage))
        for _ in range(40):
            seen = world.observe()
            paused = replace(seen, cluster=replace(seen.cluster, paused=True))
            held = decide(paused)
            assert held == Hold(
                "Paused", "spec.paused is true: nothing is written until it is false"
            )
            step = decide(seen)
            world.apply(step) if is_write(step) else world.turn()

    def test_damage_is_repaired_after_the_pause(self) -> None:
        world = formed(3)
        world.edit(paused=True)
        del world.objects["Service", "c-client"]
        assert decide(world.observe()).reason == "Paused"

        world.edit(paused=False)

        assert labels([decide(world.observe())]) == ["Service c-client"]


class TestDeleting:
    def test_nothing_is_recreated_while_the_cluster_is_being_deleted(self) -> None:
        world = formed(3)
        world.body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.delete_stateful_set(with_pods=True)

        assert decide(world.observe()) == Wait("the cluster's objects to be deleted")


class TestOneWriteAtATime:
    def test_a_step_is_one_write_and_children_are_created_one_by_one(self) -> None:
        world = formed(3)
        world.objects.clear()
        done: list[Step] = []
        while is_write(step := decide(world.observe())):
            world.apply(step)
            done.append(step)

        first = ["Service c", "StatefulSet c"]
        assert labels(done) == [*first, "Service c-client", "PodDisruptionBudget c"]

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            ("Service", "c"),
            ("StatefulSet", "c"),
            ("Service", "c-client"),
            ("PodDisruptionBudget", "c"),
        ],
    )
    def test_a_child_that_is_being_deleted_is_waited_for(self, kind: str, name: str) -> None:
        world = formed(3)
        world.objects[kind, name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

        step = decide(world.observe())

        assert step == Wait(
            f"{kind} {name}, which is being deleted, to be gone; then it is recreated"
        )

    def test_no_client_service_before_the_cluster_has_formed(self) -> None:
        world = World(body(3))
        world.cut_off = True

        drive(world)

        assert ("Service", "c-client") not in world.objects

    def test_a_settled_cluster_is_not_written_to(self) -> None:
        world = formed(3)
        world.history.clear()

        assert drive(world, idle=40) == Settled()
        assert world.history == []


def test_the_record_can_be_used_only_once_there_is_a_secret() -> None:
    seen = World(body(1)).observe()

    assert isinstance(decide(seen), CreateSecret)
    with pytest.raises(LookupError, match="before the Secret"):
        bootstrap.latch(seen)


def test_a_cluster_whose_pods_are_not_seen_is_not_settled() -> None:
    step = decide(replace(formed(3).observe(), pods=()))

    assert step == Wait("pod c-0 to be created; the Events of StatefulSet c say what keeps it")


def test_a_pod_no_longer_stopped_once_its_stateful_set_was_deleted_without_its_pods() -> None:
    """Nothing takes a deletion back, but the tiny world did."""
    world = formed(3)
    world.restart_pod(1)

    world.delete_stateful_set()

    assert [pod.deleting for pod in world.pods.values()] == [False, True, False]
