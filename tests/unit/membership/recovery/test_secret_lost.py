"""The Secret with the records is lost in the middle of a recovery, and a write that was decided
before that arrives once they are rebuilt. Found by the model: `recovery, a late step`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from recovery_world import RecoveryWorld, formed, lost
from worlds import drive, is_write

from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    RecordMember,
    Settled,
    Step,
    WriteBootstrap,
)
from etcd_stateful.observed.pods import StartAnswer
from etcd_stateful.start.ticket import Finding
from unit.membership.recovery.driving import drive_until, first_id, hold


def rebuild(world: RecoveryWorld) -> None:
    world.lose_secret()
    world.apply(drive_until(world, CreateSecret))


def serving_again() -> tuple[RecoveryWorld, Step]:
    """Two of three pods could not be made for a while, and the third one's volume was made a
    cluster of one. The two come back, the recovery is taken back, and they serve. The record of
    the third one's claim is yet to be written."""
    world = formed()
    world.stuck = {0, 2}
    for ordinal in world.stuck:
        world.restart_pod(ordinal)
    drive(world, idle=3)
    world.ask(1)
    late = drive_until(world, RecordMember)
    world.stuck = set()
    world.take_back()
    rebuild(world)
    drive(world)
    assert world.serving() == {0, 2}
    return world, late


def test_a_late_write_of_the_stateful_set_held_the_cluster_up() -> None:
    """Nothing but that write knew of the epoch. The user had to delete the Secret."""
    world = lost()
    world.ask(1)
    world.apply(drive_until(world, WriteBootstrap))
    late = drive_until(world, ApplyChild)
    rebuild(world)
    world.apply(late)
    world.take_back()

    hold(drive(world), "QuorumLost")

    assert (world.record.epoch, world.record.begun) == (1, 2)
    world.ask(1)
    assert drive(world) == Settled()
    assert world.record.epoch == 3


def test_one_that_has_recorded_its_survivor_has_done_more_than_begin() -> None:
    """Here the Secret was put back. Members that the user gave up would serve again."""
    world = lost()
    before = world.record
    world.ask(1)
    world.apply(drive_until(world, RecordMember))
    world._store(before)

    hold(drive(world), "SplitBrain")

    assert world.record == before


def test_a_late_record_of_the_survivor_is_no_dead_end() -> None:
    """The user's word stands, so the recovery is carried out once more."""
    world = lost()
    world.ask(1)
    late = drive_until(world, RecordMember)
    rebuild(world)
    world.apply(late)

    assert drive(world) == Settled()

    assert world.record.epoch == 3
    assert not world.record.survivor


def away_first(world: RecoveryWorld, late: Step) -> None:
    world.stuck = {0}
    world.restart_pod(0)
    drive(world)
    world.apply(late)


def away_later(world: RecoveryWorld, late: Step) -> None:
    world.apply(late)
    drive(world)
    world.stuck = {0}
    world.restart_pod(0)


def lost_again(world: RecoveryWorld, late: Step) -> None:
    away_later(world, late)
    drive(world)
    rebuild(world)


def unknown(world: RecoveryWorld, late: Step) -> None:
    """The StatefulSet was lost with the Secret, so nothing told that the epoch had begun."""
    world._store(replace(world.record, begun=0))
    world.delete_stateful_set()
    away_later(world, late)


DISTURBED = (RecoveryWorld.apply, away_first, away_later, lost_again, unknown)


@pytest.mark.parametrize("disturb", DISTURBED)
def test_a_late_record_of_the_survivor_gave_up_a_quorum_that_served_again(
    disturb: Callable[[RecoveryWorld, Step], None],
) -> None:
    """What that had written since would have been lost (I3), at the latest once one of its members
    was away for a moment."""
    world, late = serving_again()
    disturb(world, late)

    hold(drive(world), "ForeignData")

    assert (world.record.epoch, world.record.begun) == (1, 2)

    world.stuck = set()
    words = "A quorum answers: delete claim data-c-1 with its data"
    hold(drive(world), "ForeignData", words)

    assert world.serving() == {0, 2}

    world.empty(1)

    assert drive(world) == Settled()
    assert world.record.epoch == 1


def test_members_that_served_were_given_up_once_one_of_them_lost_its_volume() -> None:
    world, late = serving_again()
    world.apply(late)
    drive(world)
    world.wipe(0)
    world.claims[0].annotations = {}

    hold(drive(world), "ForeignData")

    assert world.record.epoch == 1


@pytest.mark.parametrize("chosen", [1, 2])
def test_the_data_that_was_written_since_could_not_be_chosen(chosen: int) -> None:
    """The claim of the later epoch stood in its way, and so did the volume."""
    world, late = serving_again()
    away_later(world, late)
    words = "the survivor that you choose: c-2 (index 100), c-0 (does not answer)"
    hold(drive(world), "ForeignData", words)

    world.ask(chosen)
    drive(world)
    world.stuck = set()

    assert drive(world) == Settled()
    assert world.record.epoch == 3


def test_an_epoch_that_has_served_ends_those_before() -> None:
    """Here the record was put back: the survivor's etcd runs, so its recovery was over."""
    world = lost()
    before = world.record
    world.ask(1)
    while world.record.survivor or world.record.epoch == 1 or not world.serving():
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    world._store(replace(before, begun=2))

    assert drive(world) == Settled()
    assert world.record.epoch == 2


def test_a_recovery_that_was_over_was_refused_and_then_offered_again() -> None:
    """The record was put back from before it, the StatefulSet was lost, and the survivor's pod
    could not be made. To remove spec.recovery, as the status said, changed nothing."""
    world = lost()
    before = world.record
    world.ask(1)
    world.apply(drive_until(world, RecordMember))
    world._store(before)
    world.delete_stateful_set()
    world.stuck = {1}
    hold(drive(world), "RecoveryRefused", "remove it, and delete Secret c-start")

    world.take_back()
    rebuild(world)
    world.stuck = set()

    assert drive(world) == Settled()
    assert world.record.epoch == 2


def test_nothing_was_offered_for_a_volume_that_the_job_was_working_on() -> None:
    """Its marker was set aside when the Secret was lost, so `start` found none. The recovery can be
    asked for again: its Job goes on where it was."""
    world = lost()
    world.ask(1)
    drive_until(world, RecordMember)
    world.epochs[world.claims[1].uid] = 0
    world.job = None
    world.take_back()
    rebuild(world)
    drive(world)
    seen = world.observe()
    own = {"member_id": first_id(world, 1), "cluster_id": world.record.cluster_id}
    finding = Finding("foreign-data", "there is no marker", **own)
    answered = replace(seen.pods[1], answer=StartAnswer("run", finding))

    rest = decide(replace(seen, pods=(seen.pods[0], answered, seen.pods[2])))

    hold(rest, "ForeignData", "epoch 1 and the survivor that you choose: c-1 (")
