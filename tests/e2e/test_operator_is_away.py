"""The operator's whole release is removed and installed again; clusters do not notice."""

from __future__ import annotations

from typing import Any

import pytest
from harness.api import CRDS, ETCD_GROUP, PODS, ROOT
from harness.clusters import Cluster, is_ready, restarts
from harness.place import Place
from harness.release import Release
from harness.waiting import eventually

pytestmark = pytest.mark.alone


@pytest.mark.timeout(240)
def test_clusters_outlive_the_release_and_are_managed_again_after_a_reinstall(
    place: Place, release: Release
):
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    members, stateful_set, claims = seen(cluster)
    uids = cluster.pod_uids()

    release.uninstall()

    assert cluster.body() is not None, "helm uninstall has deleted the cluster"
    crds = [one["metadata"]["name"] for one in place.kube.list(CRDS)]
    assert sum(name.endswith(ETCD_GROUP) for name in crds) == len(list(ROOT.glob("crds/*.yaml")))
    assert cluster.pod_uids() == uids
    assert cluster.client.get("before") == "kept"

    for ordinal in range(3):
        comes_back(cluster, ordinal)
        assert eventually("data", lambda: cluster.client.get("before"), seconds=15) == "kept"
    everything_at_once(cluster)
    assert eventually("data", lambda: cluster.client.get("before"), seconds=15) == "kept"
    assert seen(cluster) == (members, stateful_set, claims)
    uids = cluster.pod_uids()

    release.install()

    place.declare(size=1, name="another").comes_up()
    cluster.comes_up()
    assert seen(cluster) == (members, stateful_set, claims)
    assert cluster.pod_uids() == uids
    assert sum(restarts(pod) for pod in cluster.pods().values()) == 0


@pytest.mark.timeout(240)
def test_an_upgrade_of_the_chart_leaves_clusters_running(place: Place, release: Release):
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    before, uids = seen(cluster), cluster.pod_uids()
    pods = set(release.operator.runs())

    release.upgrade(**CHANGED)

    eventually("other operator pods", lambda: not pods & set(release.operator.runs()), seconds=60)
    place.declare(size=1, name="another").comes_up()
    cluster.comes_up()
    assert seen(cluster) == before
    assert cluster.pod_uids() == uids
    assert cluster.client.get("before") == "kept"


@pytest.mark.timeout(120)
def test_an_event_repeated_by_the_next_operator_is_counted(place: Place):
    """One Event for one thing, however often operators come and go."""
    place.operator_may_restart = True
    cluster = place.declare(size=1, paused=True)
    # One that has just lost its Lease may have said it twice by now.
    before = eventually("it is said", lambda: told(cluster), seconds=15)

    place.operator.kill()

    eventually("it is counted", lambda: told(cluster), lambda now: now > before, seconds=60)
    assert len(told(cluster)) == 1


def told(cluster: Cluster) -> list[int]:
    return [one["count"] for one in cluster.events() if one["reason"] == "Paused"]


CHANGED = {"log.level": "DEBUG", "podAnnotations.changed": "yes"}
"""Values that give the operator another pod."""


def seen(cluster: Cluster) -> tuple[Any, ...]:
    """What must not change: members, the StatefulSet with its revisions, claims."""
    stateful_set = cluster.stateful_set()
    assert stateful_set is not None
    status = stateful_set["status"]
    revisions = (status["currentRevision"], status["updateRevision"])
    identity = (stateful_set["metadata"]["uid"], stateful_set["metadata"]["generation"], revisions)
    return cluster.client.members(), identity, cluster.claim_uids()


def comes_back(cluster: Cluster, ordinal: int) -> None:
    """Killed with nobody there but Kubernetes."""
    old = cluster.pod(ordinal)["metadata"]["uid"]
    cluster.kube.delete(PODS, cluster.namespace, f"{cluster.name}-{ordinal}", gracePeriodSeconds=0)
    eventually(
        f"{cluster.name}-{ordinal} is back",
        lambda: cluster.pod(ordinal),
        lambda pod: pod and pod["metadata"]["uid"] != old and is_ready(pod),
        seconds=60,
    )


def everything_at_once(cluster: Cluster) -> None:
    old = cluster.pod_uids()
    for name in old:
        cluster.kube.delete(PODS, cluster.namespace, name, gracePeriodSeconds=0)
    eventually(
        "all pods are back",
        cluster.pods,
        lambda pods: (
            len(pods) == len(old)
            and all(
                is_ready(pod) and pod["metadata"]["uid"] not in old.values()
                for pod in pods.values()
            )
        ),
        seconds=90,
    )
