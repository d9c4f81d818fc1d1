"""The Job that makes a cluster of one out of a survivor's volume.

etcd runs with `force-new-cluster` in here alone, and listens to nobody but its own pod. In a pod of
the StatefulSet the same configuration would, at some later restart, drop the members that joined
since, and their acknowledged writes.

    prepare (init)  is it this member's volume? sets the marker aside, writes etcd's configuration
    etcd (sidecar)  the cluster's own image
    finish          is it alone, and its list written down? stops etcd, writes the marker last

Sharing the process namespace is how `finish` stops etcd: a sidecar would outlive it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.identity import to_hex
from etcd_stateful.manifests import start_settings
from etcd_stateful.manifests.common import Manifest, job_spec, metadata
from etcd_stateful.manifests.pod import (
    RESTRICTED_CONTAINER,
    STOP_SECONDS,
    data_mount,
    downward,
    placement,
    pod_security,
    resources,
)
from etcd_stateful.records import Bootstrap
from etcd_stateful.recover import CONFIG_PATH, PASSWORD_FILE, PASSWORD_FOLDER, REFUSED_EXIT

LABEL: Final = "etcd-recovery"
"""Another name than the members' pods have: no Service leads here, and no StatefulSet adopts it."""

SURVIVOR: Final = f"{naming.GROUP}/survivor"

_LITTLE: Final = {"cpu": "200m", "memory": "128Mi"}


def recovery_job(
    cluster: EtcdCluster, record: Bootstrap, member_id: int, *, operator_image: str
) -> Manifest:
    notes = {
        SURVIVOR: record.survivor,
        naming.EPOCH: str(record.epoch),
        naming.SPEC_HASH: made_of(cluster),
    }
    name, spec = naming.recovery_job(cluster.name), job_spec(REFUSED_EXIT, "prepare")
    pod = _pod(cluster, record, member_id, operator_image)
    return volume_job(cluster, name, notes, spec, pod)


def volume_job(
    cluster: EtcdCluster,
    name: str,
    notes: Mapping[str, str],
    spec: Manifest,
    pod: Manifest,
    pod_labels: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """One that works on a member's volume while no pod of the cluster is there.

    Args:
        notes: its annotations, by which it is known again.
        spec: but for its template.
        pod: the spec of its pod.
        pod_labels: of its pod, beside those of the cluster's pods.
    """
    described = metadata(cluster, name)
    described |= {"labels": labels(cluster.name), "annotations": dict(notes)}
    made = {
        "labels": {**cluster.pod.labels, **pod_labels, **labels(cluster.name)},
        "annotations": dict(cluster.pod.annotations),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": described,
        "spec": {**spec, "template": {"metadata": made, "spec": pod}},
    }


def made_of(cluster: EtcdCluster) -> str:
    """Of all that decides whether a Job is still the one that is asked for."""
    if cluster.auth is None:
        return cluster.template_hash
    where = cluster.auth.users[0].secret
    return f"{cluster.template_hash}-{where.name}/{where.key}"


def labels(cluster: str) -> dict[str, str]:
    return naming.selector(cluster) | {
        naming.LABEL_NAME: LABEL,
        naming.LABEL_COMPONENT: "recovery",
        naming.LABEL_PART_OF: cluster,
    }


def _pod(
    cluster: EtcdCluster, record: Bootstrap, member_id: int, operator_image: str
) -> dict[str, Any]:
    environment = _environment(cluster, record, member_id)
    claim = {"claimName": f"{naming.DATA_VOLUME}-{record.survivor}"}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "shareProcessNamespace": True,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "securityContext": pod_security(cluster),
        "initContainers": [
            _ours("prepare", environment, operator_image) | resources(cluster),
            _etcd(cluster),
        ],
        "containers": [_finish(cluster, environment, operator_image)],
        "volumes": [
            {"name": naming.DATA_VOLUME, "persistentVolumeClaim": claim},
            *_passwords(cluster),
        ],
        **placement(cluster),
    }
    return {key: value for key, value in spec.items() if value or value is False}


def _environment(cluster: EtcdCluster, record: Bootstrap, member_id: int) -> list[Manifest]:
    ids = {"memberID": to_hex(member_id), "clusterID": to_hex(record.cluster_id)}
    return [
        {"name": "POD_NAME", "value": record.survivor},
        downward("POD_UID", "metadata.uid"),
        {"name": "POD_IP", "value": "127.0.0.1"},
        start_settings.variable(cluster, record.epoch),
        {"name": "RECOVERY", "value": json.dumps(ids, sort_keys=True)},
    ]


def _finish(cluster: EtcdCluster, environment: list[Manifest], image: str) -> Manifest:
    ours = _ours("finish", environment, image) | _few_resources(cluster)
    mounts = [
        {"name": volume["name"], "mountPath": PASSWORD_FOLDER, "readOnly": True}
        for volume in _passwords(cluster)
    ]
    return ours | {"volumeMounts": [*ours["volumeMounts"], *mounts]}


def _passwords(cluster: EtcdCluster) -> list[Manifest]:
    """Root's, by which `finish` is let in where the data says that users are asked for. Optional:
    `finish` says in words that it is missing."""
    if cluster.auth is None:
        return []
    where = cluster.auth.users[0].secret
    source = {
        "secretName": where.name,
        "items": [{"key": where.key, "path": PASSWORD_FILE}],
        "defaultMode": 0o440,
        "optional": True,
    }
    return [{"name": "root", "secret": source}]


def _ours(name: str, environment: list[Manifest], image: str) -> Manifest:
    return {
        "name": name,
        "image": image,
        "command": ["python3", "-m", "etcd_operator.recover", name],
        "env": environment,
        "volumeMounts": [data_mount()],
        "securityContext": RESTRICTED_CONTAINER,
    }


def _etcd(cluster: EtcdCluster) -> Manifest:
    return {
        "name": naming.ETCD_CONTAINER,
        "image": cluster.image,
        "restartPolicy": "Always",
        "command": ["/usr/local/bin/etcd", f"--config-file={naming.VOLUME_PATH}/{CONFIG_PATH}"],
        # Its stack would fill what is kept of its last words.
        "env": [{"name": "GOTRACEBACK", "value": "none"}, *map(dict, cluster.pod.environment)],
        "volumeMounts": [data_mount()],
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **resources(cluster),
    }


def _few_resources(cluster: EtcdCluster) -> Manifest:
    """It runs beside etcd, and both must fit where a member did. Where the spec names none, a quota
    that asks for some is not there either."""
    if not cluster.pod.resources:
        return {}
    return {"resources": {"requests": dict(_LITTLE), "limits": dict(_LITTLE)}}
