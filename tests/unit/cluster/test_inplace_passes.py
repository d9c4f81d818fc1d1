"""Passes of a restore in place: observing the EtcdRestore, deciding again, and reporting."""

from __future__ import annotations

import pytest
from inplace_world import SOURCE
from reconcile_bench import KEY, Bench

from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    JOBS,
    PODS,
    REJECTED_SECONDS,
    STATEFUL_SETS,
    Json,
    Rejected,
)
from etcd_operator.kube.store import Owner, owners_of
from etcd_operator.timestamps import rfc3339
from etcd_stateful.backup.restore_requests import GIVE_UP_SECONDS


def restore(cluster_id: str) -> Json:
    spec = {"etcdCluster": {"name": "a"}, "replace": {"clusterID": cluster_id}} | SOURCE
    metadata = {"namespace": "default", "name": "a", "uid": "uid-r", "generation": 1}
    return {"metadata": metadata, "spec": spec}


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    bench.declare()
    await bench.run()
    return bench


def claims(bench: Bench) -> list[str]:
    return sorted(name for kind, *_, name in bench.kube.objects if kind == CLAIMS)


async def passes(bench: Bench, most: int = 30) -> None:
    for _ in range(most):
        await bench.once()
        bench.nodes.turn()
        bench.clock.now += 1.0


def end(bench: Bench, kind: str) -> None:
    job = bench.kube.live(JOBS, "a-restore")
    job["status"] = {"conditions": [{"type": kind, "status": "True"}]}
    bench.kube.put(JOBS, job)


def pod_of_job(bench: Bench) -> None:
    """Creates the pod as the Job controller does."""
    template = bench.kube.live(JOBS, "a-restore")["spec"]["template"]
    metadata = template["metadata"] | {"namespace": "default", "name": "a-restore-x7k2p"}
    bench.kube.put(PODS, {"metadata": metadata, "status": {"phase": "Running"}})


def lose_claim(bench: Bench, ordinal: int) -> None:
    claim = bench.kube.live(CLAIMS, f"data-a-{ordinal}")
    bench.kube.put(CLAIMS, claim | {"status": {"phase": "Lost"}})


def replicas(bench: Bench) -> int:
    return int(bench.kube.live(STATEFUL_SETS, "a")["spec"]["replicas"])


def test_a_change_of_a_restore_queues_its_cluster() -> None:
    assert Owner(ETCD_CLUSTERS, KEY) in owners_of(ETCD_RESTORES, restore("ab"))


async def test_the_volume_is_filled_beside_a_cluster_that_serves(bench: Bench) -> None:
    bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))
    await passes(bench)

    assert bench.kube.find(JOBS, "a-restore") is not None
    assert claims(bench) == [f"data-a-{one}" for one in range(4)]
    assert replicas(bench) == 3
    told = bench.status["restore"]
    assert (told["uid"], told["generation"], told["state"]) == ("uid-r", 1, "Working")
    assert "RestoreBegun" in bench.events.reasons()


async def test_a_restore_that_was_just_deleted_stops_no_pod(bench: Bench) -> None:
    """The watch has not reported it yet. An irreversible step must not follow from an old view."""
    bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))
    await passes(bench)
    end(bench, "Complete")
    del bench.kube.objects[ETCD_RESTORES, *KEY]
    assert bench.store.get(ETCD_RESTORES, *KEY) is not None
    await passes(bench)

    assert replicas(bench) == 3
    assert claims(bench) == [f"data-a-{one}" for one in range(3)]
    assert bench.kube.find(JOBS, "a-restore") is None
    assert "restore" not in bench.status
    assert "RestoreCalledOff" in bench.events.reasons()


@pytest.mark.parametrize("seen", ["none", "an earlier one", "failed", "another path"])
async def test_an_operator_whose_watch_is_behind_does_not_cancel_the_restore(
    bench: Bench, seen: str
) -> None:
    """It took the Lease, and its watch of EtcdRestores had broken before this one was created."""
    wanted = bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))
    await passes(bench)
    job = bench.kube.live(JOBS, "a-restore")["metadata"]["uid"]

    before: Json | None = {
        "none": None,
        "an earlier one": {"metadata": wanted["metadata"] | {"uid": "uid-q"}},
        "failed": {"status": {"succeeded": False, "observedGeneration": 1}},
        "another path": {"spec": wanted["spec"] | {"s3": SOURCE["s3"] | {"path": "bucket/b"}}},
    }[seen]
    bench.kube.objects.pop((ETCD_RESTORES, *KEY))
    if before is not None:
        older = wanted["metadata"] | before.get("metadata", {}) | {"resourceVersion": "1"}
        bench.kube.objects[ETCD_RESTORES, *KEY] = wanted | before | {"metadata": older}
    bench.begin_process()
    bench.kube.objects[ETCD_RESTORES, *KEY] = wanted
    await passes(bench)

    assert bench.kube.live(JOBS, "a-restore")["metadata"]["uid"] == job
    assert "RestoreCalledOff" not in bench.events.reasons()
    del bench.kube.objects[ETCD_RESTORES, *KEY]
    bench.begin_process()
    await passes(bench)
    assert bench.kube.find(JOBS, "a-restore") is None
    assert "RestoreCalledOff" in bench.events.reasons()


async def test_a_restore_that_names_another_id_needs_no_request(bench: Bench) -> None:
    bench.kube.put(ETCD_RESTORES, restore("00000000000000ab"))
    before = bench.kube.writes()
    await passes(bench, 5)

    assert bench.kube.writes() == before


async def test_a_restore_that_nobody_remembered_began_when_the_operator_was_back(
    bench: Bench,
) -> None:
    """What had kept it was gone, and months of writes with it. Both passes began at once: the one
    over the cluster carried it out before the other gave it up."""
    waiting = restore(bench.status["clusterID"])
    held = {"type": "Complete", "status": "False", "reason": "Held", "observedGeneration": 1}
    held["lastTransitionTime"] = rfc3339(bench.clock.now)
    bench.kube.put(ETCD_RESTORES, waiting | {"status": {"conditions": [held]}})
    bench.clock.now += GIVE_UP_SECONDS
    await passes(bench)

    assert bench.kube.find(JOBS, "a-restore") is None
    assert claims(bench) == [f"data-a-{one}" for one in range(3)]
    waiting["metadata"]["generation"] = 2
    bench.kube.put(ETCD_RESTORES, waiting | {"status": {"conditions": [held]}})
    await passes(bench)
    assert bench.kube.find(JOBS, "a-restore") is not None, "it was edited"


async def test_a_failed_job_is_reported_and_deleted_once_the_restore_says_so(bench: Bench) -> None:
    bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))
    await passes(bench)
    end(bench, "Failed")
    await passes(bench, 5)

    assert bench.status["restore"]["state"] == "Failed"
    assert bench.condition("Blocked") is not None
    body = bench.kube.live(ETCD_RESTORES, "a")
    body["status"] = {"succeeded": False, "observedGeneration": 1}
    bench.kube.put(ETCD_RESTORES, body)
    await passes(bench)

    assert claims(bench) == [f"data-a-{one}" for one in range(3)]
    assert bench.condition("Blocked") is None
    assert replicas(bench) == 3


async def test_no_second_job_is_created_beside_a_pod_of_the_first(bench: Bench) -> None:
    """In between, a removal looked at all pods except that one, so it was forgotten. Nothing
    reports it again while it only fetches. Both pods would have written to the volume."""
    bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))
    await passes(bench)
    pod_of_job(bench)
    lose_claim(bench, 1)
    await passes(bench, 3)
    assert any(change.startswith("remove") for change in bench.etcd.changes)
    body = bench.body
    body["spec"]["pod"] = {"labels": {"is": "edited"}}
    bench.kube.put(ETCD_CLUSTERS, body)
    await passes(bench, 5)

    assert bench.kube.find(JOBS, "a-restore") is None
    bench.kube.remove(PODS, "default", "a-restore-x7k2p")
    await passes(bench, 5)
    assert bench.kube.find(JOBS, "a-restore") is not None


async def test_a_claim_without_our_label_at_the_next_ordinal_blocked_everything_else(
    bench: Bench,
) -> None:
    """The claim was applied again and again, and no later step was reached."""
    other = {"metadata": {"namespace": "default", "name": "data-a-3", "uid": "v"}, "spec": {}}
    bench.kube.put(CLAIMS, other)
    bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))

    await passes(bench)

    assert claims(bench) == [f"data-a-{one}" for one in range(5)]
    assert bench.kube.live(CLAIMS, "data-a-3")["metadata"]["uid"] == "v"
    assert bench.kube.find(JOBS, "a-restore") is not None


async def test_a_claim_of_another_owner_that_came_in_between_is_neither_recorded_nor_filled(
    bench: Bench,
) -> None:
    bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))
    while bench.kube.find(CLAIMS, "data-a-3") is None:
        await bench.once()
    made = bench.kube.live(CLAIMS, "data-a-3")
    made["metadata"]["annotations"] = {}
    bench.kube.put(CLAIMS, made)

    await passes(bench)

    assert bench.kube.find(JOBS, "a-restore") is None
    assert "claim data-a-3 does not belong to this cluster" in bench.status["restore"]["message"]


@pytest.mark.parametrize("call", ["apply PersistentVolumeClaim", "create Job"])
async def test_a_claim_or_job_that_a_quota_refused_kept_a_lost_member_from_being_replaced(
    bench: Bench, call: str
) -> None:
    """Nor were alarms disarmed, tickets given or clients' certificates renewed."""
    bench.kube.failures[call] = [Rejected("forbidden: exceeded quota", status=403)] * 99
    bench.kube.put(ETCD_RESTORES, restore(bench.status["clusterID"]))
    await passes(bench)
    lose_claim(bench, 1)
    await passes(bench, 10)

    assert any(change.startswith("remove") for change in bench.etcd.changes)
    told = bench.status["restore"]
    assert told["state"] == "Working"
    assert told["message"].startswith("to be retried: ")
    assert "exceeded quota" in told["message"]
    assert "exceeded quota" in str(bench.condition("Progressing"))
    bench.kube.calls.clear()
    await passes(bench, 3 * int(REJECTED_SECONDS))
    assert 2 <= bench.kube.calls[call] <= 4
    bench.kube.failures.clear()
    await passes(bench, 2 * int(REJECTED_SECONDS))
    assert bench.kube.find(JOBS, "a-restore") is not None
    assert "exceeded quota" not in str(bench.status)
