"""Pods and Services of the other approach: what is different, and what is shared with ours."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "comparison"))

from random_names import manifests

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.statefulset import stateful_set

Json = dict[str, Any]

ETCD = {"snapshotCount": 2000}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u", "controller": True}
HOME = manifests.Home("ns", "c", OWNER, "helper:1", ETCD)


@pytest.fixture
def seed() -> Json:
    return manifests.pod(HOME, "3.7.2", "c-a", ["c-a"], token="once")


@pytest.fixture
def joining() -> Json:
    return manifests.pod(HOME, "3.7.2", "c-b", ["c-a", "c-b"])


@pytest.fixture
def ours() -> Json:
    metadata = {"name": "c", "namespace": "ns", "uid": "u"}
    cluster = parse_cluster({"metadata": metadata, "spec": {"size": 3, "version": "3.7.2"}})
    rendered = stateful_set(cluster, replicas=3, operator_image="helper:1")
    return dict(rendered["spec"]["template"]["spec"])


def etcd(pod: Json) -> Json:
    (container,) = pod["spec"]["containers"]
    return dict(container)


def flags(pod: Json) -> dict[str, str]:
    command = etcd(pod)["command"][1:]
    return dict(flag.removeprefix("--").split("=", 1) for flag in command)


def test_a_name_is_the_cluster_s_and_ten_random_letters():
    names = {manifests.new_name("c") for _ in range(100)}

    assert len(names) == 100
    assert all(re.fullmatch(r"c-[a-z0-9]{10}", name) for name in names)


def test_the_pod_has_their_labels_annotation_and_owner(seed: Json):
    metadata = seed["metadata"]

    assert metadata["labels"] == {"app": "etcd", "etcd_cluster": "c", "etcd_node": "c-a"}
    assert metadata["annotations"] == {"etcd.version": "3.7.2"}
    assert metadata["ownerReferences"] == [OWNER]


def test_the_pod_never_restarts_and_has_no_volume_of_its_own(seed: Json):
    spec = seed["spec"]

    assert spec["restartPolicy"] == "Never"
    assert spec["volumes"] == [{"name": "etcd-data", "emptyDir": {}}]
    assert etcd(seed)["volumeMounts"] == [{"name": "etcd-data", "mountPath": "/var/etcd"}]
    assert spec["automountServiceAccountToken"] is False
    assert (spec["hostname"], spec["subdomain"]) == ("c-a", "c")


def test_the_dns_check_runs_before_etcd_and_asks_for_the_pod_s_own_name(seed: Json):
    (check,) = seed["spec"]["initContainers"]

    assert check["name"] == "check-dns"
    assert check["command"][-1] == "c-a.c.ns.svc"
    assert "sleep(1)" in manifests.CHECK_DNS


def test_the_seed_alone_begins_a_cluster_with_a_token(seed: Json, joining: Json):
    assert flags(seed)["initial-cluster-state"] == "new"
    assert flags(seed)["initial-cluster-token"] == "once"
    assert flags(seed)["initial-cluster"] == "c-a=http://c-a.c.ns.svc:2380"
    assert flags(joining)["initial-cluster-state"] == "existing"
    assert "initial-cluster-token" not in flags(joining)
    assert flags(joining)["initial-cluster"] == (
        "c-a=http://c-a.c.ns.svc:2380,c-b=http://c-b.c.ns.svc:2380"
    )


def test_the_member_is_called_as_its_pod_and_found_by_its_name(joining: Json):
    told = flags(joining)

    assert told["name"] == "c-b"
    assert told["data-dir"] == "/var/etcd/data"
    assert told["initial-advertise-peer-urls"] == "http://c-b.c.ns.svc:2380"
    assert told["advertise-client-urls"] == "http://c-b.c.ns.svc:2379"


def test_image_probes_ports_and_security_are_ours(seed: Json, ours: Json):
    (theirs,), (mine,) = seed["spec"]["containers"], ours["containers"]

    for key in ("image", "ports", "securityContext", *(key for key in mine if "Probe" in key)):
        assert theirs[key] == mine[key], key
    assert seed["spec"]["securityContext"] == ours["securityContext"]


def test_etcd_s_own_options_are_ours(seed: Json):
    told = flags(seed)

    assert told["snapshot-count"] == "2000"
    assert told["auto-compaction-mode"] == "periodic"
    assert told["election-timeout"] == "1000"
    assert "CompactHashCheck=true" in told["feature-gates"]


def test_pods_spread_over_nodes_as_ours_do(seed: Json, ours: Json):
    def wish(spec: Json) -> list[tuple[str, int, str]]:
        return [
            (one["topologyKey"], one["maxSkew"], one["whenUnsatisfiable"])
            for one in spec["topologySpreadConstraints"]
        ]

    assert wish(seed["spec"]) == wish(ours)
    for one in seed["spec"]["topologySpreadConstraints"]:
        assert one["labelSelector"] == {"matchLabels": {"app": "etcd", "etcd_cluster": "c"}}


def test_the_services_are_theirs():
    client, headless = manifests.services(HOME)

    assert client["metadata"]["name"] == "c-client"
    assert "publishNotReadyAddresses" not in client["spec"]
    assert headless["metadata"]["name"] == "c"
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    for service in (client, headless):
        assert service["spec"]["selector"] == {"app": "etcd", "etcd_cluster": "c"}
        assert service["metadata"]["ownerReferences"] == [OWNER]


def test_an_upgrade_patches_image_and_annotation_of_the_live_pod():
    assert manifests.image_patch(HOME, "3.7.3") == [
        {
            "op": "replace",
            "path": "/spec/containers/0/image",
            "value": "quay.io/coreos/etcd:v3.7.3",
        },
        {"op": "replace", "path": "/metadata/annotations/etcd.version", "value": "3.7.3"},
    ]
