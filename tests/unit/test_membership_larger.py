"""Larger volumes: claims request more, beside any other change, and nothing restarts for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import World, body, drive, is_write, labels

from etcd_stateful.api.quantity import is_less
from etcd_stateful.membership import larger
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ExpandClaim, Hold, MemberAddLearner, Settled, Step, Wait
from etcd_stateful.observed.objects import Claim
from etcd_stateful.status.conditions import at_rest

REFUSAL = 'persistentvolumeclaims "data-c-0" is forbidden: the storageclass must support resize'
GROWS = Wait(
    "the volume of claim data-c-0 to grow from 1Gi to 2Gi; see kubectl describe pvc data-c-0"
)
GI = 2**30


def declared(storage: str) -> dict[str, Any]:
    return {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": storage}}}}


class Volumes(World):
    """The world with sizes: claims are born with that of the StatefulSet's template."""

    def __init__(self, size: int = 3, storage: str = "1Gi") -> None:
        super().__init__(body(size, pod=declared(storage)))
        self.requested: dict[str, str] = {}
        self.capacity: dict[str, str] = {}
        self.grows = True
        """Whether the driver expands volumes; otherwise they keep their size."""
        self.raised: dict[str, str] = {}
        self.refusal = ""
        """The API server's error for claims that request more; empty if it accepts them."""
        self.kept = ""
        """The API server's error for claims that request less again; empty if it accepts them."""
        self.db_size = 4096

    def declare(self, storage: str, **spec: Any) -> None:
        self.body["spec"] = self.body["spec"] | {"pod": declared(storage), **spec}

    def observe(self) -> Observation:
        seen = super().observe()
        said = {
            one: replace(of, db_size=self.db_size, db_size_in_use=self.db_size)
            for one, of in seen.statuses.items()
        }
        claims = tuple(self._sized(claim) for claim in seen.claims)
        return replace(seen, claims=claims, statuses=said)

    def _sized(self, claim: Claim) -> Claim:
        requested = self.requested.get(claim.uid, "")
        capacity = self.capacity.get(claim.uid, "")
        raised = self.raised.get(claim.uid, "")
        less = is_less(self.cluster.storage, requested)
        fixed = self.kept if less else self.refusal
        return replace(claim, requested=requested, capacity=capacity, raised=raised, fixed=fixed)

    def apply(self, step: Step) -> None:
        if isinstance(step, ExpandClaim):
            assert not (self.kept if step.less else self.refusal)
            assert step.less == is_less(step.storage, self.requested[step.uid])
            assert not is_less(step.storage, self.capacity[step.uid]), "a volume never shrinks"
            self.requested[step.uid] = self.raised[step.uid] = step.storage
            self.history.append(step)
        else:
            super().apply(step)

    def turn(self) -> None:
        if self.grows:
            self.capacity |= self.requested
        super().turn()
        live = self.objects.get(("StatefulSet", "c"))
        for claim in self.claims.values() if live else ():
            self.requested.setdefault(claim.uid, _born_with(live or {}))
            self.capacity.setdefault(claim.uid, self.requested[claim.uid])

    @property
    def sizes(self) -> list[str]:
        return [self.capacity[self.claims[one].uid] for one in sorted(self.claims)]

    @property
    def runs(self) -> list[str]:
        return [self.pods[one].uid for one in sorted(self.pods)]


def _born_with(stateful_set: dict[str, Any]) -> str:
    template = stateful_set["spec"]["volumeClaimTemplates"][0]
    return str(template["spec"]["resources"]["requests"]["storage"])


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

    assert labels(world.history) == ["ExpandClaim"] * 3
    assert world.sizes == ["2Gi"] * 3
    assert world.runs == runs


def test_a_volume_that_has_yet_to_grow_is_named() -> None:
    world = settled()
    world.grows = False
    world.declare("2Gi")

    assert drive(world) == GROWS
    world.grows = True
    assert drive(world) == Settled()


def test_a_driver_that_takes_its_time_holds_nothing_else_up() -> None:
    world = settled()
    world.grows = False
    world.declare("2Gi", size=5)

    assert drive(world) == GROWS
    assert len(world.runs) == 5
    world.empty(1)
    assert drive(world) == GROWS
    assert [one.learner for one in world.members[world.record.cluster_id].values()] == [False] * 5


def test_a_class_that_does_not_allow_it_is_told_and_the_old_size_can_be_put_back() -> None:
    world = settled()
    world.refusal = REFUSAL
    world.declare("2Gi")

    rest = drive(world)

    assert isinstance(rest, Hold)
    assert rest.reason == "StorageFixed"
    assert "asks for 2Gi, but data-c-0 (1Gi), data-c-1 (1Gi), data-c-2 (1Gi)" in rest.message
    assert "Change the size back to 1Gi, or" in rest.message
    assert rest.message.endswith(REFUSAL)
    world.declare("1Gi")
    assert drive(world) == Settled()
    assert world.history == []


class TestASizeThatIsTakenBack:
    """Before the volumes have come to have it, as where their driver fails at it."""

    def raised(self) -> Volumes:
        world = settled()
        world.grows = False
        world.declare("8Ti")
        drive(world)
        world.history.clear()
        return world

    def test_claims_went_on_asking_for_it(self) -> None:
        """A driver that fails tries for ever, and grows them after all if it ever can."""
        world = self.raised()
        runs = world.runs

        world.declare("2Gi")

        assert drive(world) == GROWS
        assert labels(world.history) == ["ExpandClaim"] * 3
        assert set(world.requested.values()) == {"2Gi"}
        world.grows = True
        assert drive(world) == Settled()
        assert world.sizes == ["2Gi"] * 3
        assert world.runs == runs

    def test_all_the_way_where_the_api_server_takes_that(self) -> None:
        world = self.raised()
        world.declare("1Gi")

        assert drive(world) == Settled()
        assert set(world.requested.values()) == {"1Gi"}

    def test_a_volume_that_has_grown_in_part_keeps_what_it_has(self) -> None:
        world = self.raised()
        first = world.claims[0].uid
        world.capacity[first] = "4Gi"

        world.declare("2Gi")
        drive(world)

        assert world.requested[first] == "4Gi"
        assert sorted(world.requested.values()) == ["2Gi", "2Gi", "4Gi"]

    def test_what_the_api_server_does_not_take_back_is_told(self) -> None:
        world = self.raised()
        world.kept = "field can not be less than status.capacity"
        world.declare("1Gi")

        assert drive(world) == Settled()
        assert world.history == []
        assert at_rest(world.observe()) == (
            "the cluster is as declared; data-c-0 (8Ti), data-c-1 (8Ti), data-c-2 (8Ti) still "
            "request a size that the spec no longer asks for, and a volume that is expanded to it "
            "keeps it. From Kubernetes 1.32 on it can be lowered: declare a size just above that "
            f"of the volumes. The API server says: {world.kept}"
        )

    def test_it_is_told_beside_a_volume_that_has_yet_to_grow(self) -> None:
        """Of before 1.32 no Kubernetes takes any size back."""
        world = self.raised()
        world.kept = "field can not be less than previous value"
        world.declare("2Gi")

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert rest.reason.startswith("the volume of claim data-c-0 to grow from 1Gi to 2Gi;")
        assert rest.reason.endswith(world.kept)

    def test_what_a_person_has_a_claim_ask_for_stays(self) -> None:
        """With the disk full, and the spec to follow: the volume would never have grown."""
        world = settled()
        world.grows = False
        world.requested = dict.fromkeys(world.requested, "4Gi")

        assert drive(world) == Settled()
        assert world.history == []
        assert at_rest(world.observe()) == "the cluster is as declared"


def test_a_full_disk_grows_although_the_quorum_is_lost_by_it() -> None:
    world = settled()
    for ordinal in (0, 1):
        world.pods[ordinal].where = "pending"
        world.stuck.add(ordinal)
    world.declare("2Gi")

    for _ in range(30):
        step = decide(world.observe())
        world.apply(step) if is_write(step) else world.turn()

    assert world.sizes == ["2Gi"] * 3
    world.stuck.clear()
    assert drive(world) == Settled()


class TestLaterMembers:
    """Their claims are born with the size that the StatefulSet was made with."""

    def test_they_grow_as_well(self) -> None:
        world = settled()
        world.declare("2Gi", size=5)

        assert drive(world) == Settled()
        world.empty(1)
        assert drive(world) == Settled()
        assert world.sizes == ["2Gi"] * 5

    def test_one_joined_on_a_volume_that_the_data_does_not_fit_on(self) -> None:
        world = settled()
        world.declare("8Gi")
        assert drive(world) == Settled()
        world.db_size = GI
        world.grows = False
        world.declare("8Gi", size=5)

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert "the volume of claim data-c-3 to grow from 1Gi to 8Gi" in rest.reason
        assert not any(isinstance(step, MemberAddLearner) for step in world.history)
        world.grows = True
        assert drive(world) == Settled()
        assert len(world.members[world.record.cluster_id]) == 5

    def test_a_member_with_the_data_went_as_the_one_below_it_had_yet_to_grow(self) -> None:
        world = settled()
        world.declare("8Gi")
        assert drive(world) == Settled()
        world.db_size = GI
        world.grows = False
        world.empty(0)
        drive(world)
        left = world.members[world.record.cluster_id].values()
        assert [one.name for one in left] == ["c-1", "c-2"]

        world.declare("8Gi", size=2)
        drive(world)

        assert len(world.members[world.record.cluster_id]) == 2
        world.grows = True
        assert drive(world) == Settled()

    def test_one_that_cannot_grow_joins_all_the_same(self) -> None:
        """It may do: a database is never as large as its quota says it may become."""
        world = settled()
        world.refusal = REFUSAL
        world.db_size = GI
        world.declare("8Gi", size=5)

        assert isinstance(drive(world), Hold)
        assert len(world.members[world.record.cluster_id]) == 5

    def test_what_is_left_of_members_that_never_came_to_be_is_not_waited_for(self) -> None:
        world = settled(5)
        world.grows = False
        for ordinal in (3, 4):
            claim = world.claims[ordinal]
            world.capacity[claim.uid] = world.requested[claim.uid] = "1Gi"
        seen = world.observe()

        declared_more = replace(seen.cluster, size=3, pod=replace(seen.cluster.pod, claim=_claim()))
        live = {**(seen.stateful_set or {})}
        live["spec"] = {**live["spec"], "replicas": 3}
        shrunk = replace(seen, cluster=declared_more, stateful_set=live)

        assert [claim.ordinal for claim in larger.undersized(shrunk)] == [0, 1, 2]


def _claim() -> dict[str, Any]:
    return dict(declared("2Gi")["persistentVolumeClaimSpec"])


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
    assert world.history == []


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


def test_the_smallest_volume_is_told() -> None:
    world = settled()
    sizes = dict(zip(sorted(world.capacity), ("10Gi", "9Gi", "1Ti"), strict=True))
    world.capacity |= sizes

    assert larger.smallest_volume(world.observe()) == "9Gi"


def test_what_has_no_claims_asks_for_nothing() -> None:
    world = World(body(3, pod={"emptyDir": {}}))

    assert drive(world, idle=2) == Settled()
    assert larger.smallest_volume(world.observe()) == ""
    assert not any(isinstance(step, ExpandClaim) for step in world.history)
