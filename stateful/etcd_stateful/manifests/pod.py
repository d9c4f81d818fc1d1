"""The pod template of a member: `start` as the init container, etcd, and where both run.

Members' Jobs share parts of it. A change here is a new revision of every cluster, as in
`statefulset`.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests import start_settings, tls
from etcd_stateful.manifests.common import Manifest, without_empty
from etcd_stateful.manifests.secret import KEY

USER: Final = 65532
"""Distroless images' `nonroot`; upstream's image runs as root unless told otherwise."""

STOP_SECONDS: Final = 30

LIVENESS_DELAY: Final = 1800
"""Seconds before the first liveness probe: opening a large database takes long, and killing etcd
meanwhile would only start it over.

A startup probe would end as soon as etcd is up, but it would delay each start by a second or more:
its shortest period is a second, and readiness is probed only after that.
"""

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

RESTRICTED_POD: Final[Manifest] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the restricted Pod Security Standard requires of a pod."""

RESTRICTED_CONTAINER: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""What it requires of each container; a read-only root file system is more than that."""


def template(cluster: EtcdCluster, operator_image: str, epoch: int) -> Manifest:
    """The `spec.template` of the StatefulSet, for members of this epoch."""
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
        "spec": without_empty(spec),
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
            start_settings.variable(cluster, epoch),
        ],
        "ports": [{"name": "start", "containerPort": naming.START_PORT}],
        "volumeMounts": [
            data_mount(),
            {"name": naming.KEY_VOLUME, "mountPath": naming.KEY_FOLDER, "readOnly": True},
        ],
        "securityContext": RESTRICTED_CONTAINER,
        **resources(cluster),
    }


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
        "securityContext": RESTRICTED_CONTAINER,
        "livenessProbe": _probe("/livez", period=10, failures=6, delay=LIVENESS_DELAY),
        "readinessProbe": _probe("/readyz", period=1, failures=3),
        # etcd's last log lines show whether it fails on damaged data or for another reason.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **resources(cluster),
    }


def _environment(cluster: EtcdCluster) -> list[Manifest]:
    """The spec's variables, and unless it sets them: certificates for etcdctl, and no Go traceback.

    The kubelet keeps the last 2 KiB of a container's log. A Go stack trace would fill them, and
    hide etcd's own message, by which damaged data is recognised.
    """
    given = [dict(variable) for variable in cluster.pod.environment]
    names = {variable.get("name") for variable in given}
    ours = {"GOTRACEBACK": "none"} | tls.environment(cluster)
    return [{"name": name, "value": ours[name]} for name in ours if name not in names] + given


def _probe(path: str, *, period: int, failures: int, delay: int = 0) -> Manifest:
    """A probe. `/livez` checks this member alone; `/readyz` needs a quorum, and fails on a learner.

    Liveness must not depend on the quorum: its loss would restart every member.
    """
    return {
        "httpGet": {"path": path, "port": naming.METRICS_PORT, "scheme": "HTTP"},
        **({"initialDelaySeconds": delay} if delay else {}),
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def pod_security(cluster: EtcdCluster) -> Manifest:
    """The restricted profile, with each key that the spec sets replaced."""
    chosen = RESTRICTED_POD | dict(cluster.pod.security_context or {})
    if chosen["runAsUser"] == 0:
        chosen["runAsNonRoot"] = False
    return chosen


def _volumes(cluster: EtcdCluster) -> list[Manifest]:
    """The pod's volumes. The ticket key is optional: a pod with data must start without the
    operator and its Secret."""
    key = {
        "name": naming.KEY_VOLUME,
        "secret": {
            "secretName": naming.start_secret(cluster.name),
            "items": [{"key": KEY, "path": KEY}],
            "defaultMode": 0o440,
            "optional": True,
        },
    }
    mounted = [key, *tls.volumes(cluster)]
    if cluster.durable:
        return mounted
    return [*mounted, {"name": naming.DATA_VOLUME, "emptyDir": dict(cluster.pod.empty_dir or {})}]


def _spread(cluster: EtcdCluster) -> list[Manifest]:
    """Prefers different nodes; it never keeps a pod from being scheduled.

    Zones are preferred by anti-affinity instead: for spread constraints the scheduler ignores nodes
    that lack any of the topology keys. So on nodes without a zone, a constraint for zones would
    disable the one for nodes.
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
    """Scheduling, and the image pull secrets: the same for members and Jobs."""
    pod = cluster.pod
    return {
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [dict(toleration) for toleration in pod.tolerations],
        "imagePullSecrets": [dict(secret) for secret in pod.image_pull_secrets],
        "priorityClassName": pod.priority_class,
        "affinity": _affinity(cluster),
    }


def _affinity(cluster: EtcdCluster) -> Manifest | None:
    """The spec's affinity. By default different zones are preferred, and coreos's `antiAffinity`
    allows at most one member on a node."""
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
    """The spec's resources, which coreos applies to etcd and to every init container."""
    return {"resources": dict(cluster.pod.resources)} if cluster.pod.resources else {}


def data_mount() -> Manifest:
    return {"name": naming.DATA_VOLUME, "mountPath": naming.VOLUME_PATH}


def downward(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
