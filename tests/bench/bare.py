"""The baseline: the StatefulSet from etcd's own website, without an operator.

https://etcd.io/docs/v3.6/op-guide/kubernetes/. Only what makes the two sides comparable is changed:
image, probes, security context and volume are those that the operator renders, and the
anti-affinity is left out because the machine has one node.
"""

from __future__ import annotations

from typing import Any

from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.statefulset import stateful_set

Json = dict[str, Any]

TICKET_SECONDS = 0.15
"""From the first question of the operator to the ticket, on a quiet machine."""


IMAGE = "/image"

START = f"""
import os, sys, time
import etcd_operator.start.process
time.sleep({TICKET_SECONDS})
os.execv(sys.argv[1], sys.argv[1:])
"""
"""In place of `start`: its imports, then the time that a ticket takes."""

PLAINTEXT: Json = {"peer": "Plaintext", "client": "Plaintext"}


def ours(name: str, size: int = 3, *, tls: bool = False, **spec: Any) -> Json:
    """The EtcdCluster that is measured. It has no TLS beside the baseline, which has none."""
    return {
        "apiVersion": "etcd.database.coreos.com/v1beta2",
        "kind": "EtcdCluster",
        "metadata": {"name": name},
        "spec": {"size": size} | ({} if tls else {"TLS": PLAINTEXT}) | spec,
    }


def service(name: str) -> Json:
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app": name},
            "ports": [
                {"name": "client", "port": 2379},
                {"name": "peer", "port": 2380},
                {"name": "metrics", "port": 2381},
            ],
        },
    }


def bare(
    name: str,
    namespace: str,
    size: int = 3,
    *,
    gated: bool = False,
    mounted: str = "",
    **spec: Any,
) -> Json:
    """The website's StatefulSet: all pods start at once, with `initial-cluster-state: new`.

    Args:
        gated: adds an init container that ends at once, to measure the cost of any init container.
        mounted: the operator's image. With it etcd's own container first runs what `start` needs to
            run, from a volume with that image: what a `start` without an init container would cost.
        spec: what an EtcdCluster would say of the version.
    """
    rendered = _rendered(name, namespace, size, **spec)
    pod = rendered["spec"]["template"]["spec"]
    etcd = next(one for one in pod["containers"] if one["name"] == "etcd")
    container = {
        "name": "etcd",
        "image": etcd["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/local/bin/etcd"],
        "args": _arguments(name, namespace, size),
        "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": etcd["ports"],
        "securityContext": etcd["securityContext"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        **{key: value for key, value in etcd.items() if key.endswith("Probe")},
    }
    gate = {
        "name": "gate",
        "image": etcd["image"],
        "command": ["/usr/local/bin/etcd", "--version"],
        "securityContext": etcd["securityContext"],
    }
    if mounted:
        _start_from_volume(container)
    claim = rendered["spec"]["volumeClaimTemplates"][0]
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "serviceName": name,
            "replicas": size,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "securityContext": pod["securityContext"],
                    "terminationGracePeriodSeconds": pod["terminationGracePeriodSeconds"],
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    **({"initContainers": [gate]} if gated else {}),
                    "containers": [container],
                    **({"volumes": [_volume(mounted)]} if mounted else {}),
                },
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim["spec"]}],
        },
    }


def _volume(image: str) -> Json:
    """The file system of an image, on by default since Kubernetes 1.35."""
    return {"name": "image", "image": {"reference": image, "pullPolicy": "IfNotPresent"}}


def _start_from_volume(container: Json) -> None:
    """Runs Python of another image in front of etcd, with that image's loader and libraries."""
    libraries = f"{IMAGE}/usr/lib/x86_64-linux-gnu"
    container["command"] = [
        f"{libraries}/ld-linux-x86-64.so.2",
        *("--library-path", libraries),
        *(f"{IMAGE}/usr/bin/python3", "-c", START),
        *container["command"],
    ]
    found = {"PYTHONHOME": f"{IMAGE}/usr", "PYTHONPATH": f"{IMAGE}/app"}
    container["env"] += [{"name": name, "value": value} for name, value in found.items()]
    container["volumeMounts"].append({"name": "image", "mountPath": IMAGE})


def _arguments(name: str, namespace: str, size: int) -> list[str]:
    def host(pod: str) -> str:
        return f"{pod}.{name}.{namespace}.svc"

    members = [f"{name}-{ordinal}" for ordinal in range(size)]
    initial = ",".join(f"{member}=http://{host(member)}:2380" for member in members)
    return [
        "--name=$(NAME)",
        "--data-dir=/data/etcd",
        "--listen-peer-urls=http://0.0.0.0:2380",
        "--listen-client-urls=http://0.0.0.0:2379",
        f"--advertise-client-urls=http://{host('$(NAME)')}:2379",
        "--initial-cluster-state=new",
        f"--initial-cluster-token=etcd-{namespace}",
        f"--initial-cluster={initial}",
        f"--initial-advertise-peer-urls=http://{host('$(NAME)')}:2380",
        "--listen-metrics-urls=http://0.0.0.0:2381",
    ]


def _rendered(name: str, namespace: str, size: int, **spec: Any) -> Json:
    body = ours(name, size, **spec)
    body["metadata"] |= {"namespace": namespace, "uid": "none", "generation": 1}
    return stateful_set(parse_cluster(body), replicas=size, operator_image="none")
