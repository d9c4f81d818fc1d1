"""The StatefulSet: pods whose `start` decides whether etcd may run, and etcd itself.

Parallel, because members need each other to become ready; OnDelete, because the operator alone
decides which pod goes next. Rendering is byte-stable: a change here is a new revision of every
cluster, so it belongs in the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import DEFAULT_STORAGE, EtcdCluster
from etcd_stateful.api.options import configuration
from etcd_stateful.api.tls import NO_TLS, Level, Levels, Links, dump_links, load_links
from etcd_stateful.manifests import tls
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.records import FIRST_EPOCH
from etcd_stateful.untrusted import loads
from etcd_stateful.versions import Version, parse_version

USER: Final = 65532
"""Distroless images' `nonroot`; upstream's image runs as root unless told otherwise."""

STOP_SECONDS: Final = 30

PATIENCE: Final = 1800
"""Seconds of etcd's life before liveness is asked for: a large database takes long to open, and
killing etcd at it would start over.

A startup probe would say when that is over, but at the price of a second and more at each start of
a member: it ticks once a second, and the kubelet looks at readiness at its next tick after that.
"""

_SETTINGS: Final = "START_SETTINGS"

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

RESTRICTED: Final[Manifest] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What Kubernetes' restricted profile asks of a pod."""

CONFINED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""And of each container; a root file system that nobody writes to is more than it asks."""


def stateful_set(
    cluster: EtcdCluster, *, replicas: int, operator_image: str, epoch: int = FIRST_EPOCH
) -> Manifest:
    described = metadata(cluster, cluster.name)
    described["annotations"] = {naming.VERSION_ANNOTATION: str(cluster.version)}
    if not cluster.links.are_plaintext:
        described["annotations"][naming.LINKS_ANNOTATION] = dump_links(cluster.links)
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
            "template": _template(cluster, operator_image, epoch),
            "volumeClaimTemplates": [_claim(cluster)] if cluster.durable else [],
        },
    }


def version_of(live: Mapping[str, Any]) -> Version | None:
    """The version a live StatefulSet was rendered for."""
    annotations: Mapping[str, str] = live["metadata"].get("annotations") or {}
    return parse_version(annotations.get(naming.VERSION_ANNOTATION, ""))


def links_of(live: Mapping[str, Any]) -> Links:
    """The links a live StatefulSet was rendered for; raises ValueError, KeyError or TypeError."""
    annotations: Mapping[str, str] = live["metadata"].get("annotations") or {}
    text = annotations.get(naming.LINKS_ANNOTATION)
    return load_links(loads(text)) if text else NO_TLS


def _template(cluster: EtcdCluster, operator_image: str, epoch: int) -> Manifest:
    pod = cluster.pod
    labels = dict(pod.labels) | naming.labels(cluster.name)
    spec: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "securityContext": pod_security(cluster),
        "initContainers": [_start(cluster, operator_image, epoch)],
        "containers": [_etcd(cluster)],
        "volumes": _volumes(cluster),
        "topologySpreadConstraints": _spread(cluster),
        **placement(cluster),
    }
    return {
        "metadata": {
            "labels": labels,
            "annotations": dict(pod.annotations) | {naming.SPEC_HASH: cluster.template_hash},
        },
        "spec": {key: value for key, value in spec.items() if value or value is False},
    }


def _start(cluster: EtcdCluster, operator_image: str, epoch: int) -> Manifest:
    return {
        "name": naming.START_CONTAINER,
        "image": operator_image,
        "command": ["python3", "-m", "etcd_operator.start"],
        "env": [
            downward("POD_NAME", "metadata.name"),
            downward("POD_UID", "metadata.uid"),
            downward("POD_IP", "status.podIP"),
            {"name": _SETTINGS, "value": start_settings(cluster, epoch)},
        ],
        "ports": [{"name": "start", "containerPort": naming.START_PORT}],
        "volumeMounts": [
            data_mount(),
            {"name": naming.KEY_VOLUME, "mountPath": _directory(naming.KEY_FILE), "readOnly": True},
        ],
        "securityContext": CONFINED,
        **resources(cluster),
    }


def start_settings(cluster: EtcdCluster, epoch: int) -> str:
    """START_SETTINGS, which `start_config` reads."""
    service = naming.headless_service(cluster.name)
    settings = {
        "clusterUID": cluster.uid,
        "epoch": epoch,
        "domain": f"{service}.{cluster.namespace}.svc{cluster.pod.cluster_domain}",
        "clientScheme": "https" if cluster.links.client.is_encrypted else "http",
        "peerScheme": cluster.links.levels.peer_scheme,
        "dnsTimeoutSeconds": cluster.pod.dns_timeout_seconds,
        "etcd": configuration(cluster.etcd, cluster.version) | tls.options(cluster),
    }
    if cluster.links.client.between:
        settings["plaintextClients"] = True
    return json.dumps(settings, sort_keys=True)


def levels_in(pod: Mapping[str, Any]) -> Levels | None:
    """How far pods of this spec are from plaintext to TLS; None where it does not say."""
    return _levels(_settings_in(pod))


def epoch_in(pod: Mapping[str, Any]) -> int | None:
    """Whose data `start` looks for in pods of this spec; None where it does not say."""
    return _whole(_settings_in(pod), "epoch")


def quota_in(pod: Mapping[str, Any]) -> int:
    """The quota in bytes that etcd is started with in pods of this spec; 0 where none is said."""
    return _whole(_settings_in(pod), "etcd", "quota-backend-bytes") or 0


def _settings_in(pod: Mapping[str, Any]) -> str:
    containers = pod.get("initContainers") or ()
    starts = (one for one in containers if one.get("name") == naming.START_CONTAINER)
    variables = (variable for start in starts for variable in start.get("env") or ())
    told = (one.get("value") for one in variables if one.get("name") == _SETTINGS)
    return next(told, None) or ""


@lru_cache(maxsize=4096)
def _whole(settings: str, *path: str) -> int | None:
    try:
        said = json.loads(settings)
        for key in path:
            said = said[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return said if type(said) is int else None


@lru_cache(maxsize=4096)
def _levels(settings: str) -> Levels | None:
    """Kept, as each look at a cluster asks for each of its pods."""
    try:
        said = json.loads(settings)
        has_certificate = "peer-transport-security" in said.get("etcd", {})
        peer = _level(said["peerScheme"], between=has_certificate and said["peerScheme"] == "http")
        return Levels(peer, _level(said["clientScheme"], between="plaintextClients" in said))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _level(scheme: str, *, between: bool) -> Level:
    if between:
        return Level.BETWEEN
    return Level.TLS if scheme == "https" else Level.PLAINTEXT


def _etcd(cluster: EtcdCluster) -> Manifest:
    return {
        "name": naming.ETCD_CONTAINER,
        "image": cluster.image,
        "command": ["/usr/local/bin/etcd", f"--config-file={naming.CONFIG_PATH}"],
        "env": _environment(cluster),
        "ports": [
            {"name": "client", "containerPort": naming.CLIENT_PORT},
            {"name": "peer", "containerPort": naming.PEER_PORT},
            {"name": "metrics", "containerPort": naming.METRICS_PORT},
        ],
        "volumeMounts": [data_mount(), *tls.mounts(cluster)],
        "securityContext": CONFINED,
        "livenessProbe": _probe("/livez", period=10, failures=6, delay=PATIENCE),
        "readinessProbe": _probe("/readyz", period=1, failures=3),
        # etcd's last words, by which damaged data is told from all else that makes it fail.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **resources(cluster),
    }


def _environment(cluster: EtcdCluster) -> list[Manifest]:
    """What the spec gives, and where it is silent: words for etcdctl, and quiet from Go.

    The kubelet keeps the last 2 KiB of what a container said. Go's stack would fill them, and
    etcd's own words, by which damaged data is recognised, be gone.
    """
    given = [dict(variable) for variable in cluster.pod.environment]
    names = {variable.get("name") for variable in given}
    ours = {"GOTRACEBACK": "none"} | tls.environment(cluster)
    return [{"name": name, "value": ours[name]} for name in ours if name not in names] + given


def _probe(path: str, *, period: int, failures: int, delay: int = 0) -> Manifest:
    """`/livez` reads this member alone; `/readyz` a quorum, and is false for a learner.

    Never liveness by quorum: its loss would restart every member.
    """
    return {
        "httpGet": {"path": path, "port": naming.METRICS_PORT, "scheme": "HTTP"},
        **({"initialDelaySeconds": delay} if delay else {}),
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def pod_security(cluster: EtcdCluster) -> Manifest:
    """The restricted profile, unless the spec says otherwise key by key."""
    chosen = RESTRICTED | dict(cluster.pod.security_context or {})
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
    mounted = [key, *tls.volumes(cluster)]
    if cluster.durable:
        return mounted
    return [*mounted, {"name": naming.DATA_VOLUME, "emptyDir": dict(cluster.pod.empty_dir or {})}]


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


def first_claim(cluster: EtcdCluster, ordinal: int = 0) -> Manifest:
    """The claim of an ordinal as the StatefulSet will find it: just what it would have made."""
    template = _claim(cluster)
    name = f"{template['metadata']['name']}-{naming.pod(cluster.name, ordinal)}"
    place = {"name": name, "namespace": cluster.namespace}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": template["metadata"] | place,
        "spec": template["spec"],
    }


def _spread(cluster: EtcdCluster) -> list[Manifest]:
    """Over nodes; a wish that never keeps a pod waiting.

    Zones are wished for by affinity: the scheduler's scoring leaves out every node that lacks any
    of these keys, so on nodes without a zone a constraint for it would undo the other.
    """
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": naming.selector(cluster.name)},
        }
    ]


def placement(cluster: EtcdCluster) -> Manifest:
    """Where a pod may run, and with which secrets it pulls: the same for members and Jobs."""
    pod = cluster.pod
    return {
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [dict(toleration) for toleration in pod.tolerations],
        "imagePullSecrets": [dict(secret) for secret in pod.image_pull_secrets],
        "priorityClassName": pod.priority_class,
        "affinity": _affinity(cluster),
    }


def _affinity(cluster: EtcdCluster) -> Manifest | None:
    """The spec's affinity; otherwise other zones are better, and with coreos's `antiAffinity` each
    host has one member at most."""
    if cluster.pod.affinity is not None:
        return dict(cluster.pod.affinity) or None
    apart = {"labelSelector": {"matchLabels": {"etcd_cluster": cluster.name}}}
    zones = {"weight": 100, "podAffinityTerm": {"topologyKey": ZONE, **apart}}
    rules: Manifest = {"preferredDuringSchedulingIgnoredDuringExecution": [zones]}
    if cluster.pod.anti_affinity:
        hosts = {"topologyKey": HOST, **apart}
        rules["requiredDuringSchedulingIgnoredDuringExecution"] = [hosts]
    return {"podAntiAffinity": rules}


def resources(cluster: EtcdCluster) -> Manifest:
    """coreos applies them to etcd and to every init container."""
    return {"resources": dict(cluster.pod.resources)} if cluster.pod.resources else {}


def data_mount() -> Manifest:
    return {"name": naming.DATA_VOLUME, "mountPath": naming.VOLUME_PATH}


def downward(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _directory(path: str) -> str:
    return path.rpartition("/")[0]
