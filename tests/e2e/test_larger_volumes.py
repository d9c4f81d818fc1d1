"""More storage is declared: volumes grow under running members, or members are replaced by hand."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from harness.api import CLAIMS, VOLUMES, Json, Kind, Kube
from harness.clusters import Cluster, is_ready, restarts
from harness.load import under_load
from harness.losses import delete_claim_and_pod
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually

CLASSES = Kind("storageclasses", "storage.k8s.io/v1", "StorageClass", namespaced=False)
GROW_SECONDS = 60


def declared(storage: str, **claim: Any) -> Json:
    return {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": storage}}, **claim}}


@pytest.fixture
def elastic(kube: Kube, local_node: None) -> Iterator[str]:
    """A class as the local one, whose volumes may grow."""
    local = kube.get(CLASSES, None, "local")
    assert local
    name = f"elastic-{secrets.token_hex(2)}"
    kept = {key: local[key] for key in ("provisioner", "volumeBindingMode", "reclaimPolicy")}
    kube.create(CLASSES, {"metadata": {"name": name}, **kept, "allowVolumeExpansion": True})
    yield name
    kube.delete(CLASSES, None, name)


@pytest.mark.timeout(240)
def test_volumes_grow_and_later_members_have_the_new_size(place: Place, elastic: str):
    cluster = place.declare(size=3, pod=declared("1Gi", storageClassName=elastic)).comes_up()
    pods, before = cluster.pod_uids(), cluster.stateful_set()
    assert before

    with under_load(cluster) as load:
        cluster.change(pod=declared("2Gi", storageClassName=elastic))
        eventually("every volume has grown", lambda: grown(cluster, "2Gi"), seconds=GROW_SECONDS)
        settles(cluster, 3)
        assert cluster.pod_uids() == pods
        assert not any(restarts(pod) for pod in cluster.pods().values())
        cluster.scale(5)
        settles(cluster, 5)
    load.was_served()

    after = cluster.stateful_set()
    assert after
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert sizes(cluster) == ["2Gi"] * 5
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in cluster.pods().values()}
    assert owners == {after["metadata"]["uid"]}
    reasons = [event["reason"] for event in cluster.events()]
    assert reasons.count("ClaimExpanded") == 3
    assert reasons.count("StatefulSetRemade") == 1
    assert "PodRestarted" not in reasons


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_where_volumes_cannot_grow_members_are_replaced_one_by_one(place: Place, local_node: None):
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(3)}
    cluster = place.declare(size=3, pod=declared("1Gi")).comes_up()

    with under_load(cluster) as load:
        cluster.change(pod=declared("2Gi"))
        words = ("2Gi", "data-etcd-0 (1Gi)", "storageclass", "delete one claim")
        cluster.holds("StorageFixed", *words)
        for ordinal in range(3):
            is_replaced_by_hand(cluster, ordinal)
        settles(cluster, 3)
    load.was_served()

    assert sizes(cluster) == ["2Gi"] * 3


def is_replaced_by_hand(cluster: Cluster, ordinal: int) -> None:
    """As the message says: by another member, and until all serve again."""
    name, before = f"{cluster.name}-{ordinal}", cluster.client.members().ids
    delete_claim_and_pod(cluster, ordinal)

    def another_serves() -> bool:
        listed = cluster.client.members()
        voters = {one.name for one in listed.members if not one.learner}
        ready = all(is_ready(pod) for pod in cluster.pods().values())
        return listed.ids.get(name) not in (None, before[name]) and len(voters) == 3 and ready

    eventually(f"another member {name} serves", another_serves, seconds=60)


def grown(cluster: Cluster, storage: str) -> bool:
    """The local volumes have no driver that would do it: what a driver says is said here."""
    for name, claim in cluster.claims().items():
        asked = {"storage": claim["spec"]["resources"]["requests"]["storage"]}
        if claim["status"].get("capacity") != asked:
            volume = claim["spec"]["volumeName"]
            cluster.kube.patch(VOLUMES, None, volume, {"spec": {"capacity": asked}})
            status = {"status": {"capacity": asked}}
            cluster.kube.patch(CLAIMS, cluster.namespace, name, status, "status")
    return set(sizes(cluster)) == {storage}


def sizes(cluster: Cluster) -> list[str]:
    return [claim["status"]["capacity"]["storage"] for claim in cluster.claims().values()]
