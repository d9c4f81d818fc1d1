"""Pods and processes die in every way that a node knows; data and identities stay."""

from __future__ import annotations

from typing import Any

import pytest
from harness.api import PODS
from harness.clusters import Cluster, is_ready, restarts
from harness.node import kill_container
from harness.place import Place
from harness.waiting import eventually


@pytest.mark.verify
@pytest.mark.timeout(450)
@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="gracefully"), pytest.param({"gracePeriodSeconds": 0}, id="at-once")],
)
def test_each_pod_is_killed_in_turn(place: Place, options: dict[str, Any]):
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()

    for ordinal in range(3):
        cluster.client.put(f"before-{ordinal}", "kept")
        replace_pods(cluster, [ordinal], **options)
        assert cluster.client.get(f"before-{ordinal}") == "kept"

    assert cluster.client.members() == before
    assert [cluster.client.get(f"before-{ordinal}") for ordinal in range(3)] == ["kept"] * 3


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.verify), 3])
def test_all_pods_are_killed_at_once(place: Place, size: int):
    cluster = place.declare(size=size).comes_up()
    before = cluster.client.members()
    cluster.client.put("before", "kept")

    replace_pods(cluster, list(range(size)), gracePeriodSeconds=0)

    assert cluster.client.get("before") == "kept"
    assert cluster.client.members() == before


@pytest.mark.verify
@pytest.mark.timeout(360)
def test_a_killed_etcd_process_is_restarted_in_its_container(place: Place, local_node: None):
    cluster = place.declare(size=3).comes_up()
    before, uids = cluster.client.members(), cluster.pod_uids()
    cluster.client.put("before", "kept")

    for ordinal in range(3):
        pod = place.kube.get(PODS, place.namespace, f"etcd-{ordinal}")
        kill_container(pod, "etcd")
        eventually(
            f"etcd-{ordinal} has restarted", lambda o=ordinal: restarts(cluster.pod(o)), seconds=30
        )
        cluster.comes_up()

    assert cluster.pod_uids() == uids
    assert cluster.client.members() == before
    assert cluster.client.get("before") == "kept"


@pytest.mark.verify
def test_a_pod_is_killed_while_the_cluster_forms(place: Place):
    """A member that already had its ticket keeps its identity; the others get their first."""
    cluster = place.declare(size=3)
    eventually("a first pod", lambda: cluster.pod(1))

    place.kube.delete(PODS, place.namespace, "etcd-1", gracePeriodSeconds=0)

    cluster.comes_up()
    assert cluster.client.members().names == ["etcd-0", "etcd-1", "etcd-2"]


def replace_pods(cluster: Cluster, ordinals: list[int], **options: Any) -> None:
    """Deletes the pods and waits until other ones serve in their place."""
    names = [f"{cluster.name}-{ordinal}" for ordinal in ordinals]
    old = cluster.pod_uids()
    for name in names:
        cluster.kube.delete(PODS, cluster.namespace, name, **options)
    eventually(
        f"{names} are other pods",
        cluster.pod_uids,
        lambda uids: all(name in uids and uids[name] != old[name] for name in names),
        seconds=60,
    )
    # The status is a moment behind: right after the deletion it still says that all is well.
    eventually(
        f"{names} are ready",
        lambda: [name for name, pod in cluster.pods().items() if is_ready(pod)],
        lambda ready: set(names) <= set(ready),
        seconds=60,
    )
    cluster.comes_up()
