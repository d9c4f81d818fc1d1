"""The Job that makes a cluster of one out of a survivor's volume.

etcd runs with `force-new-cluster` only here, and listens only on the pod's loopback. In a pod of
the StatefulSet that configuration would apply again at a later restart: it would remove the members
that have joined since, and lose their acknowledged writes.

    prepare (init)  checks that it is this member's volume, sets the marker aside, writes etcd's
                    configuration
    etcd (sidecar)  the cluster's own image
    finish          checks that etcd is the only member and that this is on disk, stops etcd, and
                    writes the marker last

The containers share the process namespace, so that `finish` can stop etcd: the kubelet stops a
sidecar only after the other containers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.identity import to_hex
from etcd_stateful.jobs.recover import CONFIG_PATH, PASSWORD_FILE, PASSWORD_FOLDER, REFUSED_EXIT
from etcd_stateful.manifests import volume_job
from etcd_stateful.manifests.common import Manifest, without_empty
from etcd_stateful.manifests.jobs import NO_STACK_TRACE, job_spec
from etcd_stateful.manifests.pod import (
    RESTRICTED_CONTAINER,
    STOP_SECONDS,
    data_mount,
    placement,
    pod_security,
    resources,
)
from etcd_stateful.records.bootstrap import Bootstrap

_LITTLE: Final = {"cpu": "200m", "memory": "128Mi"}
_FOR_LOGS: Final = {"ephemeral-storage": "64Mi"}


def recovery_job(
    cluster: EtcdCluster, record: Bootstrap, member_id: int, *, operator_image: str
) -> Manifest:
    """The recovery Job for the survivor that the record names, in the record's epoch."""
    notes = {
        naming.SURVIVOR: record.survivor,
        naming.EPOCH: str(record.epoch),
        naming.SPEC_HASH: job_hash(cluster),
        naming.OPERATOR_IMAGE: operator_image,
    }
    name, spec = naming.recovery_job(cluster.name), job_spec(REFUSED_EXIT, "prepare")
    pod = _pod(cluster, record, member_id, operator_image)
    return volume_job.job(cluster, name, notes, spec, pod)


def job_hash(cluster: EtcdCluster) -> str:
    """A hash of everything that decides whether an existing Job is still the right one."""
    if cluster.auth is None:
        return volume_job.spec_hash(cluster)
    where = cluster.auth.users[0].secret
    return f"{volume_job.spec_hash(cluster)}-{where.name}/{where.key}"


def _pod(
    cluster: EtcdCluster, record: Bootstrap, member_id: int, operator_image: str
) -> dict[str, Any]:
    environment = _environment(cluster, record, member_id)
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
            volume_job.data_volume(record.survivor),
            *_passwords(cluster),
        ],
        **placement(cluster),
    }
    return without_empty(spec)


def _environment(cluster: EtcdCluster, record: Bootstrap, member_id: int) -> list[Manifest]:
    ids = {"memberID": to_hex(member_id), "clusterID": to_hex(record.cluster_id)}
    return [
        *volume_job.environment(cluster, record.survivor, record.epoch),
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
    """Root's password, for `finish` to log in if authentication is on in the data. The Secret is
    optional, so that `finish` can report that it is missing."""
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
    return volume_job.container("etcd_operator.recover", name, environment, image)


def _etcd(cluster: EtcdCluster) -> Manifest:
    return {
        "name": naming.ETCD_CONTAINER,
        "image": cluster.image,
        "restartPolicy": "Always",
        "command": ["/usr/local/bin/etcd", f"--config-file={naming.VOLUME_PATH}/{CONFIG_PATH}"],
        "env": [NO_STACK_TRACE, *map(dict, cluster.pod.environment)],
        "volumeMounts": [data_mount()],
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **resources(cluster),
    }


def _few_resources(cluster: EtcdCluster) -> Manifest:
    """Small resources: it runs beside etcd, and both must fit on a node where a member did. Without
    any in the spec it has none: no quota of the namespace can require them then."""
    given = cluster.pod.resources
    if not given:
        return {}
    return {"resources": {kind: _little(given.get(kind)) for kind in ("requests", "limits")}}


def _little(given: Mapping[str, Any] | None) -> Manifest:
    """Also of the ephemeral storage, where the spec has it for members: a quota may require it."""
    return _LITTLE | {name: size for name, size in _FOR_LOGS.items() if name in (given or {})}
