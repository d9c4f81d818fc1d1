"""Two of three members are gone: the status says which and why, nothing is destroyed, and their
return repairs it.
"""

from __future__ import annotations

from typing import Any

import pytest
from harness.api import CLAIMS, PODS
from harness.clusters import Cluster, is_ready, is_waiting_in_start
from harness.damage import empty_for_now, give_back, take_away, volume_of
from harness.load import under_load
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually, steadily

SAYS_SECONDS = 40
HEALS_SECONDS = 150
"""The kubelet tries again to mount a volume after up to two minutes."""


@pytest.mark.timeout(360)
def test_two_emptied_volumes_are_reported_and_their_return_restores_the_quorum(
    place: Place, local_node: None
):
    """As when an empty folder was mounted by mistake, and later the right one."""
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()
    kept = what_must_stay(cluster)
    volumes = [volume_of(cluster, ordinal) for ordinal in (1, 2)]

    with under_load(cluster):
        for volume in volumes:
            empty_for_now(volume)
        kill_pods(cluster, 1, 2)

        said = cluster.holds("QuorumLost", "etcd-1", "etcd-2", "empty", seconds=SAYS_SECONDS)
        assert all(word in said["message"] for word in ("volumes back", "restore"))
        is_not_available(cluster)
        assert cluster.condition("Degraded")["status"] == "True"
        steadily("nothing is touched", lambda: what_must_stay(cluster), lambda now: now == kept, 8)

        for volume in volumes:
            give_back(volume)
        kill_pods(cluster, 1, 2)
        settles(cluster, 3, HEALS_SECONDS)
    assert cluster.client.members() == before


@pytest.mark.verify
def test_two_deleted_claims_are_reported_and_nothing_else_is_done(place: Place):
    """Their data is gone, so only a human can decide what follows."""
    place.may_lose |= {"data-etcd-0", "data-etcd-2"}
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    claim, pod = cluster.claim_uids()["data-etcd-1"], cluster.pod_uids()["etcd-1"]
    # Both at once, however quick the operator is: the first alone would be replaced.
    cluster.change(paused=True)
    cluster.holds("SpecPaused", kind="Paused")
    kill_pods(cluster, 0, 2, claims=True)
    for ordinal in (0, 2):
        eventually(
            f"etcd-{ordinal} waits on a new volume",
            lambda o=ordinal: is_waiting_in_start(cluster.pod(o)),
            seconds=40,
        )
    cluster.change(paused=False)

    cluster.holds("QuorumLost", "etcd-0", "etcd-2", seconds=SAYS_SECONDS)

    def untouched() -> tuple[Any, ...]:
        return cluster.claim_uids()["data-etcd-1"], cluster.pod_uids()["etcd-1"], replicas(cluster)

    steadily("the survivor is left alone", untouched, lambda now: now == (claim, pod, 3), 8)
    is_not_available(cluster)
    assert unready(cluster) == ["etcd-0", "etcd-1", "etcd-2"]


@pytest.mark.verify
def test_pods_that_cannot_mount_their_volumes_are_waited_for(place: Place, local_node: None):
    """Down is not lost, however many are down."""
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()
    kept = what_must_stay(cluster)
    volumes = [volume_of(cluster, ordinal) for ordinal in (0, 1)]

    with under_load(cluster):
        for volume in volumes:
            take_away(volume)
        kill_pods(cluster, 0, 1)

        eventually(
            "it is said who is missing",
            lambda: cluster.condition("Available"),
            lambda found: (
                found["status"] == "False"
                and all(name in found["message"] for name in ("etcd-0", "etcd-1"))
            ),
            seconds=SAYS_SECONDS,
        )
        steadily("nothing is touched", lambda: what_must_stay(cluster), lambda now: now == kept, 8)

        for volume in volumes:
            give_back(volume)
        kill_pods(cluster, 0, 1)
        settles(cluster, 3, HEALS_SECONDS)
    assert cluster.client.members() == before


@pytest.mark.verify
def test_a_corrected_spec_reaches_the_pods_without_a_quorum(place: Place):
    """With a node selector that matches no node, the pods wait for a corrected spec."""
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()
    with under_load(cluster):
        cluster.change(pod={"nodeSelector": {"no-such": "node"}})
        eventually("the first waits", lambda: len(unready(cluster)) == 1, seconds=40)
        steadily("only the first", lambda: len(unready(cluster)), lambda count: count == 1, 4)
        kill_pods(cluster, 0, 1, 2)
        eventually("all wait", lambda: len(unready(cluster)) == 3, seconds=20)
        eventually(
            "it is said why",
            lambda: cluster.condition("Available"),
            lambda found: found["status"] == "False" and "cannot be scheduled" in found["message"],
            seconds=30,
        )

        cluster.change(pod={"nodeSelector": None})

        settles(cluster, 3, 90)
    assert cluster.client.members() == before


def is_not_available(cluster: Cluster) -> None:
    """A member that is alone is Ready until its probe has failed three times."""
    eventually(
        "it is not available",
        lambda: cluster.condition("Available"),
        lambda found: found["status"] == "False" and len(unready(cluster)) == 3,
        seconds=SAYS_SECONDS,
    )


def what_must_stay(cluster: Cluster) -> tuple[Any, ...]:
    return cluster.claim_uids(), replicas(cluster), cluster.record()["members"]


def replicas(cluster: Cluster) -> int:
    found = cluster.stateful_set()
    return int(found["spec"]["replicas"]) if found else 0


def unready(cluster: Cluster) -> list[str]:
    pods = cluster.pods()
    names = [f"{cluster.name}-{ordinal}" for ordinal in range(3)]
    return [name for name in names if not is_ready(pods.get(name))]


def kill_pods(cluster: Cluster, *ordinals: int, claims: bool = False) -> None:
    for ordinal in ordinals:
        name = f"{cluster.name}-{ordinal}"
        if claims:
            cluster.kube.delete(CLAIMS, cluster.namespace, f"data-{name}")
        if cluster.pod(ordinal):
            cluster.kube.delete(PODS, cluster.namespace, name, gracePeriodSeconds=0)
