"""The safety rules of starting: one ticket for one member, `new` only before the latch, and another
attempt only if nothing was ever stored (I3, I4).

`worlds.World.apply` raises RuleBroken for a write that breaks a rule. These tests create the
states, and check which step is chosen instead.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import with_pod
from worlds import OLD, Data, World, body, drive, formed, is_write, labels

from etcd_stateful import naming
from etcd_stateful.membership.beginning import attempts, tickets
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, PushTicket, Settled, WriteBootstrap
from etcd_stateful.observed.members import EtcdView
from etcd_stateful.records import bootstrap as records
from unit.membership.rules.wide_world import EMPTY_DIR, before, pushes


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
