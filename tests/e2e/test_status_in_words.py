"""What cannot be done is reported soon, where a user looks, with a message that helps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.api import NAMESPACES, Json, Kind, Kube
from harness.clusters import Cluster, is_up
from harness.conditions import condition
from harness.damage import volume_of
from harness.node import root_of
from harness.place import RESTRICTED, Place
from harness.waiting import eventually, steadily

SUPPORTED = ("3.5.32", "3.6.12", "3.7.1")
SOON = 10
"""Seconds. Pods get a grace of ten before their waiting is reported."""


@pytest.mark.parametrize(
    "version",
    [
        "3.2.13",
        *(pytest.param(one, marks=pytest.mark.verify) for one in ("3.4.40", "3.6.11", "3.7.0")),
        "3.5.31",
        "3.8.0",
    ],
)
def test_an_unsupported_version_is_reported_and_creates_nothing(place: Place, version: str):
    cluster = place.declare(size=3, version=version)

    cluster.holds("UnsupportedVersion", version, *SUPPORTED, kind="Accepted", seconds=SOON)

    event = eventually("an event", lambda: said(cluster, "UnsupportedVersion"), seconds=5)
    assert all(word in event["message"] for word in SUPPORTED)
    assert makes_nothing(cluster)
    assert cluster.status()["phase"] == "Failed"


def test_a_corrected_version_is_used(place: Place):
    cluster = place.declare(size=1, version="3.2.13")
    cluster.holds("UnsupportedVersion", kind="Accepted", seconds=SOON)

    cluster.change(version="3.6.16")

    cluster.comes_up()
    assert cluster.status()["currentVersion"] == "3.6.16"


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.verify), 3])
def test_a_version_without_an_image_can_be_corrected_before_the_cluster_has_formed(
    place: Place, size: int
):
    """It was already on record, and later edits were ignored."""
    cluster = place.declare(size=size, version="3.7.99")
    waits_for(cluster, "etcd-0", "v3.7.99", "cannot be pulled")

    cluster.change(version="3.7.3")

    cluster.comes_up()
    assert cluster.status()["currentVersion"] == "3.7.3"
    cluster.client.put("a", "b")


def test_a_spec_with_tls_never_results_in_plaintext(place: Place):
    secrets = {"peerSecret": "peer", "serverSecret": "server"}
    tls = {"static": {"member": secrets, "operatorSecret": "client"}}
    cluster = place.declare(size=3, TLS=tls)

    cluster.holds("CertificatesUnusable", "Secret peer", "Secret server", "Secret client")

    steadily("no pods are made", cluster.stateful_set, lambda found: found is None, seconds=1.5)
    assert not cluster.pods()


def test_a_cluster_created_paused_creates_nothing_until_it_is_unpaused(place: Place):
    cluster = place.declare(size=1, paused=True)

    cluster.holds("SpecPaused", kind="Paused", seconds=SOON)
    assert makes_nothing(cluster)
    assert cluster.status()["controlPaused"] is True

    cluster.change(paused=False)
    cluster.comes_up()
    assert cluster.condition("Paused") == {}


def test_nothing_is_put_back_until_a_paused_cluster_is_unpaused(place: Place):
    cluster = place.declare(size=1).comes_up()
    cluster.client.put("before", "kept")
    cluster.change(paused=True)
    cluster.holds("SpecPaused", kind="Paused", seconds=SOON)

    cluster.kube.kubectl("-n", place.namespace, "delete", "service", "etcd-client")

    steadily(
        "it stays away",
        cluster.children,
        lambda found: "Service/etcd-client" not in found,
        seconds=3,
    )
    assert cluster.member(0).get("before") == "kept"
    cluster.change(paused=False)
    cluster.comes_up()
    assert "Service/etcd-client" in cluster.children()


def test_the_reason_a_pod_is_pending_is_reported(place: Place):
    image = place.declare(size=1, name="image", repository="localhost/nowhere/etcd")
    node = place.declare(size=1, name="node", pod={"nodeSelector": {"no-such": "node"}})
    storage = {"persistentVolumeClaimSpec": claim("absent")}
    volume = place.declare(size=1, name="volume", pod=storage)

    waits_for(image, "image-0", "localhost/nowhere/etcd:v3.7.3", "cannot be pulled")
    waits_for(node, "node-0", "cannot be scheduled", "node")
    waits_for(volume, "volume-0", "absent")


def test_a_missing_default_storage_class_is_reported(place: Place, no_default_class: None):
    cluster = place.declare(size=1)

    waits_for(cluster, "data-etcd-0", "no storage class", "storageClassName")


@pytest.fixture
def no_default_class(kube: Kube, local_node: None) -> Iterator[None]:
    """The local cluster's own class is not the default for a while, and for nobody on it."""
    kind = Kind("storageclasses", "storage.k8s.io/v1", "StorageClass", namespaced=False)
    note = "storageclass.kubernetes.io/is-default-class"
    kube.patch(kind, None, "local", {"metadata": {"annotations": {note: "false"}}})
    yield
    kube.patch(kind, None, "local", {"metadata": {"annotations": {note: "true"}}})


def test_a_refused_spec_leaves_the_cluster_running(place: Place):
    cluster = place.declare(size=1).comes_up()
    cluster.client.put("before", "kept")

    cluster.change(version="3.7.0")

    cluster.holds("UnsupportedVersion", kind="Accepted", seconds=SOON)
    assert cluster.status()["phase"] == "Running"
    assert cluster.condition("Available")["status"] == "True"
    assert cluster.condition("Degraded")["status"] == "False"
    assert cluster.client.get("before") == "kept"
    cluster.change(version=None)
    eventually("it is as declared again", cluster.body, is_up, seconds=SOON)


def test_the_steps_of_a_cluster_are_reported_as_events(place: Place):
    cluster = place.declare(size=1).comes_up()

    reasons = eventually(
        "the story",
        lambda: {one["reason"] for one in cluster.events()},
        lambda found: found >= {"Created", "TicketGiven", "Formed", "AsDeclared"},
        seconds=5,
    )

    assert not [one for one in cluster.events() if one["type"] == "Warning"], reasons
    described = place.kube.kubectl("-n", place.namespace, "describe", "etcd", "etcd")
    assert "Formed" in described


def test_a_member_is_confined(place: Place, local_node: None):
    """In a namespace that enforces the restricted level; what is on its disk included."""
    cluster = place.declare(size=1).comes_up()
    pod = cluster.pod(0)
    assert pod is not None
    sources = [next(key for key in volume if key != "name") for volume in pod["spec"]["volumes"]]

    assert set(sources) == {"persistentVolumeClaim", "secret"}, "a token would be projected"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    data = volume_of(cluster, 0) / "data"
    for folder in (data, data / "member"):
        assert folder.stat().st_mode & 0o777 == 0o700, folder
        assert folder.stat().st_uid == pod["spec"]["securityContext"]["runAsUser"]
    secrets = secret_files(pod)
    assert any(file.name.endswith(".key") for file in secrets)
    for file in secrets:
        told = file.stat()
        assert (told.st_uid, told.st_gid) == (0, pod["spec"]["securityContext"]["fsGroup"]), file
        assert told.st_mode & 0o7777 == 0o440, file


def test_the_operator_itself_is_confined(place: Place):
    """In a namespace that enforces the restricted level, as those of the clusters do."""
    namespace = place.kube.get(NAMESPACES, None, place.operator.namespace)
    assert namespace is not None
    assert namespace["metadata"]["labels"].items() >= RESTRICTED.items()
    pod = place.operator.deployment()["spec"]["template"]["spec"]
    container = pod["containers"][0]
    confined = {**pod.get("securityContext", {}), **container["securityContext"]}

    assert confined["runAsNonRoot"] is True
    assert confined["readOnlyRootFilesystem"] is True
    assert confined["allowPrivilegeEscalation"] is False
    assert confined["capabilities"] == {"drop": ["ALL"]}
    assert confined["seccompProfile"] == {"type": "RuntimeDefault"}


def secret_files(pod: Json) -> list[Path]:
    """Of etcd's Secrets, as it sees them itself."""
    volumes = {one["name"] for one in pod["spec"]["volumes"] if "secret" in one}
    [etcd] = pod["spec"]["containers"]
    folders = (
        root_of(pod, "etcd") / one["mountPath"].lstrip("/")
        for one in etcd["volumeMounts"]
        if one["name"] in volumes
    )
    return [file for folder in folders for file in folder.iterdir() if file.is_file()]


def waits_for(cluster: Cluster, *words: str) -> None:
    """Both the plan and a condition say so once the grace is over."""
    status = eventually(
        f"the plan says {words}",
        cluster.status,
        lambda status: all(word in status.get("plan", "") for word in words),
        seconds=60,
    )
    message = condition({"status": status}, "Progressing")["message"]
    assert all(word in message for word in words), message


def makes_nothing(cluster: Cluster) -> bool:
    steadily("nothing is made", cluster.children, lambda found: not found, seconds=1.5)
    return not cluster.pods() and not cluster.claims()


def said(cluster: Cluster, reason: str) -> Json | None:
    return next((one for one in cluster.events() if one["reason"] == reason), None)


def claim(storage_class: str) -> Json:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
