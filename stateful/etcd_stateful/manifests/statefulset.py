"""The StatefulSet: pods whose `start` decides whether etcd may run, and etcd itself.

Parallel, because members need each other to become ready; OnDelete, because the operator alone
decides which pod goes next. Rendering is byte-stable: a change here is a new revision of every
cluster, so it belongs in the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import DEFAULT_STORAGE, EtcdCluster
from etcd_stateful.api.options import configuration
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.membership.versions import Version, parse_version

FIRST_EPOCH: Final = 1
"""Restore and recovery raise the epoch, which fences every volume of the one before."""

USER: Final = 65532
"""Distroless images' `nonroot`; upstream's image runs as root unless told otherwise."""

STOP_SECONDS: Final = 30

_CONFINED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def stateful_set(cluster: EtcdCluster, *, replicas: int, operator_image: str) -> Manifest:
    described = metadata(cluster, cluster.name)
    described["annotations"] = {naming.VERSION_ANNOTATION: str(cluster.version)}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": described,
        "spec": {
            "replicas": replicas,
            "serviceName": naming.headless_service(cluster.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
            "selector": {"matchLabels": naming.selector(cluster.name)},
            "template": _template(cluster, operator_image),
            "volumeClaimTemplates": [_claim(cluster)] if cluster.durable else [],
        },
    }


def version_of(live: Mapping[str, Any]) -> Version | None:
    """The version a live StatefulSet was rendered for."""
    annotations: Mapping[str, str] = live["metadata"].get("annotations") or {}
    return parse_version(annotations.get(naming.VERSION_ANNOTATION, ""))


def _template(cluster: EtcdCluster, operator_image: str) -> Manifest:
    pod = cluster.pod
    labels = dict(pod.labels) | naming.labels(cluster.name)
    spec: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "securityContext": _pod_security(cluster),
        "initContainers": [_start(cluster, operator_image)],
        "containers": [_etcd(cluster)],
        "volumes": _volumes(cluster),
        "topologySpreadConstraints": _spread(cluster),
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [dict(toleration) for toleration in pod.tolerations],
        "imagePullSecrets": [dict(secret) for secret in pod.image_pull_secrets],
        "priorityClassName": pod.priority_class,
        "affinity": _affinity(cluster),
    }
    return {
        "metadata": {"labels": labels, "annotations": dict(pod.annotations)},
        "spec": {key: value for key, value in spec.items() if value or value is False},
    }


def _start(cluster: EtcdCluster, operator_image: str) -> Manifest:
    return {
        "name": naming.START_CONTAINER,
        "image": operator_image,
        "command": ["python3", "-m", "etcd_operator.start"],
        "env": [
            _downward("POD_NAME", "metadata.name"),
            _downward("POD_UID", "metadata.uid"),
            _downward("POD_IP", "status.podIP"),
            {"name": "START_SETTINGS", "value": _start_settings(cluster)},
        ],
        "ports": [{"name": "start", "containerPort": naming.START_PORT}],
        "volumeMounts": [
            {"name": naming.DATA_VOLUME, "mountPath": naming.VOLUME_PATH},
            {"name": naming.KEY_VOLUME, "mountPath": _directory(naming.KEY_FILE), "readOnly": True},
        ],
        "securityContext": _CONFINED,
        **_resources(cluster),
    }


def _start_settings(cluster: EtcdCluster) -> str:
    service = naming.headless_service(cluster.name)
    settings = {
        "clusterUID": cluster.uid,
        "epoch": FIRST_EPOCH,
        "domain": f"{service}.{cluster.namespace}.svc{cluster.pod.cluster_domain}",
        "clientScheme": "http",
        "peerScheme": "http",
        "dnsTimeoutSeconds": cluster.pod.dns_timeout_seconds,
        "etcd": configuration(cluster.etcd, cluster.version),
    }
    return json.dumps(settings, sort_keys=True)


def _etcd(cluster: EtcdCluster) -> Manifest:
    return {
        "name": naming.ETCD_CONTAINER,
        "image": cluster.image,
        "command": ["/usr/local/bin/etcd", f"--config-file={naming.CONFIG_PATH}"],
        "env": [dict(variable) for variable in cluster.pod.environment],
        "ports": [
            {"name": "client", "containerPort": naming.CLIENT_PORT},
            {"name": "peer", "containerPort": naming.PEER_PORT},
            {"name": "metrics", "containerPort": naming.METRICS_PORT},
        ],
        "volumeMounts": [{"name": naming.DATA_VOLUME, "mountPath": naming.VOLUME_PATH}],
        "securityContext": _CONFINED,
        "startupProbe": _probe("/livez", period=1, failures=3600),
        "livenessProbe": _probe("/livez", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=1, failures=3),
        **_resources(cluster),
    }


def _probe(path: str, *, period: int, failures: int) -> Manifest:
    """`/livez` reads this member alone; `/readyz` a quorum, and is false for a learner.

    Never liveness by quorum: its loss would restart every member. The startup probe is patient: a
    large database takes long to open, and killing etcd at it would start over.
    """
    return {
        "httpGet": {"path": path, "port": naming.METRICS_PORT, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _pod_security(cluster: EtcdCluster) -> Manifest:
    """The restricted profile, unless the spec says otherwise key by key."""
    default: Manifest = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    chosen = default | dict(cluster.pod.security_context or {})
    if chosen["runAsUser"] == 0:
        chosen["runAsNonRoot"] = False
    return chosen


def _volumes(cluster: EtcdCluster) -> list[Manifest]:
    """The key is optional: a pod with data must start without the operator and its Secrets."""
    key = {
        "name": naming.KEY_VOLUME,
        "secret": {
            "secretName": naming.start_secret(cluster.name),
            "items": [{"key": "key", "path": "key"}],
            "defaultMode": 0o440,
            "optional": True,
        },
    }
    if cluster.durable:
        return [key]
    return [key, {"name": naming.DATA_VOLUME, "emptyDir": dict(cluster.pod.empty_dir or {})}]


def _claim(cluster: EtcdCluster) -> Manifest:
    """Claims have no owner: they outlive the cluster. They say from birth which one it was."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": DEFAULT_STORAGE}},
        **dict(cluster.pod.claim or {}),
    }
    return {
        "metadata": {
            "name": naming.DATA_VOLUME,
            "labels": naming.labels(cluster.name),
            "annotations": {naming.CLUSTER_UID: cluster.uid},
        },
        "spec": spec,
    }


def _spread(cluster: EtcdCluster) -> list[Manifest]:
    """Over nodes and zones where there are some; a wish that never keeps a pod waiting."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": naming.selector(cluster.name)},
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]


def _affinity(cluster: EtcdCluster) -> Manifest | None:
    """The spec's affinity, or for coreos's `antiAffinity` one member per host at most."""
    if cluster.pod.affinity is not None or not cluster.pod.anti_affinity:
        return dict(cluster.pod.affinity) if cluster.pod.affinity else None
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"etcd_cluster": cluster.name}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _resources(cluster: EtcdCluster) -> Manifest:
    """coreos applies them to etcd and to every init container."""
    return {"resources": dict(cluster.pod.resources)} if cluster.pod.resources else {}


def _downward(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _directory(path: str) -> str:
    return path.rpartition("/")[0]
