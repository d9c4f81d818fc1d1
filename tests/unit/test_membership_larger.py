"""Larger volumes: claims grow one by one, and the StatefulSet is made again around running pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import World, body, drive, is_write, labels

from etcd_stateful.manifests.statefulset import storage_of
from etcd_stateful.membership import larger
from etcd_stateful.membership.observation import Claim, Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    DeleteStatefulSet,
    ExpandClaim,
    Hold,
    Settled,
    Step,
    Wait,
)

REFUSAL = 'persistentvolumeclaims "data-c-0" is forbidden: the storageclass must support resize'


def declared(storage: str) -> dict[str, Any]:
    return {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": storage}}}}


class Volumes(World):
    """The world with sizes: claims are born with that of the StatefulSet's template."""

    def __init__(self, size: int = 3, storage: str = "1Gi") -> None:
        super().__init__(body(size, pod=declared(storage)))
        self.requested: dict[str, str] = {}
        self.capacity: dict[str, str] = {}
        self.grows = True
        """The driver does as it is asked; otherwise the volumes stay as they are."""
        self.refusal = ""
        """What the API server says to claims that ask for more."""

    def declare(self, storage: str, **spec: Any) -> None:
        self.body["spec"] = self.body["spec"] | {"pod": declared(storage), **spec}

    def observe(self) -> Observation:
        seen = super().observe()
        return replace(seen, claims=tuple(self._sized(claim) for claim in seen.claims))

    def _sized(self, claim: Claim) -> Claim:
        requested = self.requested.get(claim.uid, "")
        capacity = self.capacity.get(claim.uid, "")
        return replace(claim, requested=requested, capacity=capacity, fixed=self.refusal)

    def apply(self, step: Step) -> None:
        match step:
            case ExpandClaim(uid=uid, storage=storage):
                assert not self.refusal
                self.requested[uid] = storage
                self.history.append(step)
            case DeleteStatefulSet(name=name):
                del self.objects["StatefulSet", name]
                self.history.append(step)
            case _:
                super().apply(step)

    def turn(self) -> None:
        if self.grows:
            self.capacity |= self.requested
        super().turn()
        live = self.objects.get(("StatefulSet", "c"))
        for claim in self.claims.values() if live else ():
            self.requested.setdefault(claim.uid, storage_of(live or {}))
            self.capacity.setdefault(claim.uid, self.requested[claim.uid])

    @property
    def sizes(self) -> list[str]:
        return [self.capacity[self.claims[one].uid] for one in sorted(self.claims)]

    @property
    def runs(self) -> list[str]:
        return [self.pods[one].uid for one in sorted(self.pods)]


def settled(size: int = 3, storage: str = "1Gi") -> Volumes:
    world = Volumes(size, storage)
    assert drive(world, idle=2) == Settled()
    world.history.clear()
    return world


def test_every_claim_grows_and_no_pod_is_restarted() -> None:
    world = settled()
    runs = world.runs
    world.declare("2Gi")

    assert drive(world) == Settled()

    assert labels(world.history) == ["DeleteStatefulSet", "StatefulSet c", *["ExpandClaim"] * 3]
    assert world.sizes == ["2Gi"] * 3
    assert world.runs == runs
    assert storage_of(world.objects["StatefulSet", "c"]) == "2Gi"
    assert world.objects["StatefulSet", "c"]["spec"]["replicas"] == 3


def test_the_next_claim_is_asked_once_the_one_before_has_grown() -> None:
    world = settled()
    world.grows = False
    world.declare("2Gi")

    rest = drive(world)

    assert rest == Wait(
        "the volume of claim data-c-0 to grow from 1Gi to 2Gi; kubectl describe pvc data-c-0 says "
        "how far it is"
    )
    assert [step.name for step in world.history if isinstance(step, ExpandClaim)] == ["data-c-0"]
    world.grows = True
    assert drive(world) == Settled()
    assert world.sizes == ["2Gi"] * 3


def test_a_class_that_does_not_allow_it_is_told_and_replaced_members_are_larger() -> None:
    world = settled()
    world.refusal = REFUSAL
    world.declare("2Gi")

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "StorageFixed"
    for words in ("asks for 2Gi", "data-c-0 (1Gi), data-c-1 (1Gi), data-c-2 (1Gi)", REFUSAL):
        assert words in rest.message
    for ordinal in (1, 0, 2):
        world.empty(ordinal)
        rest = drive(world)
    assert rest == Settled()
    assert world.sizes == ["2Gi"] * 3


def test_a_full_disk_grows_although_the_quorum_is_lost_by_it() -> None:
    world = settled()
    for ordinal in (0, 1):
        world.pods[ordinal].crashing = True
        world.pods[ordinal].where = "pending"
        world.stuck.add(ordinal)
    world.declare("2Gi")

    for _ in range(30):
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()

    assert world.sizes == ["2Gi"] * 3
    assert "DeleteStatefulSet" not in labels(world.history), "nobody would make those pods again"
    world.stuck.clear()
    assert drive(world) == Settled()
    assert storage_of(world.objects["StatefulSet", "c"]) == "2Gi"


def test_members_that_are_added_by_the_same_edit_are_born_with_the_new_size() -> None:
    world = settled()
    world.refusal = REFUSAL
    world.declare("2Gi", size=5)

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert world.sizes == ["1Gi", "1Gi", "1Gi", "2Gi", "2Gi"]


def test_an_operator_that_dies_with_the_statefulset_deleted_makes_it_again() -> None:
    world = settled(5)
    world.declare("2Gi", size=3)
    runs = world.runs
    while not any(isinstance(step, DeleteStatefulSet) for step in world.history):
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()

    remade = decide(world.observe())

    assert labels([remade]) == ["StatefulSet c"]
    assert remade.manifest["spec"]["replicas"] == 5  # type: ignore[union-attr, index, call-overload]
    assert drive(world) == Settled()
    assert world.runs == runs[:3]


def test_the_statefulset_stays_while_a_pod_is_to_be_made_again() -> None:
    world = settled()
    world.declare("2Gi")
    world.stuck.add(2)
    world.restart_pod(2)

    drive(world)

    assert "DeleteStatefulSet" not in labels(world.history)
    world.stuck.clear()
    assert drive(world) == Settled()
    assert "DeleteStatefulSet" in labels(world.history)


def test_one_size_in_other_words_is_no_edit() -> None:
    world = settled(storage="2Gi")
    world.declare("2048Mi")

    assert drive(world) == Settled()
    assert world.history == []


@pytest.mark.parametrize("storage", ["1Gi", "rather large"])
def test_claims_are_never_asked_for_less(storage: str) -> None:
    world = settled(storage="2Gi")
    world.declare(storage)

    assert drive(world) == Settled()
    assert world.history == []


def test_one_whose_volume_has_the_room_by_chance_is_left_alone() -> None:
    """A volume made by hand may be larger than what its claim asked for."""
    world = settled()
    world.grows = False
    world.capacity = dict.fromkeys(world.capacity, "4Gi")
    world.declare("2Gi")

    assert drive(world) == Settled()
    assert not any(isinstance(step, ExpandClaim) for step in world.history)


def test_without_a_word_on_it_the_size_is_the_default() -> None:
    world = settled()
    world.body["spec"].pop("pod")

    assert drive(world) == Settled()
    assert world.sizes == ["8Gi"] * 3


@pytest.mark.parametrize(
    "other", [{"phase": "Pending"}, {"deleting": True}, {"record": None, "cluster_uid": "another"}]
)
def test_a_claim_that_takes_no_such_edit_or_is_another_s_is_not_asked(
    other: dict[str, Any],
) -> None:
    world = settled()
    world.declare("2Gi")
    seen = world.observe()
    first, *rest = seen.claims

    step = larger.next_claim(replace(seen, claims=(replace(first, **other), *rest)))

    assert isinstance(step, ExpandClaim)
    assert step.name == "data-c-1"


def test_what_has_no_claims_asks_for_nothing() -> None:
    world = World(body(3, pod={"emptyDir": {}}))

    assert drive(world, idle=2) == Settled()
    assert not any(isinstance(step, ExpandClaim | DeleteStatefulSet) for step in world.history)
