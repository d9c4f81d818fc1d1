"""The Secret with the records is lost in the middle of a recovery, and a write that was decided
before that arrives once they are rebuilt. Found by the model: `recovery, a late step`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recovery_world import RecoveryWorld, formed, lost
from worlds import drive, is_write

from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateSecret,
    Hold,
    RecordMember,
    Settled,
    Step,
)


def go_on_until(world: RecoveryWorld, kind: type[Step]) -> Step:
    """Goes on until the operator decides on a step of this kind, which is not carried out yet."""
    for _ in range(30):
        step = decide(world.observe())
        if isinstance(step, kind):
            return step
        world.apply(step) if is_write(step) else world.turn()
    raise AssertionError(f"no {kind.__name__}")


def rebuild(world: RecoveryWorld) -> None:
    world.lose_secret()
    world.apply(go_on_until(world, CreateSecret))


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
    late = go_on_until(world, RecordMember)
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
    while world.record.epoch == 1:
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()
    late = go_on_until(world, ApplyChild)
    rebuild(world)
    world.apply(late)
    world.take_back()

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "QuorumLost"
    assert (world.record.epoch, world.record.begun) == (1, 2)
    world.ask(1)
    assert drive(world) == Settled()
    assert world.record.epoch == 3


def test_one_that_has_recorded_its_survivor_has_done_more_than_begin() -> None:
    """Here the Secret was put back. Members that the user gave up would serve again."""
    world = lost()
    before = world.record
    world.ask(1)
    world.apply(go_on_until(world, RecordMember))
    world._store(before)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "SplitBrain"
    assert world.record == before


def test_a_late_record_of_the_survivor_ends_the_recovery() -> None:
    world = lost()
    world.ask(1)
    late = go_on_until(world, RecordMember)
    rebuild(world)
    world.apply(late)

    assert drive(world) == Settled()

    assert world.record.epoch == 2
    assert not world.record.survivor


def test_a_late_record_of_the_survivor_gave_up_a_quorum_that_served_again() -> None:
    """What that had written since would have been lost (I3)."""
    world, late = serving_again()
    world.apply(late)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "ForeignData"
    assert world.record.epoch == 1
    assert world.serving() == {0, 2}


@pytest.mark.parametrize("how", ["one is away", "one crashes", "no leader"])
def test_fewer_than_a_quorum_of_the_epoch_before_give_way(how: str) -> None:
    """Nothing else would lead on: the volume of the later epoch makes no member of theirs."""
    world, late = serving_again()
    world.apply(late)
    seen = world.observe()
    assert survivor.serves_before(seen, 2)

    pods, statuses = seen.pods, seen.statuses
    match how:
        case "one is away":
            pods = pods[1:]
        case "one crashes":
            pods = (replace(pods[0], trouble="crashes", crashing=True), *pods[1:])
        case "no leader":
            statuses = {at: replace(one, leader_id=0) for at, one in statuses.items()}

    assert not survivor.serves_before(replace(seen, pods=pods, statuses=statuses), 2)
