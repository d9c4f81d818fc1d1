"""More storage is requested: volumes grow under running members, or the status says why not."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from harness.api import CLAIMS, STATEFUL_SETS, VOLUMES, ApiError, Json, Kind, Kube
from harness.clusters import Cluster, is_ready, restarts
from harness.load import under_load
from harness.losses import delete_claim
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


@pytest.mark.verify
@pytest.mark.timeout(240)
def test_volumes_of_running_and_of_later_members_grow(place: Place, elastic: str):
    cluster = place.declare(size=3, pod=declared("1Gi", storageClassName=elastic)).comes_up()
    pods = cluster.pod_uids()

    with under_load(cluster) as load:
        cluster.change(pod=declared("2Gi", storageClassName=elastic))
        what = "every claim asks for more"
        eventually(what, lambda: requests(cluster), lambda found: found == ["2Gi"] * 3)
        what = "the status names a volume that has not grown"
        eventually(what, lambda: "data-etcd-0 to grow from 1Gi to 2Gi" in cluster.status()["plan"])
        eventually("every volume has grown", lambda: grown(cluster) == ["2Gi"] * 3)
        settles(cluster, 3)
        assert cluster.status()["storage"] == "2Gi"
        assert cluster.pod_uids() == pods
        assert not any(restarts(pod) for pod in cluster.pods().values())
        cluster.scale(5)
        eventually("later ones grow", lambda: grown(cluster) == ["2Gi"] * 5, seconds=GROW_SECONDS)
        settles(cluster, 5)
    load.was_served()

    reasons = [event["reason"] for event in cluster.events()]
    assert reasons.count("ClaimExpanded") == 5
    assert "PodRestarted" not in reasons


def test_a_size_that_volumes_cannot_grow_to_is_reported_and_can_be_reverted(
    place: Place, local_node: None
):
    cluster = place.declare(size=1, pod=declared("1Gi")).comes_up()

    cluster.change(pod=declared("2Gi"))
    cluster.holds("StorageFixed", "2Gi", "data-etcd-0 (1Gi)", "size back to 1Gi", "storageclass")
    with pytest.raises(ApiError, match="a volume never gets smaller"):
        cluster.change(pod=declared("0.5Gi"))
    cluster.change(pod=declared("1Gi"))

    settles(cluster, 1)


@pytest.mark.verify
def test_a_volume_size_that_was_never_reached_can_be_reverted(place: Place, elastic: str):
    cluster = place.declare(size=1, pod=declared("1Gi", storageClassName=elastic)).comes_up()

    cluster.change(pod=declared("4Gi", storageClassName=elastic))
    eventually("the claim asks for more", lambda: requests(cluster), lambda now: now == ["4Gi"])
    cluster.change(pod=declared("2Gi", storageClassName=elastic))
    eventually("and for less again", lambda: requests(cluster), lambda now: now == ["2Gi"])
    eventually("the volume has grown", lambda: grown(cluster) == ["2Gi"])
    settles(cluster, 1)

    # Exactly the size that the volume has is the one that Kubernetes does not take back.
    cluster.change(pod=declared("3Gi", storageClassName=elastic))
    eventually("it asks for more again", lambda: requests(cluster), lambda now: now == ["3Gi"])
    cluster.change(pod=declared("2Gi", storageClassName=elastic))
    settles(cluster, 1)
    assert requests(cluster) == ["3Gi"]


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_if_volumes_cannot_grow_members_are_replaced_one_by_one(place: Place, local_node: None):
    """As docs/operations.md tells people to."""
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(3)}
    cluster = place.declare(size=3, pod=declared("1Gi")).comes_up()
    pods, first = cluster.pod_uids(), cluster.stateful_set()

    with under_load(cluster) as load:
        cluster.change(pod=declared("2Gi"))
        cluster.holds("StorageFixed", "2Gi")
        place.kube.delete(STATEFUL_SETS, place.namespace, cluster.name, propagationPolicy="Orphan")
        eventually("it is made again", lambda: uid(cluster.stateful_set()) not in ("", uid(first)))
        for ordinal in range(3):
            assert cluster.pod_uids().items() >= dict(list(pods.items())[ordinal:]).items()
            is_replaced_by_hand(cluster, ordinal)
        settles(cluster, 3)
    load.was_served()

    assert sizes(cluster) == ["2Gi"] * 3


def uid(live: Json | None) -> str:
    return str(live["metadata"]["uid"]) if live else ""


def is_replaced_by_hand(cluster: Cluster, ordinal: int) -> None:
    """As the message says: by another member, and until all serve again."""
    name, before = f"{cluster.name}-{ordinal}", cluster.client.members().ids
    delete_claim(cluster, ordinal)

    def another_serves() -> bool:
        listed = cluster.client.members()
        voters = {one.name for one in listed.members if not one.learner}
        ready = all(is_ready(pod) for pod in cluster.pods().values())
        return listed.ids.get(name) not in (None, before[name]) and len(voters) == 3 and ready

    eventually(f"another member {name} serves", another_serves, seconds=60)


def grown(cluster: Cluster) -> list[str]:
    """The sizes, once all volumes have grown as asked: no driver does that here, so this does."""
    for name, claim in cluster.claims().items():
        asked = {"storage": claim["spec"]["resources"]["requests"]["storage"]}
        if claim["status"].get("capacity") not in (None, asked):
            volume = claim["spec"]["volumeName"]
            cluster.kube.patch(VOLUMES, None, volume, {"spec": {"capacity": asked}})
            status = {"status": {"capacity": asked}}
            cluster.kube.patch(CLAIMS, cluster.namespace, name, status, "status")
    return sizes(cluster)


def requests(cluster: Cluster) -> list[str]:
    claims = cluster.claims().values()
    return [claim["spec"]["resources"]["requests"]["storage"] for claim in claims]


def sizes(cluster: Cluster) -> list[str]:
    claims = cluster.claims().values()
    return [claim["status"].get("capacity", {}).get("storage", "") for claim in claims]
