"""Pods and Services of the other approach. What both sides can share comes from our StatefulSet.

Shared: image, etcd's options, probes, security context, ports, spread over nodes. Different: random
names, `restartPolicy: Never`, an `emptyDir`, the DNS check before etcd, and etcd's flags. The DNS
check of the coreos operator ran in busybox; here it runs in our image, at the same interval.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.api.options import configuration
from etcd_stateful.manifests.statefulset import stateful_set

Json = dict[str, Any]

SUFFIX_LENGTH = 10
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of Kubernetes' own random names, without vowels, so that they spell no words."""

VERSION_ANNOTATION = "etcd.version"

CHECK_DNS = """
import socket, sys, time
while True:
    try:
        socket.getaddrinfo(sys.argv[1], None)
        break
    except OSError:
        time.sleep(1)
"""


@dataclass(frozen=True, slots=True)
class Home:
    """The cluster's namespace, the owner of its objects, and the image of the DNS check."""

    namespace: str
    name: str
    owner: Json
    helper_image: str
    etcd: Json
    """`spec.etcd` of an EtcdCluster: etcd's options, which both sides use."""

    tolerations: Sequence[Json] = ()

    def host(self, member: str) -> str:
        return f"{member}.{self.name}.{self.namespace}.svc"

    def peer_url(self, member: str) -> str:
        return f"http://{self.host(member)}:2380"

    @property
    def labels(self) -> dict[str, str]:
        return {"app": "etcd", "etcd_cluster": self.name}


def new_name(cluster: str) -> str:
    return f"{cluster}-{''.join(random.choices(SUFFIX_LETTERS, k=SUFFIX_LENGTH))}"


def services(home: Home) -> list[Json]:
    client = {"name": "client", "port": 2379, "targetPort": 2379}
    peer = {"name": "peer", "port": 2380, "targetPort": 2380}
    headless = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": home.labels,
        "ports": [client, peer],
    }
    leading = {"selector": home.labels, "ports": [client]}
    return [
        {"metadata": _metadata(home, f"{home.name}-client"), "spec": leading},
        {"metadata": _metadata(home, home.name), "spec": headless},
    ]


def pod(home: Home, version: str, member: str, members: Iterable[str], token: str = "") -> Json:
    """The pod of a member. Only the seed has a token, and starts a new cluster."""
    rendered = _rendered(home, version)
    shared = rendered["spec"]["template"]["spec"]
    etcd = next(one for one in shared["containers"] if one["name"] == "etcd")
    metadata = _metadata(home, member)
    metadata["labels"] = {**home.labels, "etcd_node": member}
    metadata["annotations"] = {VERSION_ANNOTATION: version}
    container = {
        **etcd,
        "command": ["/usr/local/bin/etcd", *_flags(home, version, member, members, token)],
        "volumeMounts": [{"name": "etcd-data", "mountPath": "/var/etcd"}],
        "imagePullPolicy": "IfNotPresent",
    }
    spec = {
        "hostname": member,
        "subdomain": home.name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": shared["securityContext"],
        "topologySpreadConstraints": [
            {**one, "labelSelector": {"matchLabels": home.labels}}
            for one in shared["topologySpreadConstraints"]
        ],
        "tolerations": list(home.tolerations),
        "initContainers": [_check_dns(home, member, etcd["securityContext"])],
        "containers": [container],
        "volumes": [{"name": "etcd-data", "emptyDir": {}}],
    }
    return {"metadata": metadata, "spec": spec}


def image_patch(home: Home, version: str) -> list[Json]:
    """The patch that upgrades a running pod: the image of its container, and the annotation."""
    image, note = _cluster(home, version).image, f"/metadata/annotations/{VERSION_ANNOTATION}"
    return [
        {"op": "replace", "path": "/spec/containers/0/image", "value": image},
        {"op": "replace", "path": note, "value": version},
    ]


def _check_dns(home: Home, member: str, security: Mapping[str, Any]) -> Json:
    return {
        "name": "check-dns",
        "image": home.helper_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-I", "-S", "-c", CHECK_DNS, home.host(member)],
        "securityContext": dict(security),
    }


def _flags(home: Home, version: str, member: str, members: Iterable[str], token: str) -> list[str]:
    cluster = _cluster(home, version)
    initial = ",".join(f"{one}={home.peer_url(one)}" for one in members)
    chosen: Json = {
        "data-dir": "/var/etcd/data",
        "name": member,
        "initial-advertise-peer-urls": home.peer_url(member),
        "listen-peer-urls": "http://0.0.0.0:2380",
        "listen-client-urls": "http://0.0.0.0:2379",
        "advertise-client-urls": f"http://{home.host(member)}:2379",
        "listen-metrics-urls": "http://0.0.0.0:2381",
        "initial-cluster": initial,
        "initial-cluster-state": "new" if token else "existing",
        **({"initial-cluster-token": token} if token else {}),
        **configuration(cluster.etcd, cluster.version),
    }
    return [f"--{name}={value}" for name, value in chosen.items()]


def _rendered(home: Home, version: str) -> Json:
    return stateful_set(_cluster(home, version), replicas=1, operator_image="none")


def _cluster(home: Home, version: str) -> EtcdCluster:
    metadata = {"name": home.name, "namespace": home.namespace, "uid": "none"}
    spec = {"size": 1, "version": version, "etcd": home.etcd}
    return parse_cluster({"metadata": metadata, "spec": spec})


def _metadata(home: Home, name: str) -> Json:
    return {
        "name": name,
        "namespace": home.namespace,
        "labels": home.labels,
        "ownerReferences": [home.owner],
    }
