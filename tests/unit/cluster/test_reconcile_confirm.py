"""Irreversible steps are decided again from fresh reads, without any memory of the first
decision."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from functools import partial

import pytest
from reconcile_bench import KEY, Bench
from shell_clock import jumping

from etcd_operator.cluster import reconcile, requeue
from etcd_operator.etcd.api import Hash, NoAnswer, Refused
from etcd_operator.etcd.client import HASH_SECONDS
from etcd_operator.kube.api import CLAIMS, ETCD_CLUSTERS, PODS, SECRETS, STATEFUL_SETS
from etcd_operator.kube.store import Store
from etcd_operator.queue.workqueue import WorkQueue
from etcd_stateful import naming
from etcd_stateful.membership.steps import (
    ApplyChild,
    DeleteClaim,
    DeletePod,
    Hold,
    Leader,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
    MemberUpdate,
    MoveLeader,
    Settled,
)
from etcd_stateful.observed.members import Alarm

FRESH_READS = {
    "get EtcdCluster": 1,
    "get StatefulSet": 1,
    "get Secret": 1,
    "list Pod": 1,
    "get PersistentVolumeClaim": 3,
}


@pytest.fixture
async def settled():
    return await Bench.settled()


@pytest.fixture
def planned(monkeypatch):
    """Replaces the planner, and counts how often it is asked."""

    def put(decide):
        asked = []

        def counted(seen):
            asked.append(seen)
            return Hold("Paused", "is paused") if seen.cluster.paused else decide(seen)

        monkeypatch.setattr(reconcile, "decide", counted)
        return asked

    return put


def restart(seen, ordinal=1):
    pod = seen.pod(ordinal)
    if pod is None:
        return Settled()
    return DeletePod(pod.name, pod.uid, pod.resource_version, f"{pod.name} is made again")


def leader(seen):
    status = next(one for one in seen.statuses.values() if one.leader_id == one.member_id)
    ordinal = next(n for n, one in seen.statuses.items() if one is status)
    return Leader(seen.pod(ordinal).address, status.member_id, status.cluster_id)


def add(seen):
    return MemberAddLearner(leader(seen), "http://a-3:2380", "a-3 is added")


class TestReads:
    async def test_everything_but_the_services_is_read_again(self, settled, planned):
        asked = planned(restart)
        await settled.once()
        assert len(asked) == 3, "from memory, from the store and the members, from the API server"
        reads = {k: n for k, n in settled.kube.calls.items() if k in FRESH_READS}
        assert reads == FRESH_READS
        assert "get Service" not in settled.kube.calls
        assert settled.kube.calls["delete Pod"] == 1
        assert sum(call.startswith("status") for call in settled.etcd.calls) == 6

    @pytest.mark.parametrize(
        "step",
        [
            lambda seen: MemberRemove(leader(seen), 1, "is removed"),
            lambda seen: MemberPromote(leader(seen), 1, "has caught up"),
            lambda seen: MoveLeader(leader(seen), 1, "leads"),
            lambda seen: MemberUpdate(leader(seen), 1, ("https://a-1:2380",), "is found"),
            lambda _: DeleteClaim("data-a-1", "u", "1", "is deleted"),
            add,
        ],
        ids=["remove", "promote", "move leader", "update", "delete claim", "add"],
    )
    async def test_are_made_before_every_irreversible_step(self, settled, planned, step):
        asked = planned(step)
        await settled.once()
        assert len(asked) == 3
        assert settled.kube.calls["list Pod"] == 1

    async def test_are_not_made_before_other_steps(self, settled, planned):
        live = settled.kube.live(STATEFUL_SETS, "a")
        manifest = {**live, "metadata": {"name": "a", "namespace": "default"}}
        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        asked = planned(lambda _: ApplyChild("StatefulSet", "a", manifest, "differs"))
        await settled.once()
        assert len(asked) == 2
        assert set(settled.kube.calls) <= {"apply StatefulSet", "apply EtcdCluster/status"}

    async def test_update_the_store(self, settled, planned):
        settled.kube.watching = False
        pod = settled.kube.live(PODS, "a-0")
        settled.kube.put(PODS, {**pod, "spec": {"touched": True}})
        settled.kube.remove(PODS, "default", "a-2")
        planned(restart)
        await settled.once()
        assert settled.store.get(PODS, "default", "a-0")["spec"] == {"touched": True}
        assert settled.store.get(PODS, "default", "a-2") is None


class TestAgain:
    async def test_the_same_step_is_carried_out(self, settled, planned):
        planned(restart)
        assert await settled.once() == 0
        assert settled.kube.find(PODS, "a-1") is None
        assert settled.events.reasons() == ["PodRestarted"]

    async def test_a_pod_with_a_new_resource_version_is_the_same_pod(self, settled, planned):
        """The store is behind, and its resourceVersion would conflict."""
        settled.kube.watching = False
        pod = settled.kube.live(PODS, "a-1")
        pod["metadata"]["annotations"]["theirs"] = "1"
        settled.kube.put(PODS, pod)
        planned(restart)
        assert await settled.once() == 0
        assert settled.kube.find(PODS, "a-1") is None

    async def test_a_claim_with_a_new_resource_version_is_the_same_claim(self, settled, planned):
        settled.kube.watching = False
        raw = settled.kube.live(CLAIMS, "data-a-1")
        raw["metadata"]["annotations"]["theirs"] = "1"
        settled.kube.put(CLAIMS, raw)

        def delete(seen):
            claim = seen.claim(1)
            return DeleteClaim(claim.name, claim.uid, claim.resource_version, "is deleted")

        planned(delete)
        assert await settled.once() == 0
        assert settled.kube.find(CLAIMS, "data-a-1") is None

    async def test_the_new_leader_may_be_another_follower(self, settled, planned):
        """Under load, followers overtake each other between two looks. The second look counts."""
        heirs = []

        def hand_over(seen):
            lead = leader(seen)
            ids = [one.member_id for one in seen.statuses.values()]
            ids.remove(lead.member_id)
            heirs.append(ids[len(heirs) // 2])
            return MoveLeader(lead, heirs[-1], f"member {heirs[-1]} is to lead")

        planned(hand_over)
        assert await settled.once() == 0
        assert len(set(heirs)) == 2
        assert [int(change.split()[-1]) for change in settled.etcd.changes] == heirs[-1:]

    async def test_leadership_that_has_moved_is_not_moved_again(self, settled, planned):
        def hand_over(seen):
            step = MoveLeader(leader(seen), 11, "is to lead")
            others = [one.member_id for one in seen.statuses.values()]
            settled.etcd.leader = next(one for one in others if one != step.leader.member_id)
            return step

        planned(hand_over)
        await settled.once()
        assert settled.etcd.changes == []

    async def test_another_pod_with_the_same_name_is_left_alone(self, settled, planned):
        settled.kube.watching = False
        settled.nodes.kill("a-1")
        settled.nodes.turn()
        planned(restart)
        delay = await settled.once()
        assert "delete Pod" not in settled.kube.calls
        assert 0 < delay <= requeue.FIRST_POLL

    @pytest.mark.parametrize("change", ["paused", "size", "deleted", "another", "refused"])
    async def test_what_was_decided_on_has_changed(self, settled, planned, change):
        """The watch has not reported it yet: only the read shows it."""
        settled.kube.watching = False
        body = settled.body
        if change == "paused":
            settled.kube.put(ETCD_CLUSTERS, {**body, "spec": {"size": 3, "paused": True}})
        elif change == "size":
            settled.kube.put(ETCD_CLUSTERS, {**body, "spec": {"size": 5}})
        elif change == "refused":
            settled.kube.put(ETCD_CLUSTERS, {**body, "spec": {"size": 3, "version": "2.0.0"}})
        else:
            settled.kube.remove(ETCD_CLUSTERS, "default", "a")
        if change == "another":
            settled.declare()
        planned(lambda seen: restart(seen) if seen.cluster.size == 3 else Settled())
        await settled.once()
        assert "delete Pod" not in settled.kube.calls

    async def test_a_new_cluster_with_the_same_name_does_not_inherit_a_step(self, settled, planned):
        settled.kube.watching = False
        raw = settled.kube.live(CLAIMS, "data-a-1")
        settled.kube.remove(ETCD_CLUSTERS, "default", "a")
        settled.declare()
        metadata = raw["metadata"]
        step = DeleteClaim("data-a-1", metadata["uid"], metadata["resourceVersion"], "is deleted")
        planned(lambda _: step)
        await settled.once()
        assert settled.kube.find(CLAIMS, "data-a-1")

    async def test_a_member_that_answers_now_is_not_removed(self, settled, planned):
        lost = settled.kube.live(PODS, "a-1")["status"]["podIP"]
        member = settled.etcd.members.pop(lost)

        def remove(seen):
            if 1 in seen.statuses:
                return Settled()
            settled.etcd.members[lost] = member  # between the two looks
            return MemberRemove(leader(seen), member.member_id, "is lost")

        planned(remove)
        await settled.once()
        assert settled.etcd.changes == []

    async def test_a_claim_without_its_labels_exists(self, settled, planned):
        """Absence by label is only a hint: nothing may count as lost because of it."""
        raw = settled.kube.live(CLAIMS, "data-a-1")
        raw["metadata"]["labels"] = {}
        settled.kube.put(CLAIMS, raw)
        assert settled.store.get(CLAIMS, "default", "data-a-1") is None
        asked = planned(lambda seen: restart(seen) if seen.claim(1) is None else Settled())
        await settled.once()
        assert asked[0].claim(1).uid == raw["metadata"]["uid"]
        assert "delete Pod" not in settled.kube.calls

    async def test_an_empty_store_does_not_matter(self, settled, planned):
        settled.kube.watching = False
        settled.store._shelves = Store()._shelves
        settled.store.put(ETCD_CLUSTERS, settled.body)
        asked = planned(lambda seen: restart(seen) if seen.pods else add_to_nobody())
        await settled.once()
        assert asked[0].pods == ()
        assert [pod.name for pod in asked[1].pods] == ["a-0", "a-1", "a-2"]
        assert len(asked[1].claims) == 3
        assert asked[1].etcd is not None
        assert settled.etcd.changes == []

    async def test_a_secret_that_has_changed_counts(self, settled, planned):
        settled.kube.watching = False
        secret = settled.kube.live(SECRETS, "a-start")
        settled.kube.put(SECRETS, {**secret, "data": {}})
        planned(lambda seen: restart(seen) if seen.secret.bootstrap else Settled())
        await settled.once()
        assert "delete Pod" not in settled.kube.calls

    async def test_a_decision_that_always_changes_is_not_a_hot_loop(self, settled, planned):
        names = iter(range(1000))
        planned(lambda seen: replace(restart(seen), reason=f"reason {next(names)}"))
        delays = [await settled.once() for _ in range(20)]
        assert delays == sorted(delays)
        assert delays[-1] == requeue.WAIT_SECONDS


def add_to_nobody():
    return MemberAddLearner(Leader("10.9.9.9", 1, 2), "http://a-3:2380", "a-3 is added")


class TestDeclined:
    async def test_is_a_wait_with_etcds_error(self, settled, planned, caplog):
        caplog.set_level(logging.INFO)
        planned(add)
        settled.etcd.answers = [Refused("unhealthy cluster")] * 3
        delays = [await settled.once() for _ in range(3)]
        assert delays[0] == requeue.FIRST_POLL
        settled.clock.now += 1
        await settled.once()
        lines = [record.getMessage() for record in caplog.records]
        assert sum("unhealthy cluster" in line for line in lines) == 1
        assert settled.events.reasons() == ["MemberAdded"]

    async def test_is_reported_in_the_status_and_is_no_failure(self, settled, planned):
        planned(add)
        settled.etcd.answers = [Refused("unhealthy cluster")] * 2
        await settled.once()
        settled.clock.now += 2
        await settled.once()
        assert settled.status["plan"] == (
            "waiting for etcd, which declines this for now ('unhealthy cluster'): a-3 is added"
        )
        assert settled.condition("Progressing")["reason"] == "Waiting"
        assert settled.events.posted == []

    async def test_is_repeated_quickly_at_first_and_then_less_often(self, settled, planned):
        """etcd's five seconds are covered at full speed, and a member that stays down costs
        little."""
        planned(add)
        settled.etcd.answers = [Refused("unhealthy cluster")] * 60
        delays = [await settled.once() for _ in range(60)]
        assert max(delays[:28]) == requeue.DECLINED_SECONDS
        assert delays[-1] == requeue.WAIT_SECONDS
        assert delays == sorted(delays)

    async def test_is_not_limited(self, settled, planned):
        planned(add)
        settled.etcd.answers = [Refused("unhealthy cluster")] * 20
        for _ in range(20):
            await settled.once()
        assert len(settled.etcd.changes) == 20

    async def test_without_an_answer_the_outcome_is_unknown_and_looked_at_soon(
        self, settled, planned
    ):
        planned(add)
        settled.etcd.answers = [NoAnswer("deadline")]
        assert await settled.once() == requeue.FIRST_POLL
        assert settled.condition("Progressing")["reason"] == "Working"
        assert settled.events.posted == []


@jumping
async def test_a_member_whose_data_differs_was_never_replaced_if_hashes_took_a_minute():
    """The second look was begun and ended with the pass, over and over, and members did nothing but
    read their whole databases."""
    settled = await Bench.settled()
    settled.etcd.raised = (Alarm("CORRUPT", 1),)
    settled.etcd.hashes = {settled.kube.live(PODS, "a-1")["status"]["podIP"]: Hash(9, 5)}
    for name, seconds in {"status": 0.9, "member_list": 1.4, "hash_kv": HASH_SECONDS - 1}.items():
        setattr(settled.etcd, name, partial(slowly, seconds, getattr(settled.etcd, name)))
    settled.clock.now += 60
    queue = WorkQueue("clusters", settled.metrics, workers=1)
    queue.add(KEY)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3 * HASH_SECONDS):
            await queue.run(settled.reconciler.reconcile)

    assert any(change.startswith("remove") for change in settled.etcd.changes)


async def slowly(seconds, ask, *args):
    await asyncio.sleep(seconds)
    return await ask(*args)


def test_pods_are_selected_by_the_labels_they_are_created_with():
    """What `list Pod` selects by is what the pods are made with."""
    assert naming.selector("a").items() <= naming.labels("a").items()
