"""Whether claims may grow, which a dry run at the API server tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeClock, FakeKube
from reconcile_bench import KEY, Bench
from worlds import cluster

from etcd_operator.cluster.expansion import ASK_SECONDS, LESS_SECONDS, Expansion
from etcd_operator.kube.api import CLAIMS, ETCD_CLUSTERS, Conflict, Rejected, Unavailable
from etcd_operator.kube.failed_passes import UNANSWERED_PASSES, FailedPasses
from etcd_operator.objects.reading import claim as read_claim
from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.objects import Claim
from unit.membership.test_claim_expansion import declared

TRIAL = "patch PersistentVolumeClaim as a trial"
REFUSAL = "the storageclass that provisions the pvc must support resize"
DOWN = Unavailable("failed calling webhook")


class Looks:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.failed_passes = FailedPasses()
        self.expansion = Expansion(self.kube, self.failed_passes, self.clock)
        for ordinal in range(3):
            self.kube.put(CLAIMS, bound(ordinal))

    async def look(self, storage: str = "2Gi") -> list[str]:
        """The refusals that a pass reports, one per claim."""
        fixed: list[str] = []

        async def made() -> None:
            fixed.extend(await self._fixed(storage))

        async def report(_reason: str, _words: str) -> None:
            pass

        await self.failed_passes.watch(cluster(3).key, made(), report)
        return fixed

    async def _fixed(self, storage: str) -> list[str]:
        live = {"spec": {"replicas": 3}}
        base = Observation(cluster(3, pod=declared(storage)), None, live, None, None)
        seen = await self.expansion.onto(replace(base, claims=self.claims()))
        return [one.fixed for one in seen.claims]

    def claims(self) -> tuple[Claim, ...]:
        names = (naming.claim("c", ordinal) for ordinal in range(3))
        found = (
            read_claim("c", self.kube.live(CLAIMS, name, cluster(3).namespace)) for name in names
        )
        return tuple(one for one in found if one)


def bound(ordinal: int, requested: str = "1Gi") -> dict[str, Any]:
    uid = cluster(3).uid
    return {
        "metadata": {
            "name": naming.claim("c", ordinal),
            "namespace": cluster(3).namespace,
            "labels": naming.labels("c"),
            "annotations": {naming.CLUSTER_UID: uid},
        },
        "spec": {"resources": {"requests": {"storage": requested}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }


@pytest.fixture
def looks() -> Looks:
    return Looks()


async def test_the_dry_run_stores_nothing(looks: Looks) -> None:
    assert await looks.look() == ["", "", ""]
    assert looks.kube.calls[TRIAL] == 3
    assert [one.requested for one in looks.claims()] == ["1Gi"] * 3


async def test_a_claim_with_the_declared_size_needs_no_request(looks: Looks) -> None:
    assert await looks.look("1024Mi") == ["", "", ""]
    assert not looks.kube.calls


async def test_a_refusal_is_reported_on_its_claim(looks: Looks) -> None:
    looks.kube.failures[TRIAL] = [Rejected(REFUSAL, status=403)]

    assert await looks.look() == [REFUSAL, "", ""]


async def test_a_storage_class_that_forbids_expansion_was_tried_at_every_look(looks: Looks) -> None:
    looks.kube.failures[TRIAL] = [Rejected(REFUSAL, status=403) for _ in range(3)]

    for _ in range(5):
        assert await looks.look() == [REFUSAL] * 3
    assert looks.kube.calls[TRIAL] == 3


async def test_a_claim_that_was_deleted_meanwhile_is_not_reported_as_fixed(looks: Looks) -> None:
    looks.kube.failures[TRIAL] = [Rejected("not found", status=404)]

    assert await looks.look() == ["", "", ""]


@pytest.mark.parametrize("storage", ["2Gi", "4Gi"])
async def test_the_dry_run_is_repeated_after_a_while_or_for_another_size(
    looks: Looks, storage: str
) -> None:
    looks.kube.failures[TRIAL] = [Rejected(REFUSAL, status=403) for _ in range(3)]
    await looks.look()
    looks.clock.now += ASK_SECONDS + 1 if storage == "2Gi" else 0

    assert await looks.look(storage) == ["", "", ""]


async def test_a_claim_that_has_changed_meanwhile_is_not_reported_as_fixed(looks: Looks) -> None:
    looks.kube.failures[TRIAL] = [Conflict("modified", status=409)]

    assert await looks.look() == ["", "", ""]


class TestLoweredSize:
    """A size that the operator had requested, and that was removed from the spec again."""

    @pytest.fixture
    def looks(self) -> Looks:
        looks = Looks()
        for ordinal in range(3):
            raised = bound(ordinal, "8Ti")
            raised["metadata"]["annotations"][naming.STORAGE] = "8Ti"
            looks.kube.put(CLAIMS, raised)
        return looks

    async def test_the_api_servers_refusal_is_on_the_claim(self, looks: Looks) -> None:
        refusal = "field can not be less than status.capacity"
        looks.kube.failures[TRIAL] = [Rejected(refusal, status=422)]

        assert await looks.look("1Gi") == [refusal, "", ""]
        assert looks.kube.calls[TRIAL] == 3

    async def test_a_settled_cluster_did_not_ask_each_minute(self, looks: Looks) -> None:
        looks.kube.failures[TRIAL] = [Rejected("less", status=422) for _ in range(3)]
        await looks.look("1Gi")
        looks.clock.now += LESS_SECONDS - 1

        assert await looks.look("1Gi") == ["less"] * 3
        assert looks.kube.calls[TRIAL] == 3
        looks.clock.now += 2
        assert await looks.look("1Gi") == ["", "", ""]

    async def test_a_call_without_an_answer_counted_for_as_long_as_a_refusal(
        self, looks: Looks
    ) -> None:
        looks.kube.failures[TRIAL] = [DOWN for _ in range(3 * UNANSWERED_PASSES)]
        for _ in range(UNANSWERED_PASSES - 1):
            with pytest.raises(Unavailable):
                await looks.look("1Gi")
        assert await looks.look("1Gi") == [str(DOWN)] * 3

        looks.clock.now += ASK_SECONDS + 1
        assert await looks.look("1Gi") == ["", "", ""]

    async def test_a_size_that_a_human_requested_is_left_alone(self, looks: Looks) -> None:
        for ordinal in range(3):
            looks.kube.put(CLAIMS, bound(ordinal, "8Ti"))

        assert await looks.look("1Gi") == ["", "", ""]
        assert not looks.kube.calls


async def test_an_admission_webhook_that_is_down_stopped_every_pass(looks: Looks) -> None:
    looks.kube.failures[TRIAL] = [DOWN for _ in range(3 * UNANSWERED_PASSES)]
    for _ in range(UNANSWERED_PASSES - 1):
        with pytest.raises(Unavailable):
            await looks.look()

    assert await looks.look() == [str(DOWN)] * 3
    looks.clock.now += ASK_SECONDS + 1
    looks.kube.failures[TRIAL] = [DOWN]
    assert await looks.look() == [str(DOWN), "", ""], "it has been down all the time"
    looks.clock.now += ASK_SECONDS + 1
    assert await looks.look() == ["", "", ""]


async def test_one_call_without_an_answer_was_said_to_forbid_expansion_for_a_minute(
    looks: Looks,
) -> None:
    """`Blocked` asked for another size while the API server restarted, and a restore asked to
    delete the claim."""
    looks.kube.failures[TRIAL] = [DOWN]
    with pytest.raises(Unavailable):
        await looks.look()

    assert await looks.look() == ["", "", ""]


async def test_calls_without_an_answer_counted_beyond_passes_that_ask_nothing(looks: Looks) -> None:
    """Long after an outage one such call forbade expansion."""
    looks.kube.failures[TRIAL] = [DOWN] * 3 * UNANSWERED_PASSES
    for _ in range(UNANSWERED_PASSES - 1):
        with pytest.raises(Unavailable):
            await looks.look()
    await looks.look("1Gi")

    with pytest.raises(Unavailable):
        await looks.look()


async def test_a_deleted_cluster_was_remembered_for_calls_without_an_answer() -> None:
    bench = Bench()
    bench.declare()
    bench.kube.failures["get StatefulSet"] = [DOWN]
    with pytest.raises(Unavailable):
        await bench.once()
    assert bench.reconciler._failed_passes.last(KEY)
    bench.kube.remove(ETCD_CLUSTERS, *KEY)

    await bench.once()

    assert not bench.reconciler._failed_passes.last(KEY)
