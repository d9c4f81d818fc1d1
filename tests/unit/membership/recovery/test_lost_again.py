"""Recoveries that are lost one after the other, or together with the StatefulSet: no cluster serves
beside another, and what has been written since is not given up without a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from inplace_world import InPlaceWorld, running
from recovery_world import RecoveryWorld, lost
from worlds import drive

from etcd_stateful.membership import put_off
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import RecordMember, Settled, WriteBootstrap
from etcd_stateful.observed.put_off import PutOff
from unit.membership.recovery.driving import drive_until, hold
from unit.membership.recovery.test_secret_lost import serving_again


def lose_both(world: RecoveryWorld) -> None:
    world.lose_secret()
    world.delete_stateful_set()


def recover_in_vain(
    world: RecoveryWorld,
    survivor: int,
    lose: Callable[[RecoveryWorld], None] = RecoveryWorld.lose_secret,
) -> None:
    """The records are lost once the Job has raised the epoch of the survivor's volume. The node of
    that is away from then on, so nothing says which epoch it is of."""
    RecoveryWorld.ask(world, survivor)
    drive_until(world, RecordMember)
    assert world.epoch_on(survivor) == world.record.epoch
    world.take_back()
    world.job = None
    world.stuck |= {survivor}
    lose(world)
    drive(world, idle=3)
    assert world.record.epoch == 1


def test_a_restored_cluster_served_beside_the_survivor_of_a_lost_recovery() -> None:
    """The restore in place began the epoch of the survivor's volume. When its node came back before
    the restored member served, `start` let etcd run (I11)."""
    world = running(3)
    world.wipe(0, 2)
    drive(world, idle=3)
    recover_in_vain(world, 1, lose_both)
    InPlaceWorld.ask(world)
    drive_until(world, WriteBootstrap)
    while not world.record.retired:
        world.apply(drive_until(world, WriteBootstrap))
    world.stuck = {3}
    drive(world, idle=3)
    assert world.etcd is not None
    assert world.serving() == set()
    world.stuck = set()

    assert drive(world) == Settled()


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (RecoveryWorld.lose_secret, RecoveryWorld.lose_secret),
        (RecoveryWorld.lose_secret, lose_both),
        (lose_both, RecoveryWorld.lose_secret),
    ],
)
def test_a_recovery_began_the_epoch_of_one_of_two_that_were_lost(
    first: Callable[[RecoveryWorld], None], last: Callable[[RecoveryWorld], None]
) -> None:
    """Claims are recorded only after their volumes, so only the StatefulSet told of it."""
    world = lost(7, gone=(0, 2, 4, 6))
    recover_in_vain(world, 1, first)
    recover_in_vain(world, 3, last)
    ended = {world.epoch_on(1), world.epoch_on(3)}
    assert len(ended) == 2
    world.ask(5)

    drive(world, idle=3)

    assert world.epoch_on(5) > max(ended)
    world.stuck = set()
    assert drive(world) == Settled()


class TestALateRecordOfTheSurvivor:
    """It arrived after the record was rebuilt, and members of the epoch before serve again."""

    def recorded_late(self) -> RecoveryWorld:
        world, late = serving_again()
        world.apply(late)
        hold(drive(world), "ForeignData")
        return world

    @pytest.mark.parametrize("with_pods", [True, False])
    def test_gave_up_what_they_wrote_once_secret_and_stateful_set_were_lost(
        self, with_pods: bool
    ) -> None:
        """The epoch of the claim was the highest (I3)."""
        world = self.recorded_late()
        world.lose_secret()
        world.delete_stateful_set(with_pods=with_pods)

        hold(drive(world), "ForeignData", "A quorum answers: delete claim data-c-1")

        assert world.record.epoch == 1
        assert world.serving() == {0, 2}

    def test_gave_up_the_next_survivor_once_its_recovery_was_lost(self) -> None:
        """The StatefulSet was of that recovery's epoch, and said nothing of the one before. So the
        first survivor served, and the message was to delete the data that the user had chosen."""
        world = self.recorded_late()
        world.stuck = {0}
        world.restart_pod(0)
        drive(world)
        world.ask(2)
        drive_until(world, RecordMember)
        world.take_back()
        world.lose_secret()
        world.stuck = set()

        words = "the survivor that you choose: c-0 (index 100), c-1 (does not answer), c-2 ("
        hold(drive(world), "ForeignData", words)

        assert (world.record.epoch, world.record.begun) == (1, 3)
        world.ask(2)
        assert drive(world) == Settled()

    def test_is_left_if_the_api_server_refuses_to_take_it_off(self) -> None:
        world, late = serving_again()
        world.apply(late)
        step = drive_until(world, RecordMember)
        failed = {put_off.name_of(step): PutOff(put_off.made_by(step), "denied by a webhook")}

        seen = world.observe()

        assert decide(seen) == step
        hold(decide(replace(seen, put_off=failed)), "ForeignData")

    def test_is_kept_if_others_have_joined_the_survivor(self) -> None:
        """Here the record was put back, and the StatefulSet lost. The survivor's claim would be of
        an epoch that has ended."""
        world = lost()
        before = world.record
        world.ask(1)
        assert drive(world) == Settled()
        world.take_back()
        world._store(replace(before, begun=2))
        world.delete_stateful_set()
        world.pods.clear()
        world.stuck = {0, 2}
        drive(world, idle=3)
        assert world.record.epoch == 1
        world.stuck = set()

        assert drive(world) == Settled()
        held = [world.member_record(one) for one in range(3)]
        assert {one.epoch for one in held if one} == {world.record.epoch} == {2}
