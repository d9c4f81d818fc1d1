"""Larger volumes: claims request more, beside any other change, and nothing restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recovery_world import lost
from worlds import World, body, drive, is_write, labels

from etcd_stateful.api.quantity import is_less
from etcd_stateful.membership.members import claim_expansion
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
    """The tiny world with volume sizes. New claims get the size in the StatefulSet's template."""

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


def test_a_volume_that_has_not_grown_yet_is_named() -> None:
    world = settled()
    world.grows = False
    world.declare("2Gi")

    assert drive(world) == GROWS
    world.grows = True
    assert drive(world) == Settled()


def test_a_slow_driver_holds_up_nothing_else() -> None:
    world = settled()
    world.grows = False
    world.declare("2Gi", size=5)

    assert drive(world) == GROWS
    assert len(world.runs) == 5
    world.empty(1)
    assert drive(world) == GROWS
    assert [one.learner for one in world.members[world.record.cluster_id].values()] == [False] * 5


def test_a_storage_class_that_cannot_expand_is_reported_and_the_old_size_can_be_put_back() -> None:
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


class TestBeforeThereAreVolumes:
    """The driver, or a LimitRange, wants larger volumes than the spec asked for at first. Claims
    without a volume cannot grow, and those that are made later get the first size as well."""

    TOLD = (
        "spec.pod.persistentVolumeClaimSpec asks for 20Gi, but claims are made with 1Gi, as the "
        "StatefulSet keeps what it began with, and one grows only once it has a volume. Members "
    )

    def waiting(self) -> Volumes:
        world = Volumes()
        world.stuck = {0, 1, 2}
        drive(world)
        for ordinal, pod in world.pods.items():
            world.claims[ordinal].phase = "Pending"
            pod.trouble = f"claim data-c-{ordinal} waits for a volume"
        world.declare("20Gi")
        return world

    def test_nothing_said_that_a_larger_size_did_not_reach_claims_that_had_none(self) -> None:
        rest = drive(self.waiting())

        assert isinstance(rest, Hold)
        assert rest.reason == "BegunOtherwise"
        assert rest.message.startswith(self.TOLD)
        assert "delete the EtcdCluster and its claims, and create it again" in rest.message
        assert rest.message.endswith("; pod c-2: claim data-c-2 waits for a volume")

    def test_nor_claims_that_the_api_server_refuses(self) -> None:
        world = self.waiting()
        world.claims.clear()
        world.pods.clear()
        absent = {f"c-{one}": 11.0 for one in range(3)}

        step = decide(replace(world.observe(), missing=absent))

        assert isinstance(step, Hold)
        assert step.reason == "BegunOtherwise"
        assert "its pod has yet to be created; the Events of StatefulSet c say" in step.message

    def test_a_claim_that_has_a_volume_grows_before_the_cluster_has_formed(self) -> None:
        world = self.waiting()
        for claim in world.claims.values():
            claim.phase = "Bound"

        assert not isinstance(drive(world), Hold)
        assert world.sizes == ["20Gi"] * 3


class TestASizeThatIsTakenBack:
    """It is lowered before the volumes have been expanded, for example because their driver
    fails."""

    def raised(self) -> Volumes:
        world = settled()
        world.grows = False
        world.declare("8Ti")
        drive(world)
        world.history.clear()
        return world

    def test_claims_still_requested_it(self) -> None:
        """A failing driver tries again for good, and expands the volumes after all if it ever
        can."""
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

    def test_to_the_old_size_if_the_api_server_accepts_that(self) -> None:
        world = self.raised()
        world.declare("1Gi")

        assert drive(world) == Settled()
        assert set(world.requested.values()) == {"1Gi"}

    def test_a_partly_expanded_volume_keeps_what_it_has(self) -> None:
        world = self.raised()
        first = world.claims[0].uid
        world.capacity[first] = "4Gi"

        world.declare("2Gi")
        drive(world)

        assert world.requested[first] == "4Gi"
        assert sorted(world.requested.values()) == ["2Gi", "2Gi", "4Gi"]

    def test_a_size_that_the_api_server_does_not_lower_is_reported(self) -> None:
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

    def test_it_is_reported_beside_a_volume_that_has_not_grown_yet(self) -> None:
        """Before 1.32, Kubernetes lowers no request."""
        world = self.raised()
        world.kept = "field can not be less than previous value"
        world.declare("2Gi")

        rest = drive(world)

        assert isinstance(rest, Wait)
        assert rest.reason.startswith("the volume of claim data-c-0 to grow from 1Gi to 2Gi;")
        assert rest.reason.endswith(world.kept)

    def test_a_claim_that_a_human_enlarged_is_left_alone(self) -> None:
        """Their disk was full and the spec was to follow. If the request were lowered, the volume
        would never grow."""
        world = settled()
        world.grows = False
        world.requested = dict.fromkeys(world.requested, "4Gi")

        assert drive(world) == Settled()
        assert world.history == []
        assert at_rest(world.observe()) == "the cluster is as declared"


def test_the_full_disk_of_a_survivor_was_not_expanded_during_its_recovery() -> None:
    """There are no replicas then, and etcd could not run in the Job for want of space."""
    world = lost()
    world.job_runs = False
    world.ask(1)
    drive(world, idle=3)
    assert world.record.survivor == "c-1"
    world.edit(pod=declared("10Gi"))
    seen = world.observe()
    small = [replace(one, requested="1Gi", capacity="1Gi") for one in seen.claims]

    step = decide(replace(seen, claims=tuple(small)))

    assert isinstance(step, ExpandClaim)
    assert step.name == "data-c-1"
    grown = [replace(one, requested="10Gi") if one.ordinal == 1 else one for one in small]
    assert not isinstance(decide(replace(seen, claims=tuple(grown))), ExpandClaim)


def test_a_full_disk_is_expanded_although_it_cost_the_quorum() -> None:
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
    """Their claims are created with the size that the StatefulSet was created with."""

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

    def test_a_member_with_the_data_was_removed_while_one_below_had_yet_to_grow(self) -> None:
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

    def test_a_volume_that_cannot_be_expanded_joins_anyway(self) -> None:
        """It may be large enough: a database is rarely as large as its quota."""
        world = settled()
        world.refusal = REFUSAL
        world.db_size = GI
        world.declare("8Gi", size=5)

        assert isinstance(drive(world), Hold)
        assert len(world.members[world.record.cluster_id]) == 5

    def test_claims_beyond_the_members_are_not_waited_for(self) -> None:
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

        assert [claim.ordinal for claim in claim_expansion.undersized(shrunk)] == [0, 1, 2]


def _claim() -> dict[str, Any]:
    return dict(declared("2Gi")["persistentVolumeClaimSpec"])


def test_the_same_size_in_another_notation_is_not_an_edit() -> None:
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


def test_a_volume_that_is_larger_than_its_request_is_left_alone() -> None:
    """A volume made by hand may be larger than its claim requested."""
    world = settled()
    world.grows = False
    world.capacity = dict.fromkeys(world.capacity, "4Gi")
    world.declare("2Gi")

    assert drive(world) == Settled()
    assert world.history == []


def test_without_a_declared_size_the_default_counts() -> None:
    world = settled()
    world.body["spec"].pop("pod")

    assert drive(world) == Settled()
    assert world.sizes == ["8Gi"] * 3


@pytest.mark.parametrize(
    "other", [{"phase": "Pending"}, {"deleting": True}, {"record": None, "cluster_uid": "another"}]
)
def test_a_claim_of_another_owner_or_that_cannot_be_edited_is_left_alone(
    other: dict[str, Any],
) -> None:
    world = settled()
    world.declare("2Gi")
    seen = world.observe()
    first, *rest = seen.claims

    step = claim_expansion.next_claim(replace(seen, claims=(replace(first, **other), *rest)))

    assert isinstance(step, ExpandClaim)
    assert step.name == "data-c-1"


def test_the_smallest_volume_is_reported() -> None:
    world = settled()
    sizes = dict(zip(sorted(world.capacity), ("10Gi", "9Gi", "1Ti"), strict=True))
    world.capacity |= sizes

    assert claim_expansion.smallest_volume(world.observe()) == "9Gi"


def test_a_cluster_without_claims_requests_nothing() -> None:
    world = World(body(3, pod={"emptyDir": {}}))

    assert drive(world, idle=2) == Settled()
    assert claim_expansion.smallest_volume(world.observe()) == ""
    assert not any(isinstance(step, ExpandClaim) for step in world.history)
