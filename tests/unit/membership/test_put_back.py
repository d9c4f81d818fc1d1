"""The Secret with the records was put back from an old copy: from a backup, or by GitOps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from inplace_world import running
from recovery_world import formed, lost
from restore_world import born
from worlds import World, body, drive, is_write, labels

from etcd_stateful import identity, naming
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    CreateJob,
    CreateSecret,
    Hold,
    MemberRemove,
    PushTicket,
    Settled,
    WriteBootstrap,
)
from etcd_stateful.records.bootstrap import Bootstrap

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def settled(world: World) -> list[Bootstrap]:
    """Lets the cluster form, and returns the records that it had before, oldest first."""
    assert drive(world, idle=2) == Settled()
    return [one for one in _records(world) if not one.latched]


def _records(world: World) -> list[Bootstrap]:
    written = [one for one in world.history if isinstance(one, CreateSecret | WriteBootstrap)]
    return [one.record for one in written]


def _go_on(world: World) -> None:
    step = decide(world.observe())
    if is_write(step):
        world.apply(step)
    else:
        world.turn()


def put_back(world: World, record: Bootstrap, *, status: bool = False) -> None:
    known = {"clusterID": identity.to_hex(world.record.cluster_id)} if status else {}
    world.body["status"] = known
    world.history.clear()
    world._store(record)


def stop_all_but(world: World, ordinal: int) -> None:
    """The others' pods do not come back for now."""
    world.stuck = set(world.pods) - {ordinal}
    for other in world.stuck:
        world.restart_pod(other)


def lose_data(world: World, ordinal: int) -> None:
    """The pod comes back on an empty volume."""
    if ordinal in world.claims:
        world.claims[ordinal].data = None
    world.restart_pod(ordinal)


@pytest.mark.parametrize("spec", [{}, EMPTY_DIR], ids=["claims", "emptyDir"])
def test_a_member_without_data_got_its_ticket_again(spec: dict[str, Any]) -> None:
    """With one of the others behind, it was a quorum that lacked acknowledged writes (I3)."""
    world = World(body(3, **spec))
    put_back(world, settled(world)[0])
    lose_data(world, 0)
    if not spec:  # with an emptyDir the others would lose their data too
        stop_all_but(world, 0)
        assert not isinstance(drive(world, idle=5), Settled)
        world.stuck = set()

    assert drive(world) == Settled()

    assert len(world.etcd.removed) == 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_cluster_whose_volumes_were_lost_began_empty_although_its_status_knew_it(
    size: int,
) -> None:
    """Nobody was asked (I11)."""
    world = World(body(size))
    put_back(world, settled(world)[0], status=True)
    for ordinal in range(size):
        lose_data(world, ordinal)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "QuorumLost"
    assert world.record.attempt == 1


def test_too_few_are_left_to_form_a_cluster_that_nothing_else_shows_to_have_formed() -> None:
    world = World(body(3))
    put_back(world, settled(world)[0])
    for only_of_formed in (("Service", "c-client"), ("PodDisruptionBudget", "c")):
        del world.objects[only_of_formed]
    for ordinal in (0, 1):
        lose_data(world, ordinal)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "QuorumLost"
    assert "c-2 may hold data" in rest.message


def test_a_member_that_did_not_answer_for_a_moment_was_removed() -> None:
    """Its data seemed to be another member's, as the ledger knew nothing of its ticket."""
    world = World(body(3))
    put_back(world, settled(world)[0])
    world.pods[1].silent = True

    drive(world)

    assert not [one for one in world.history if isinstance(one, MemberRemove)]


@pytest.mark.parametrize("survivor", ["", "c-1"], ids=["from before", "from during it"])
def test_after_a_recovery_no_member_could_start_again_or_all_were_stopped_once_more(
    survivor: str,
) -> None:
    """All had their data, and the way out that was told would have kept that of one alone."""
    world = lost()
    before = replace(world.record, survivor=survivor, epoch=2 if survivor else 1)
    world.ask(1)
    assert drive(world) == Settled()
    world.take_back()
    put_back(world, before)
    for ordinal in range(0 if survivor else 3):
        world.restart_pod(ordinal)

    assert drive(world) == Settled()

    assert world.record.epoch == 2
    assert not world.record.survivor
    assert labels(world.history)[0] != "StatefulSet c"


def test_a_recovery_was_carried_out_once_more_while_no_pod_told_that_it_was_over() -> None:
    """Nor did the StatefulSet, which was lost too. The members that had joined since would have
    been given up."""
    world = lost()
    before = world.record
    world.ask(1)
    assert drive(world) == Settled()
    put_back(world, before)
    world.delete_stateful_set(with_pods=True)
    world.turn()

    assert drive(world) == Settled()

    assert world.record.epoch == 2
    assert not [one for one in world.history if isinstance(one, CreateJob)]


@pytest.mark.parametrize("size", [1, 2])
def test_members_that_had_joined_since_got_no_pods_after_a_recovery_was_taken_back(
    size: int,
) -> None:
    """All pods were stopped for it, so neither the StatefulSet nor the record told how many there
    had been. With a record of one, the data of that one seemed to be all that there is (I5)."""
    world = formed(size)
    before = world.record
    world.edit(size=3)
    assert drive(world) == Settled()
    world.wipe(0, 2)
    drive(world, idle=3)
    world.ask(1)
    while world.observe().replicas:
        _go_on(world)
    put_back(world, before)
    world.take_back()

    drive(world)

    assert world.observe().replicas == 3


def test_an_edited_annotation_of_a_claim_ends_no_epoch() -> None:
    world = formed()
    claim = world.claims[1]
    claim.annotations = claim.annotations | {naming.EPOCH: "9"}

    assert drive(world) == Settled()

    assert world.record.epoch == 1


def test_a_cluster_that_was_restored_in_place_is_told_how_to_get_its_record_back() -> None:
    world = running(3)
    before = world.record
    world.ask()
    assert drive(world) == Settled()
    restored = world.record.cluster_id
    put_back(world, before, status=True)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "SplitBrain"
    assert "put back from an old copy, delete Secret c-start" in rest.message
    world.lose_secret()
    assert drive(world) == Settled()
    assert world.record.cluster_id == restored


@pytest.mark.parametrize("left", [("Service", "c-client"), ("PodDisruptionBudget", "c"), None])
def test_an_empty_cluster_began_when_all_volumes_and_the_status_were_lost_too(
    left: tuple[str, str] | None,
) -> None:
    """Objects that only a formed cluster has, or a claim of a later epoch, show that it had formed
    (I11)."""
    world = running(3)
    before = _records(world)[0]
    if left is None:
        world.ask()
        while not world.filled:
            _go_on(world)
    put_back(world, before)
    for kind in {("Service", "c-client"), ("PodDisruptionBudget", "c")} - {left}:
        del world.objects[kind]
    for ordinal in range(3):
        world.empty(ordinal)
    world.turn()
    world.restore = None

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert not [one for one in world.history if isinstance(one, PushTicket)]


def test_the_record_of_an_earlier_attempt_was_taken_for_that_of_the_one_that_formed() -> None:
    world = World(body(1))
    while world.secret is None:
        world.apply(decide(world.observe()))
    first = world.record
    world.edit(size=3)
    assert drive(world, idle=2) == Settled()
    formed_as = world.record.cluster_id
    assert first.cluster_id != formed_as
    put_back(world, first, status=True)
    world.cut_off = True

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert "put back from an old copy" in rest.message
    world.cut_off = False
    world.lose_secret()
    assert drive(world) == Settled()
    assert world.record.cluster_id == formed_as


@pytest.mark.parametrize("told_by", ["StatefulSet", "pods", "status"])
def test_a_restore_in_place_was_begun_again_on_the_volume_that_its_etcd_runs_on(
    told_by: str,
) -> None:
    """etcd did not answer for a moment, so nothing showed that it was over."""
    world = running(3)
    world.ask()
    while not world.filled:
        _go_on(world)
    during = replace(world.record, successor=world.order)
    assert drive(world) == Settled()
    restored = world.record.cluster_id
    put_back(world, during, status=told_by == "status")
    world.cut_off = True
    if told_by != "StatefulSet":
        world.delete_stateful_set(with_pods=told_by == "status")
        world.turn()

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert "delete the Secret" in rest.message
    assert not world.history
    world.cut_off = False
    world.lose_secret()
    assert drive(world) == Settled()
    assert world.record.cluster_id == restored


def test_the_advice_to_delete_the_secret_led_round_in_a_circle() -> None:
    """Neither a claim nor the status named the cluster any more: it could not be rebuilt."""
    world = lost()
    before = world.record
    world.ask(1)
    assert drive(world) == Settled()
    world.take_back()
    put_back(world, before)
    for ordinal in range(3):
        world.empty(ordinal)
    world.turn()

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "QuorumLost"


def test_all_pods_of_a_cluster_that_began_from_a_backup_were_stopped() -> None:
    world = born(3)
    restoring = settled(world)[0]
    put_back(world, restoring, status=True)

    while is_write(step := decide(world.observe())):
        world.apply(step)

    assert len(world.serving()) == 3
    assert labels(world.history) == ["latch"]
    assert drive(world) == Settled()
