"""The operator's whole release goes and comes; clusters neither need nor notice it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from harness.api import CRDS, DEPLOYMENTS, ETCD_GROUP, KUBECONFIG, PODS, ROOT
from harness.clusters import Cluster, is_ready, restarts
from harness.operator import Operator
from harness.place import Place
from harness.waiting import eventually

CHART = ROOT / "charts" / "etcd-operator"


@dataclass
class Release:
    """The operator as helm has installed it, and can again."""

    operator: Operator
    values: str

    def uninstall(self) -> None:
        helm("uninstall", self.operator.release, *self._there, "--wait")
        eventually("the operator's pods are gone", lambda: not self.operator.pods(), seconds=60)

    def install(self) -> None:
        self._bring("install")

    def upgrade(self, **changed: str) -> None:
        self._bring("upgrade", *(f"--set={key}={value}" for key, value in changed.items()))

    @property
    def is_there(self) -> bool:
        where = (self.operator.namespace, self.operator.name)
        return self.operator.kube.get(DEPLOYMENTS, *where) is not None

    @property
    def _there(self) -> tuple[str, ...]:
        return (f"--namespace={self.operator.namespace}",)

    def _bring(self, verb: str, *words: str) -> None:
        ways = ("--values=-", "--wait", "--timeout=90s", *self._there)
        helm(verb, self.operator.release, str(CHART), *ways, *words, stdin=self.values)


@pytest.fixture
def release(operator: Operator, place: Place) -> Iterator[Release]:
    place.operator_may_restart = True
    where = f"--namespace={operator.namespace}"
    values = helm("get", "values", operator.release, where, "--output=json")
    release = Release(operator, values)
    yield release
    if release.is_there:
        release.upgrade()
    else:
        release.install()


@pytest.mark.timeout(240)
def test_clusters_outlive_the_release_and_are_taken_on_again(place: Place, release: Release):
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    members, stateful_set, claims = seen(cluster)
    uids = cluster.pod_uids()

    release.uninstall()

    assert cluster.body() is not None, "helm uninstall has deleted the cluster"
    crds = [one["metadata"]["name"] for one in place.kube.list(CRDS)]
    assert sum(name.endswith(ETCD_GROUP) for name in crds) == 3
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


def helm(*words: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["helm", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "KUBECONFIG": str(KUBECONFIG)},
    )
    assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
    return done.stdout
