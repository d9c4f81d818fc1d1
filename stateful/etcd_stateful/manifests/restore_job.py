"""The Job that fills the first volume of a cluster from a backup, before any pod of it runs.

    fetch (init)    the operator's image, with the store's credentials: downloads and checks the
                    snapshot
    etcdutl (init)  the cluster's own image: creates the data directory of a cluster of one
    finish          the operator's image: checks the data directory, moves it into place, and writes
                    the marker last

It is scheduled like the pod that will use the volume.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from etcd_stateful import naming
from etcd_stateful.api import stores
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.stores import Store
from etcd_stateful.jobs import restore
from etcd_stateful.manifests import volume_job
from etcd_stateful.manifests.common import Manifest, without_empty
from etcd_stateful.manifests.jobs import (
    ETCDUTL,
    MALLOC_ENVIRONMENT,
    NO_STACK_TRACE,
    identity_labels,
    job_spec,
    store_access,
    unexpanded,
)
from etcd_stateful.manifests.pod import (
    RESTRICTED_CONTAINER,
    data_mount,
    placement,
    pod_security,
    resources,
)
from etcd_stateful.records.bootstrap import Bootstrap


def restore_job(
    cluster: EtcdCluster,
    record: Bootstrap,
    store: Store,
    *,
    claim_uid: str,
    storage: str = "",
    operator_image: str,
    field: str = restore.FIELD,
) -> Manifest:
    """The Job that fills a claim with the data of the backup in the store.

    Args:
        record: the record of the cluster that will run on the volume, with its one first member.
        claim_uid: UID of the claim to fill, as a pod refers to a claim only by name.
        storage: the size that the claim requests.
        field: the field that names the store, for the Job's messages.
    """
    notes = {
        naming.SURVIVOR: record.members[0].name,
        naming.EPOCH: str(record.epoch),
        naming.SPEC_HASH: job_hash(cluster, store),
        naming.CLAIM_UID: claim_uid,
        naming.STORAGE: storage,
        naming.OPERATOR_IMAGE: operator_image,
    }
    name, spec = naming.restore_job(cluster.name), job_spec(restore.REFUSED_EXIT, "fetch")
    pod = _pod(cluster, record, store, operator_image, field)
    return volume_job.job(cluster, name, notes, spec, pod, identity_labels(store))


def job_hash(cluster: EtcdCluster, store: Store) -> str:
    """A hash of everything that decides whether an existing Job is still the right one.

    It is the same for every version of the operator: another one may have made the Job.
    """
    told = json.dumps(stores.to_json(store), sort_keys=True)
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return f"{volume_job.spec_hash(cluster)}-{digest}"


def _pod(
    cluster: EtcdCluster, record: Bootstrap, store: Store, operator_image: str, field: str
) -> dict[str, Any]:
    first = record.members[0]
    environment = _environment(cluster, record, store, field)
    mounted = store_access(store, read_only=True)
    mounts = [mount for _, mount in mounted]
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": store.service_account,
        "securityContext": pod_security(cluster),
        "initContainers": [
            _ours("fetch", [*environment, *MALLOC_ENVIRONMENT], operator_image, mounts)
            | resources(cluster),
            {
                "name": ETCDUTL,
                "image": cluster.image,
                "env": [NO_STACK_TRACE],
                "command": restore.etcdutl(first.name, first.peer_url, record.token, record.bump),
                "volumeMounts": [data_mount()],
                "securityContext": RESTRICTED_CONTAINER,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                **resources(cluster),
            },
        ],
        "containers": [_ours("finish", environment, operator_image, []) | resources(cluster)],
        "volumes": [
            volume_job.data_volume(first.name),
            *(volume for volume, _ in mounted),
        ],
        **placement(cluster),
    }
    return without_empty(spec)


def _environment(
    cluster: EtcdCluster, record: Bootstrap, store: Store, field: str
) -> list[Manifest]:
    first, version = record.members[0], str(cluster.version)
    told = restore.serialise(first.member_id, record.cluster_id, store, version, field, record.bump)
    return [
        *volume_job.environment(cluster, first.name, record.epoch),
        {"name": "RESTORE", "value": unexpanded(told)},
    ]


def _ours(name: str, environment: list[Manifest], image: str, mounts: list[Manifest]) -> Manifest:
    return volume_job.container("etcd_operator.restore", name, environment, image, *mounts)
