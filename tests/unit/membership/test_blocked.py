"""Pods that wait in `start` and can get no ticket: the cause is said, whatever else is awaited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from views import seat, with_claim, with_pod, with_status, without_status
from worlds import OLD, Json, World, drive, formed, until

from etcd_stateful.membership import blocked
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, Settled, Wait

EMPTY_DIR: Json = {"emptyDir": {}}


def swap_volume(world: World, *ordinals: int) -> World:
    """Gives these pods volumes of a deleted cluster."""
    for ordinal in ordinals:
        world.claims[ordinal].data = replace(world.claims[ordinal].data, cluster_uid=OLD)
        world.restart_pod(ordinal)
    drive(world)
    return world


def joining() -> World:
    """A cluster whose learner c-3 does not answer."""
    world = formed(3)
    world.edit(size=4)
    until(world, "promote c-3")
    world.pods[3].silent = True
    return world


def voter_beside_a_learner() -> Observation:
    return swap_volume(joining(), 0).observe()


def the_learner_itself() -> Observation:
    return swap_volume(joining(), 3).observe()


def learner_that_no_leader_removes() -> Observation:
    seen = voter_beside_a_learner()
    leaders = [one for one in (1, 2) if seat(seen, one).leads]
    return without_status(replace(seen, cluster=replace(seen.cluster, size=3)), *leaders)


def two_voters_that_a_new_member_needs() -> Observation:
    world = swap_volume(formed(5), 0, 1)
    world.edit(size=6)
    drive(world)
    return world.observe()


def two_voters_that_a_replacement_needs() -> Observation:
    return with_claim(swap_volume(formed(5), 0, 1).observe(), 4, deleting=True)


def voter_in_a_downgrade() -> Observation:
    seen = swap_volume(formed(3, version="3.6.14"), 0).observe()
    for ordinal in seen.statuses:
        seen = with_status(seen, ordinal, storage_version="3.7.0", downgrade_target="3.6.0")
    return seen


HIDDEN: list[Callable[[], Observation]] = [
    voter_beside_a_learner,
    the_learner_itself,
    learner_that_no_leader_removes,
    two_voters_that_a_new_member_needs,
    two_voters_that_a_replacement_needs,
    voter_in_a_downgrade,
]


@pytest.mark.parametrize("observed", HIDDEN)
def test_a_wait_for_other_members_hid_what_is_wrong_with_a_volume(
    observed: Callable[[], Observation],
) -> None:
    """Some waits end only when that pod serves again, and only the user can see to it."""
    step = decide(observed())

    assert isinstance(step, Hold)
    assert step.reason == "ForeignData"


def test_a_learner_is_looked_at_as_often_as_if_nothing_were_wrong_with_another_volume() -> None:
    step = decide(voter_beside_a_learner())

    assert isinstance(step, Hold)
    assert step.soon


def test_the_wait_for_a_learner_hid_that_its_volume_cannot_be_read() -> None:
    world = joining()
    world.claims[3].unreadable = "I/O error"
    world.restart_pod(3)

    step = drive(world)

    assert isinstance(step, Wait)
    assert step.reason.startswith("pod c-3: its volume cannot be read: I/O error")


WAY_OUT = ". If that cannot be mended, delete claim data-c-1 with its data, and a new member takes "


def test_a_volume_that_stays_unreadable_beside_a_quorum_named_no_way_out() -> None:
    world = formed(3)
    world.claims[1].unreadable = "I/O error"
    world.restart_pod(1)

    step = drive(world)

    assert isinstance(step, Wait)
    assert step.reason.startswith("pod c-1: its volume cannot be read: I/O error")
    assert WAY_OUT in step.reason
    world.claims[1].deleting = True
    assert drive(world) == Settled()


def test_an_unreadable_volume_is_not_to_be_given_up_without_a_quorum() -> None:
    """It may have the only data."""
    world = formed(3)
    world.claims[1].unreadable = "I/O error"
    world.restart_pod(1)
    world.pods[0].silent = True

    drive(world)

    assert blocked.unreadable_volume(world.observe()) == Wait(
        "pod c-1: its volume cannot be read: I/O error"
    )


@pytest.mark.parametrize(("pod", "what"), [({}, "its claim and the pod"), (EMPTY_DIR, "the pod")])
def test_a_claim_was_to_be_deleted_that_an_empty_dir_does_not_have(pod: Json, what: str) -> None:
    seen = with_pod(formed(3, pod=pod).observe(), 0, damage="wal: crc mismatch")
    assert seen.secret is not None
    record = replace(recorded(seen), latched=False)

    step = blocked.in_start(replace(seen, secret=replace(seen.secret, bootstrap=record)))

    assert isinstance(step, Hold)
    assert step.reason == "DataDamaged"
    assert f"or delete {what} to start over" in step.message


def test_nothing_is_to_be_mended_in_a_cluster_that_is_being_deleted() -> None:
    seen = voter_beside_a_learner()

    step = decide(replace(seen, cluster=replace(seen.cluster, deleting=True)))

    assert step == Wait("the cluster's objects to be deleted")
