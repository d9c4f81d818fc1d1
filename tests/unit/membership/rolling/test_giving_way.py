"""Pods of no member give way to those of members; crashing and outdated pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import DOWN, TRIED_AGAIN, with_claim, with_pod, without_status
from worlds import World, body, claim_gone, drive, formed, is_write, labels, until

from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.rolling import roll
from etcd_stateful.membership.steps import DeletePod, Settled, Wait
from etcd_stateful.observed.objects import Foreign
from unit.membership.rolling.edits import EMPTY_DIR, LABEL, edited


def test_a_pod_that_is_no_member_yet_kept_the_node_of_a_member_that_had_restarted() -> None:
    """Of four members on three nodes one waits for a node. It got that of a member that restarted,
    and neither went on: none is added while one is away."""
    world = formed(3)
    world.edit(size=4)
    world.stuck = {3}
    assert isinstance(drive(world, idle=3), Wait)
    world.restart_pod(2)
    world.stuck = {2}
    deleted = []
    for _ in range(80):
        step = decide(with_pod(world.observe(), 2, crowded_out=2 in world.stuck))
        if isinstance(step, DeletePod):
            deleted.append(step.name)
            world.stuck = {3}
        world.apply(step) if is_write(step) else world.turn()

    assert deleted == ["c-3"]
    assert world.serving() == {0, 1, 2}


def test_a_pod_that_is_no_member_yet_does_not_give_way_to_another() -> None:
    world = formed(3)
    world.edit(size=5)
    world.apply(until(world, "StatefulSet c"))
    world.turn()
    seen = with_pod(with_pod(world.observe(), 3, age=99.0), 4, age=99.0)
    crowded = {"in_start": False, "crowded_out": True, "age": 99.0}

    assert labels([roll.give_way(with_pod(seen, 2, **crowded))]) == ["restart c-3"]
    assert roll.give_way(with_pod(seen, 3, **crowded)) is None


class Quota(World):
    """A quota for two pods. The StatefulSet controller creates c-1 and c-2 side by side
    (`slowStartBatch`, 1.36.3), so either comes first: here c-2, as often as `wins`."""

    wins = 2

    def __init__(self, resource: dict) -> None:
        super().__init__(resource)
        self.missing: dict[str, float] = {}

    def _control(self) -> None:
        before = set(self.pods)
        super()._control()
        made = sorted(self.pods.keys() - before)
        if len(self.pods) > 2:
            del self.pods[made[0 if self.wins else -1]]
            self.wins -= len(made) > 1

    def turn(self) -> None:
        super().turn()
        absent = [naming.pod("c", one) for one in range(3) if one not in self.pods]
        self.missing = {name: self.missing.get(name, 0.0) + 1 for name in absent}

    def observe(self) -> Observation:
        return replace(super().observe(), missing=self.missing)


class TestAPodThatIsNoMemberYetUnderAQuota:
    def crowded(self) -> Quota:
        world = Quota(body(2))
        assert drive(world, idle=3) == Settled()
        world.edit(size=3)
        drive(world, idle=3)
        world.history.clear()
        return world

    def test_kept_the_pod_of_a_member_from_being_created_again(self) -> None:
        """The other member alone is no quorum, and nothing said so again."""
        world = self.crowded()
        world.restart_pod(1)
        for _ in range(200):
            step = decide(world.observe())
            world.apply(step) if is_write(step) else world.turn()

        assert world.serving() == {0, 1}
        assert labels(world.history) == ["restart c-2"] * 2

    def test_stays_where_something_else_is_in_the_way_of_that_pod(self) -> None:
        world = self.crowded()
        world.restart_pod(1)
        for _ in range(40):
            world.turn()
        seen = world.observe()
        assert labels([roll.give_way(seen)]) == ["restart c-2"]

        other = Foreign("Pod", "c-1", "nobody", orphan=True)
        assert roll.give_way(replace(seen, namesakes=(other,))) is None
        assert roll.give_way(with_claim(seen, 1, record=None)) is None, "of no member"
        assert roll.give_way(replace(seen, missing={"c-1": 30.0})) is None, "it may only be late"
        assert roll.give_way(with_pod(seen, 2, age=30.0)) is None, "it has just given way"


class TestAboveAClaimThatIsKept:
    """A finalizer keeps the claim of a removed member. The StatefulSet controller creates no pod
    above it, so one that is deleted there is gone for as long."""

    def kept(self) -> World:
        world = formed(5)
        world.stuck_claims = {0}
        world.claims[0].deleting = True
        drive(world)
        assert world.serving() == {1, 2, 3, 4}
        world.history.clear()
        return world

    def test_a_member_whose_etcd_fails_was_deleted(self) -> None:
        """It may come up by itself, as its container is restarted."""
        world = self.kept()
        world.pods[4].crashing = True

        rest = drive(world, idle=60)

        assert world.history == []
        assert rest == Wait(f"pod c-0 to be created; it waits for {claim_gone(0).reason}")
        world.stuck_claims = set()
        drive(world, idle=60)
        assert labels(world.history)[0] == "restart c-4"

    def test_so_was_a_slow_one_for_an_edit(self) -> None:
        world = self.kept()
        world.edit(**LABEL)
        drive(world, idle=3)
        world.history.clear()

        seen = with_pod(world.observe(), 4, ready=False)

        assert roll.ailing_pod(seen) is None
        gone = tuple(claim for claim in seen.claims if claim.ordinal)
        refused = replace(seen, claims=gone)
        assert roll.ailing_pod(refused) is None, "as where a policy refuses c-0"
        waits = replace(seen.pods[0], ordinal=0, name="c-0", ready=False)
        made = replace(refused, pods=(waits, *seen.pods))
        assert labels([roll.ailing_pod(made)]) == ["restart c-4"]


class TestCrashing:
    """A restarted container skips `start`, which alone can tell what is on the volume."""

    @pytest.mark.parametrize(("age", "restarted"), [(30.0, False), (30.5, True)])
    def test_is_recreated_once_it_is_old_enough(self, age: float, *, restarted: bool) -> None:
        world = formed(3)
        world.pods[1].crashing = True
        seen = with_pod(world.observe(), 1, age=age)

        assert (labels([decide(seen)]) == ["restart c-1"]) is restarted

    def test_an_emptied_volume_is_found_that_way(self) -> None:
        world = formed(3)
        world.claims[1].data = None
        world.pods[1].crashing = True

        assert drive(world, idle=40) == Settled()
        assert "remove c-1" in labels(world.history)

    def test_not_while_the_member_list_is_unknown(self) -> None:
        world = formed(3)
        for pod in world.pods.values():
            pod.crashing, pod.age = True, 99.0
        world.history.clear()

        drive(world)

        assert world.history == []

    def test_not_a_pod_with_the_only_copy_in_an_empty_dir(self) -> None:
        world = formed(3, pod=EMPTY_DIR)
        world.pods[1].crashing, world.pods[1].age = True, 99.0
        world.history.clear()

        drive(world)

        assert world.history == []

    def test_not_a_pod_whose_data_etcd_refuses(self) -> None:
        """`start` would find nothing new."""
        seen = with_pod(formed(3).observe(), 1, crashing=True, age=99.0)
        assert labels([roll.recreate_crashing(seen)]) == ["restart c-1"]

        assert roll.recreate_crashing(with_pod(seen, 1, damage="it lacks entries")) is None

    def test_not_a_pod_whose_container_is_being_started_again(self) -> None:
        seen = without_status(formed(3).observe(), 1)
        assert labels([roll.recreate_crashing(with_pod(seen, 1, age=99.0, **DOWN))]) == [
            "restart c-1"
        ]

        step = decide(with_pod(seen, 1, age=99.0, **TRIED_AGAIN))
        assert step == Wait("pod c-1: container etcd keeps failing")

    def test_not_on_a_claim_that_is_being_deleted(self) -> None:
        world = formed(3)
        seen = without_status(with_pod(world.observe(), 1, crashing=True, age=99.0), 1)

        assert roll.recreate_crashing(with_claim(seen, 1, deleting=True)) is None

    def test_one_above_a_pod_that_a_policy_refuses_was_deleted_and_did_not_come_back(self) -> None:
        """The StatefulSet controller creates none above one that it cannot create."""
        seen = without_status(with_pod(formed(5).observe(), 4, crashing=True, age=99.0), 0, 4)
        seen = replace(seen, pods=tuple(pod for pod in seen.pods if pod.ordinal != 0))
        assert roll.recreate_crashing(seen) is None

        lowest = without_status(with_pod(formed(5).observe(), 0, crashing=True, age=99.0), 0, 4)
        lowest = replace(lowest, pods=tuple(pod for pod in lowest.pods if pod.ordinal != 4))
        assert labels([roll.recreate_crashing(lowest)]) == ["restart c-0"]


class TestOutdated:
    def test_not_before_the_controller_has_seen_the_edit(self) -> None:
        world = formed(3)
        world.edit(**LABEL)
        world.apply(until(world, "StatefulSet c"))

        assert not world.observe().outdated
        assert not roll.is_complete(world.observe())
        world._control()
        assert world.observe().outdated
        assert not roll.is_complete(world.observe())

    def test_not_a_pod_of_the_present_spec(self) -> None:
        """The edit was taken back, so there is no reason left to restart."""
        world = formed(3)
        world.edit(**LABEL)
        world.apply(until(world, "StatefulSet c"))
        world.turn()
        world.edit(pod={})

        assert drive(world) == Settled()
        assert not [one for one in world.history if isinstance(one, DeletePod)]

    def test_an_edit_never_reached_a_pod_that_had_lost_the_label_with_its_revision(self) -> None:
        """Somebody has removed it, or a tool that removes labels that it does not know."""
        world = edited(3)
        world.pods[1].revision = ""

        assert drive(world) == Settled()
        assert "restart c-1" in labels(world.history)

    def test_pods_without_the_annotation_are(self) -> None:
        """They are from before pods carried it, and are restarted once, at the next edit."""
        world = edited()
        seen = world.observe()
        bare = replace(seen, pods=tuple(replace(pod, spec_hash="") for pod in seen.pods))

        assert not roll.is_complete(bare)
