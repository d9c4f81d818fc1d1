"""What an observation contains, what it costs, and whose objects count."""

from __future__ import annotations

import copy

import pytest
from fake_accounts import FakeAccounts
from fakes import (
    FakeClock,
    FakeEtcd,
    FakeKube,
    FakeStart,
    Nodes,
    an_applier,
    cluster_body,
    no_looks,
)

from etcd_operator.cluster.observe import Observer
from etcd_operator.cluster.sweep import Network
from etcd_operator.etcd.api import Hash
from etcd_operator.kube.api import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    ETCD_CLUSTERS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
)
from etcd_operator.kube.finder import ABSENT_SECONDS, Finder
from etcd_operator.kube.store import Store
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests import volume_job
from etcd_stateful.manifests.network_policy import OperatorPods
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Hold, Settled, Wait
from etcd_stateful.observed.members import Alarm


class World:
    """A cluster that the real planner and applier have brought to rest."""

    def __init__(self, **spec):
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.store = self.kube.store = Store()
        self.start, self.etcd = FakeStart(self.clock), FakeEtcd()
        self.nodes = Nodes(self.kube, self.start, self.etcd)
        self.finder = Finder(self.kube, self.store, self.clock)
        self.observer = Observer(
            self.store,
            self.finder,
            network=Network(self.start, self.etcd, FakeAccounts(), self.clock),
            operator_image="operator:1",
            **no_looks(),
            operator=OperatorPods("operators", {"app": "etcd-operator"}),
            wall_clock=self.clock,
            clock=self.clock,
        )
        self.kube.put(ETCD_CLUSTERS, cluster_body(**spec))

    @property
    def body(self):
        return self.kube.live(ETCD_CLUSTERS, "a")

    async def see(self, *, quiet=False):
        return await self.observer.observe(self.body, parse_cluster(self.body), quiet=quiet)

    async def seen(self):
        return (await self.see()).observation

    async def rest(self):
        applier = an_applier(self.kube, self.finder, self.start, self.etcd, self.clock)
        for _ in range(60):
            step = decide(await self.seen())
            if isinstance(step, Settled):
                break
            if not isinstance(step, Wait | Hold):
                await applier.apply(parse_cluster(self.body), step)
            self.nodes.turn()
        else:
            raise AssertionError(f"no rest: {step}")
        await self.see()
        self.forget_costs()

    def forget_costs(self):
        self.kube.calls.clear()
        self.etcd.calls.clear()
        self.start.asked = 0


@pytest.fixture
def world():
    return World()


@pytest.fixture
async def settled():
    world = World()
    await world.rest()
    return world


async def test_a_settled_cluster_in_full(settled):
    seen = await settled.seen()
    assert [pod.name for pod in seen.pods] == ["a-0", "a-1", "a-2"]
    assert [claim.name for claim in seen.claims] == ["data-a-0", "data-a-1", "data-a-2"]
    assert seen.secret.bootstrap.latched
    assert seen.etcd.cluster_id == seen.secret.bootstrap.cluster_id
    assert len(seen.etcd.members) == 3
    assert sorted(seen.statuses) == [0, 1, 2]
    assert (seen.replicas, seen.operator_image, seen.foreign) == (3, "operator:1", ())
    assert seen.stateful_set
    assert seen.headless_service
    assert seen.client_service
    assert seen.disruption_budget
    assert seen.network_policy


class TestCost:
    async def test_a_settled_cluster_needs_no_request_at_all(self, settled):
        for _ in range(20):
            seen = await settled.see(quiet=True)
            assert not seen.fresh
        assert not settled.kube.calls
        assert not settled.etcd.calls
        assert not settled.start.asked

    async def test_ten_minutes_of_a_settled_cluster_stay_within_the_budget(self, settled):
        began = settled.clock.now
        while settled.clock.now < began + 600:
            seen = await settled.see(quiet=True)
            settled.clock.now += seen.next_sweep
        assert not settled.kube.calls
        assert 0 < len(settled.etcd.calls) <= 0.1 * 600 + 4

    async def test_reused_answers_are_equal_and_marked_as_not_fresh(self, settled):
        fresh = await settled.see()
        again = await settled.see(quiet=True)
        assert fresh.fresh
        assert not again.fresh
        assert again.observation == fresh.observation
        assert 0 < again.next_sweep <= fresh.next_sweep

    async def test_a_look_that_is_not_quiet_is_fresh(self, settled):
        assert (await settled.see(quiet=False)).fresh

    @pytest.mark.parametrize("change", ["ready", "generation", "new pod", "in start"])
    async def test_a_changed_pod_or_spec_ends_the_rest(self, settled, change):
        pod = settled.kube.live(PODS, "a-1")
        if change == "ready":
            settled.kube.put(PODS, {**pod, "status": {**pod["status"], "conditions": []}})
        elif change == "generation":
            settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": {"size": 5}})
        elif change == "new pod":
            settled.nodes.kill("a-1")
        else:
            settled.nodes.kill("a-1")
            settled.nodes.disks.clear()
            settled.nodes.turn()
        assert (await settled.see(quiet=True)).fresh

    async def test_a_pod_with_irrelevant_changes_does_not_end_the_rest(self, settled):
        """Annotations of others and the passing of time say nothing about etcd."""
        pod = settled.kube.live(PODS, "a-1")
        pod["metadata"].setdefault("annotations", {})["theirs"] = "1"
        settled.kube.put(PODS, pod)
        settled.clock.now += 5
        assert not (await settled.see(quiet=True)).fresh

    async def test_etcd_is_not_asked_before_anything_runs(self, world):
        await world.see()
        assert not world.etcd.calls
        assert not world.start.asked

    async def test_a_paused_cluster_costs_nothing(self, settled):
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": {"size": 3, "paused": True}})
        seen = settled.observer.from_store(settled.body, parse_cluster(settled.body))
        assert len(seen.pods) == 3
        assert seen.etcd is None
        assert not settled.kube.calls


class TestNames:
    """Names are looked up at the API server before they count as free."""

    async def test_of_children_and_claims_are_read_once(self, world):
        await world.see()
        await world.see()
        assert world.kube.calls == {
            "get StatefulSet": 1,
            "get Service": 1,
            "get Secret": 1,
            "get NetworkPolicy": 1,
            "get PersistentVolumeClaim": 3,
        }

    async def test_of_the_client_service_is_not_read_before_it_is_due(self, settled):
        settled.kube.remove(SERVICES, "default", "a-client")
        await settled.see()
        assert settled.kube.calls == {"get Service": 1}

    async def test_of_the_budget_is_not_read_before_it_is_due(self, settled, world):
        await world.see()
        assert "get PodDisruptionBudget" not in world.kube.calls
        settled.kube.remove(DISRUPTION_BUDGETS, "default", "a")
        await settled.see()
        assert settled.kube.calls == {"get PodDisruptionBudget": 1}

    async def test_are_read_again_after_a_while(self, world):
        await world.see()
        world.clock.now += ABSENT_SECONDS + 1
        await world.see()
        assert world.kube.calls["get Secret"] == 2

    async def test_a_child_without_our_label_is_found(self, world):
        service = {"metadata": {"name": "a", "namespace": "default"}, "spec": {}}
        world.kube.put(SERVICES, service)
        seen = await world.seen()
        assert seen.headless_service is None
        assert [(one.kind, one.name, one.passing) for one in seen.foreign] == [
            ("Service", "a", False)
        ]
        assert world.store.get(SERVICES, "default", "a") is None, "it would stay there for ever"

    async def test_a_child_that_lost_our_label_is_still_ours(self, settled):
        stripped = settled.kube.live(STATEFUL_SETS, "a")
        stripped["metadata"]["labels"] = {}
        settled.kube.put(STATEFUL_SETS, stripped)
        seen = await settled.seen()
        assert seen.stateful_set["metadata"]["labels"] == {}
        assert not seen.foreign
        assert len(seen.pods) == 3

    async def test_a_claim_without_our_label_is_found_before_there_are_pods(self, world):
        world.kube.put(
            CLAIMS, {"metadata": {"name": "data-a-2", "namespace": "default"}, "status": {}}
        )
        seen = await world.seen()
        assert [claim.name for claim in seen.claims] == ["data-a-2"]

    async def test_a_claim_that_lost_our_label_is_found_behind_its_pod(self, settled):
        """Its absence would be taken for the loss of a member."""
        raw = settled.kube.live(CLAIMS, "data-a-1")
        raw["metadata"]["labels"] = {"app": "mine"}
        settled.kube.put(CLAIMS, raw)
        assert settled.store.get(CLAIMS, "default", "data-a-1") is None
        seen = await settled.seen()
        assert [claim.name for claim in seen.claims] == ["data-a-0", "data-a-1", "data-a-2"]
        assert seen.claim(1).record is not None

    async def test_a_claim_is_looked_for_behind_pods_beyond_the_size(self, settled):
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": {"size": 1}})
        for name in ("data-a-1", "data-a-2"):
            raw = settled.kube.live(CLAIMS, name)
            settled.kube.put(CLAIMS, {**raw, "metadata": {**raw["metadata"], "labels": {}}})
        assert [claim.ordinal for claim in (await settled.seen()).claims] == [0, 1, 2]

    async def test_a_claim_is_looked_for_before_its_ordinal_is_grown_into(self, settled):
        settled.kube.put(CLAIMS, {"metadata": {"name": "data-a-3", "namespace": "default"}})
        settled.kube.put(ETCD_CLUSTERS, {**settled.body, "spec": {"size": 4}})
        assert (await settled.seen()).claim(3) is not None

    async def test_a_claim_that_is_gone_is_read_only_rarely(self, settled):
        settled.kube.remove(CLAIMS, "default", "data-a-1")
        for _ in range(5):
            assert (await settled.seen()).claim(1) is None
        assert settled.kube.calls == {"get PersistentVolumeClaim": 1}

    async def test_claims_are_not_looked_for_with_an_empty_dir(self):
        world = World(pod={"emptyDir": {}})
        await world.see()
        assert "get PersistentVolumeClaim" not in world.kube.calls

    async def test_an_object_that_the_store_does_not_have_yet_is_found(self, world):
        """Right after a start the object exists, but its event has not arrived."""
        await world.rest()
        world.observer._store = world.finder._store = Store()
        seen = await world.seen()
        assert seen.stateful_set is not None
        assert seen.secret is not None


class TestOwners:
    async def test_the_secret_of_another_owner_is_not_used(self, settled):
        secret = settled.kube.live(SECRETS, "a-start")
        secret["metadata"]["ownerReferences"][0] |= {"uid": "uid-x", "name": "b"}
        settled.kube.put(SECRETS, secret)
        settled.nodes.kill("a-0")
        settled.nodes.disks.clear()
        settled.nodes.turn()
        settled.forget_costs()

        seen = await settled.seen()
        assert seen.secret is None
        assert [one.name for one in seen.foreign] == ["a-start"]
        assert not settled.start.asked, "no key of ours, no question"
        assert not settled.etcd.calls, "no record of ours, no telling who answers"

    async def test_children_of_the_deleted_cluster_of_this_name_are_passing(self, settled):
        for resource, name in ((STATEFUL_SETS, "a"), (SERVICES, "a-client")):
            raw = settled.kube.live(resource, name)
            raw["metadata"]["ownerReferences"][0]["uid"] = "uid-old"
            settled.kube.put(resource, raw)
        seen = await settled.seen()
        assert {one.name for one in seen.foreign if one.passing} == {"a", "a-client"}
        assert seen.stateful_set is None
        assert seen.client_service is None
        assert seen.pods == (), "pods of another StatefulSet are not ours"

    async def test_pods_of_an_earlier_set_are_not_ours(self, settled):
        pod = settled.kube.live(PODS, "a-1")
        pod["metadata"]["ownerReferences"][0]["uid"] = "uid-older"
        settled.kube.put(PODS, pod)
        assert [one.name for one in (await settled.seen()).pods] == ["a-0", "a-2"]

    async def test_pods_that_only_carry_our_labels_are_not_members(self, settled):
        pod = copy.deepcopy(settled.kube.live(PODS, "a-1"))
        pod["metadata"] = {
            "name": "debug",
            "namespace": "default",
            "labels": naming.labels("a"),
        }
        settled.kube.put(PODS, pod)
        assert len((await settled.seen()).pods) == 3

    async def test_the_pod_of_a_job_does_not_count_as_left_by_a_stateful_set(self, settled):
        """It does not stop just because it exists, and the Job would wait for good to be
        deleted."""
        pod = copy.deepcopy(settled.kube.live(PODS, "a-1"))
        settled.kube.remove(STATEFUL_SETS, "default", "a")
        job = {"kind": "Job", "name": "a-restore", "uid": "j", "controller": True}
        pod["metadata"] = {
            "name": "a-restore-x",
            "namespace": "default",
            "labels": volume_job.labels("a"),
            "ownerReferences": [job],
        }
        settled.kube.put(PODS, pod)

        assert (await settled.seen()).predecessors == ("a-0", "a-1", "a-2")


class TestNodeGone:
    """By then the pod has been pending for an hour, because the node was drained first."""

    def unschedulable(self, settled, words):
        pod = settled.kube.live(PODS, "a-1")
        condition = {"type": "PodScheduled", "status": "False", "message": words}
        settled.kube.put(PODS, {**pod, "status": {"conditions": [condition]}})

    def cordoned(self, settled):
        self.unschedulable(
            settled,
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match "
            "PersistentVolume's node affinity.",
        )

    def gone(self, settled):
        words = "2 node(s) didn't match PersistentVolume's node affinity."
        self.unschedulable(settled, f"0/2 nodes are available: {words}")

    async def is_gone(self, settled, *, after=0.0):
        settled.clock.now += after
        return (await settled.seen()).pod(1).node_gone

    async def test_counts_only_after_five_minutes(self, settled):
        self.cordoned(settled)
        assert not await self.is_gone(settled, after=3600)
        self.gone(settled)
        assert not await self.is_gone(settled)
        assert not await self.is_gone(settled, after=299)
        fresh = await settled.observer.confirm(("default", "a"))
        assert not fresh.seen.observation.pod(1).node_gone
        assert await self.is_gone(settled, after=1)

    async def test_a_node_that_was_back_in_between_starts_the_time_again(self, settled):
        self.gone(settled)
        assert not await self.is_gone(settled)
        self.cordoned(settled)
        assert not await self.is_gone(settled, after=299)
        self.gone(settled)
        assert not await self.is_gone(settled, after=299)


class TestConfirmed:
    """The reads before an irreversible step."""

    async def see(self, world):
        return await world.observer.confirm(("default", "a"))

    async def test_matches_a_look_from_the_store_if_that_is_up_to_date(self, settled):
        fresh = await self.see(settled)
        assert fresh.seen.observation == await settled.seen()
        assert fresh.body["spec"] == settled.body["spec"]
        assert fresh.seen.fresh

    async def test_a_deleted_cluster_is_none(self, settled):
        settled.kube.watching = False
        settled.kube.remove(ETCD_CLUSTERS, "default", "a")
        assert await self.see(settled) is None
        assert settled.store.get(ETCD_CLUSTERS, "default", "a") is None

    async def test_asks_every_member_again_and_uses_nothing_twice(self, settled):
        await self.see(settled)
        assert len(settled.etcd.calls) == 4
        assert (await settled.see(quiet=True)).fresh is False, "it counts as a look for the rest"

    async def test_asks_every_member_for_its_hash_again(self, settled):
        settled.etcd.raised = (Alarm("CORRUPT", 1),)
        await settled.see()
        settled.etcd.hashes = {settled.kube.live(PODS, "a-1")["status"]["podIP"]: Hash(9, 5)}
        assert (await settled.seen()).hashes == {0: 1, 1: 1, 2: 1}, "of a moment ago"
        assert (await self.see(settled)).seen.observation.hashes == {0: 1, 1: 9, 2: 1}

    async def test_a_pod_without_its_label_is_not_listed(self, settled):
        settled.kube.watching = False
        pod = settled.kube.live(PODS, "a-1")
        settled.kube.put(PODS, {**pod, "metadata": {**pod["metadata"], "labels": {}}})
        fresh = await self.see(settled)
        assert [one.name for one in fresh.seen.observation.pods] == ["a-0", "a-2"]

    async def test_pods_of_a_job_are_among_them(self, settled):
        """They use the same volumes, and what is not listed counts as gone."""
        settled.kube.watching = False
        for name in ("a-recovery-x7k2p", "a-recovery-9zq4t"):
            metadata = {"name": name, "namespace": "default", "labels": volume_job.labels("a")}
            settled.kube.put(PODS, {"metadata": metadata})
        settled.store.put(PODS, settled.kube.live(PODS, "a-recovery-x7k2p"))
        await self.see(settled)
        pods = settled.store.of_cluster(PODS, "default", "a")
        assert len(pods) == 5

    async def test_a_claim_whose_label_was_taken_off_is_read_as_it_is(self, settled):
        settled.kube.watching = False
        raw = settled.kube.live(CLAIMS, "data-a-1")
        newer = settled.kube.put(
            CLAIMS,
            {**raw, "metadata": {**raw["metadata"], "labels": {}}, "status": {"phase": "Lost"}},
        )
        claim = (await self.see(settled)).seen.observation.claim(1)
        assert claim.phase == "Lost"
        assert claim.resource_version == newer["metadata"]["resourceVersion"]

    async def test_a_claim_that_the_store_never_saw_is_found(self, settled):
        settled.store._shelves[CLAIMS] = Store()._shelf(CLAIMS)
        assert len((await self.see(settled)).seen.observation.claims) == 3

    async def test_a_claim_that_is_gone_is_gone(self, settled):
        settled.kube.watching = False
        settled.kube.remove(CLAIMS, "default", "data-a-1")
        assert (await self.see(settled)).seen.observation.claim(1) is None

    async def test_claims_are_not_read_with_an_empty_dir(self):
        world = World(pod={"emptyDir": {}})
        await world.rest()
        await self.see(world)
        assert "get PersistentVolumeClaim" not in world.kube.calls
        assert world.kube.calls["list Pod"] == 1
