"""From a manifest to a serving cluster: sizes, etcd minors, and every field of the status."""

from __future__ import annotations

import pytest
from harness.api import CLUSTERS, ROOT, SLICES
from harness.clusters import Cluster, is_ready
from harness.place import PLAINTEXT, Place
from harness.release import WAITING, helm
from harness.waiting import eventually

NEWEST = "3.7.3"
MEMBER_ID = "etcd.database.coreos.com/member-id"
CHART = ROOT / "charts" / "etcd-cluster"


@pytest.mark.parametrize("size", [1, 3, 5, pytest.param(7, marks=pytest.mark.verify)])
def test_a_cluster_of_each_size_serves(place: Place, size: int):
    cluster = place.declare(size=size).comes_up()

    cluster.client.put("greeting", "hello")

    assert cluster.client.get("greeting") == "hello"
    assert len(cluster.client.members().members) == size
    assert_status_agrees_with_etcd(cluster, size, NEWEST)


def test_a_cluster_without_tls_serves(place: Place):
    cluster = place.declare(size=3, TLS=PLAINTEXT).comes_up()

    cluster.client.put("greeting", "hello")

    assert cluster.credentials() is None
    assert cluster.client.get("greeting") == "hello"
    assert_status_agrees_with_etcd(cluster, 3, NEWEST, Plaintext="True")


@pytest.mark.parametrize("version", ["3.5.35", "3.6.16"])
def test_each_supported_minor_serves(place: Place, version: str):
    cluster = place.declare(size=3, version=version).comes_up()

    cluster.client.put("greeting", version)

    assert cluster.client.get("greeting") == version
    assert_status_agrees_with_etcd(cluster, 3, version)


def test_a_cluster_with_an_empty_dir_serves(place: Place):
    cluster = place.declare(size=3, pod={"emptyDir": {}}).comes_up()

    cluster.client.put("greeting", "hello")

    assert cluster.client.get("greeting") == "hello"
    assert not cluster.claims()


def test_the_client_service_selects_only_ready_members(place: Place):
    cluster = place.declare(size=3).comes_up()

    ready = {pod["status"]["podIP"] for pod in cluster.pods().values() if is_ready(pod)}

    assert len(ready) == 3
    eventually("the Service leads to them", lambda: served(cluster) == ready, seconds=10)


def served(cluster: Cluster) -> set[str]:
    """Addresses that the client Service leads to; its slices follow the pods a moment later."""
    slices = cluster.kube.list(
        SLICES, cluster.namespace, f"kubernetes.io/service-name={cluster.name}-client"
    )
    return {
        address
        for one in slices
        for endpoint in one.get("endpoints") or ()
        if endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    }


def test_columns_and_scale_show_the_cluster(place: Place):
    cluster = place.declare(size=1).comes_up()

    shown = place.kube.kubectl("-n", place.namespace, "get", "etcd", "-o", "wide")
    header, row = (line.split() for line in shown.strip().splitlines())
    scale = place.kube.request("GET", f"{CLUSTERS.url(place.namespace, cluster.name)}/scale")

    assert header[:5] == ["NAME", "PHASE", "SIZE", "READY", "VERSION"]
    assert row[:5] == ["etcd", "Running", "1", "1", NEWEST]
    assert row[-1] == cluster.client.members().cluster_id
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (1, 1)
    selected = place.kube.kubectl(
        "-n", place.namespace, "get", "pods", "-l", scale["status"]["selector"], "-o", "name"
    )
    assert selected.split() == ["pod/etcd-0"]


@pytest.mark.verify
def test_many_clusters_share_a_namespace(place: Place):
    clusters = [place.declare(size=1, name=name) for name in ("a", "b", "c", "d")]

    identities = {cluster.comes_up().client.members().cluster_id for cluster in clusters}

    assert len(identities) == len(clusters)


def test_helm_waits_until_all_members_serve(place: Place):
    """It took the cluster for ready as soon as it was applied."""
    helm("install", "etcd", str(CHART), *WAITING, f"--namespace={place.namespace}")

    cluster = place.cluster()
    assert cluster.condition("Ready")["status"] == "True"
    assert {name: is_ready(pod) for name, pod in cluster.pods().items()} == {
        f"etcd-{ordinal}": True for ordinal in range(3)
    }


def assert_status_agrees_with_etcd(cluster: Cluster, size: int, version: str, **more: str) -> None:
    status, listed = cluster.status(), cluster.client.members()
    assert status["clusterID"] == listed.cluster_id == cluster.record()["clusterID"]
    assert status["members"] == {"ready": listed.names, "unready": []}
    assert (status["size"], status["readyMembers"]) == (size, size)
    assert (status["currentVersion"], status["targetVersion"]) == (version, "")
    assert (status["serviceName"], status["clientPort"]) == (f"{cluster.name}-client", 2379)
    assert (status["phase"], status["controlPaused"]) == ("Running", False)
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Accepted": "True",
        "Available": "True",
        "Progressing": "False",
        "Degraded": "False",
        "Ready": "True",
        **({"DrainsBlocked": "True"} if size == 1 else {}),
        **more,
    }
    assert {cluster.member(one).status()["version"] for one in range(size)} == {version}
    eventually(
        "each pod says which member serves in it",
        lambda: labelled(cluster),
        lambda found: found == listed.ids,
        seconds=10,
    )


def labelled(cluster: Cluster) -> dict[str, str | None]:
    """No step of the operator waits for these labels, nor does its word that all is well."""
    return {name: pod["metadata"]["labels"].get(MEMBER_ID) for name, pod in cluster.pods().items()}
