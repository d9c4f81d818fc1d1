"""The Jobs that store, delete or read one backup: the operator's image, one store's credentials.

Its pod has no access to the Kubernetes API. Its Secret volumes are optional, so that the pod starts
and reports a missing Secret, instead of waiting for it silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.backup import LONGEST, EtcdBackup, JobPod
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup import recorded_cluster
from etcd_stateful.backup.deletion import deletion_run, other_locations
from etcd_stateful.backup.observed import Run, Target
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import FINAL_EXIT
from etcd_stateful.backup.plan import job_name
from etcd_stateful.backup.restores import description_run
from etcd_stateful.manifests.common import Manifest, owner_reference, without_empty
from etcd_stateful.manifests.jobs import (
    MALLOC_ENVIRONMENT,
    TRIES,
    Mounted,
    admitted,
    identity_labels,
    job_spec,
    optional_secret,
    store_access,
    unexpanded,
)
from etcd_stateful.manifests.pod import RESTRICTED_CONTAINER, RESTRICTED_POD

LABEL: Final = "etcd-backup"
CONTAINER: Final = "backup"

GRPC_ENVIRONMENT: Final = ({"name": "GRPC_EXPERIMENTS", "value": "-event_engine_client"},)
"""Makes gRPC read in the thread that waits for the message, instead of waking another thread for
each 32 KiB. A later version of gRPC may not know this experiment: it logs that, and is only
slower."""

_STOP_SECONDS: Final = 30
_WAITING_SECONDS: Final = 3600
_DAY: Final = 86400
_RESOURCES: Final = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}


def backup_job(
    backup: EtcdBackup,
    run: Run,
    target: Target | None,
    *,
    operator_image: str,
    cluster: Mapping[str, Any] | None = None,
    spare: tuple[str, ...] = (),
) -> Manifest:
    """Takes a backup and stores it.

    Args:
        cluster: name and spec of the EtcdCluster that is backed up, if known.
        spare: keys of backups that must be neither deleted as old ones nor overwritten.
    """
    of = "" if backup.periodic else run.id
    told = replace(order(backup, target), cluster=cluster, spare=spare, run=of)
    return job(backup, run, told, operator_image, recorded_cluster.pull_secrets(cluster))


def deletion_job(
    backup: EtcdBackup,
    stored: Mapping[str, Any],
    *,
    operator_image: str,
    cluster: Mapping[str, Any] | None = None,
) -> Manifest:
    """Deletes what the backup has stored. It does not connect to etcd.

    Args:
        stored: the EtcdBackup's status.
        cluster: as for `backup_job`.
    """
    also = other_locations(backup, stored)
    told = replace(order(backup, None), endpoints=(), action="delete", also=also)
    pulled = recorded_cluster.pull_secrets(cluster)
    return job(backup, deletion_run(backup), told, operator_image, pulled)


def description_job(
    restore: EtcdRestore, store: Store, *, operator_image: str, pod: JobPod | None = None
) -> Manifest:
    """Reads from the backup's manifest how the cluster was declared, for an EtcdRestore.

    Args:
        pod: pod settings of the EtcdBackup that the EtcdRestore names.
    """
    reader = restore.as_backup(store, pod or JobPod())
    told = replace(order(reader, None), endpoints=(), action="describe")
    return job(reader, description_run(restore), told, operator_image)


def job(
    backup: EtcdBackup,
    run: Run,
    told: Order,
    operator_image: str,
    pull_secrets: Sequence[Manifest] = (),
) -> Manifest:
    """A Job that carries out an order.

    Args:
        pull_secrets: those of the cluster, in addition to the backup's own.
    """
    described = _labelled(backup, told)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(backup, run),
            "namespace": backup.namespace,
            **described,
            "annotations": described["annotations"] | {naming.OPERATOR_IMAGE: operator_image},
            "ownerReferences": [owner_reference(backup.kind, backup.name, backup.uid)],
        },
        "spec": {
            **job_spec(FINAL_EXIT, CONTAINER),
            "template": {
                "metadata": {
                    "labels": admitted(backup.pod.labels)
                    | identity_labels(told.store)
                    | described["labels"],
                    "annotations": dict(backup.pod.annotations) | described["annotations"],
                },
                "spec": _pod(backup, told, operator_image, pull_secrets),
            },
        }
        | _limits(backup),
    }


def order(backup: EtcdBackup, target: Target | None) -> Order:
    named_by = orders.CLUSTER_FIELD if target and backup.cluster else orders.ENDPOINTS_FIELD
    own_secret = target is None or bool(backup.client_tls_secret)
    return Order(
        owner=f"{backup.namespace}/{backup.name}",
        owner_uid=backup.uid,
        endpoints=target.endpoints if target else backup.endpoints,
        endpoints_field=named_by,
        store=backup.store,
        cluster_id=target.cluster_id if target else 0,
        client_secret=backup.client_tls_secret or (target.client_secret if target else ""),
        client_secret_field=orders.CERTIFICATE_FIELD if own_secret else named_by,
        stamped=backup.periodic,
        scheduled=backup.scheduled,
        brought_back=backup.brought_back,
        keep=_kept(backup),
        verify=backup.verify == "Hash",
        measure=backup.verify == "Restore",
        timeout=backup.policy.timeout,
    )


def _kept(backup: EtcdBackup) -> int:
    """How many backups to keep; one more if old ones are deleted before the newest is verified."""
    keep = backup.policy.keep
    return keep + 1 if keep and backup.verify == "Restore" else keep


def _labelled(backup: EtcdBackup, told: Order) -> dict[str, dict[str, str]]:
    """Labels and annotations. A Job that connects to etcd also has the cluster's label: the network
    policy admits it by that, and no member is defragmented meanwhile."""
    cluster = backup.cluster or str((told.cluster or {}).get("name", ""))
    of_cluster = {naming.LABEL_INSTANCE: cluster} if cluster and told.action == "store" else {}
    return {
        "labels": {
            naming.LABEL_NAME: LABEL,
            naming.LABEL_COMPONENT: "backup",
            naming.LABEL_MANAGED_BY: naming.MANAGER,
        }
        | of_cluster,
        "annotations": {backup.annotation: backup.name},
    }


def _limits(backup: EtcdBackup) -> dict[str, int]:
    """When the Job is deleted and when it fails.

    The Jobs of periodic and scheduled backups are deleted after a day, or later if their trial
    restore may take longer: if the Job were gone before that has ended, the backup would be made
    again. The Job of a single backup stays as long as the EtcdBackup.

    The deadline ends a Job whose pod never starts, or is evicted over and over, as evictions do not
    count towards `backoffLimit`. It allows the timeout for each try of up to three containers, and
    some time to start: an hour if another run follows, which is made from the then present spec,
    otherwise a day.
    """
    many = backup.periodic or backup.scheduled
    working = 3 * backup.policy.timeout * (TRIES + 1)
    # Kubernetes counts it in nanoseconds: a much larger value would overflow.
    deadline = min((_WAITING_SECONDS if many else _DAY) + working, LONGEST)
    kept = max(_DAY, min(deadline + _WAITING_SECONDS, LONGEST))
    return ({"ttlSecondsAfterFinished": kept} if many else {}) | {"activeDeadlineSeconds": deadline}


def _pod(
    backup: EtcdBackup, told: Order, image: str, pull_secrets: Sequence[Manifest]
) -> dict[str, Any]:
    pod = backup.pod
    mounted = _mounted(backup, told)
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": told.store.service_account,
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": dict(RESTRICTED_POD),
        "containers": [
            {
                "name": CONTAINER,
                "image": image,
                "command": ["python3", "-m", "etcd_operator.backup"],
                "env": [
                    {"name": orders.VARIABLE, "value": unexpanded(orders.serialise(told))},
                    *MALLOC_ENVIRONMENT,
                    *GRPC_ENVIRONMENT,
                ],
                "ports": [{"name": "progress", "containerPort": orders.PROGRESS_PORT}],
                "volumeMounts": [mount for _, mount in mounted],
                "securityContext": RESTRICTED_CONTAINER,
                "resources": dict(pod.resources or _RESOURCES),
            }
        ],
        "volumes": [volume for volume, _ in mounted],
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [dict(one) for one in pod.tolerations],
        "imagePullSecrets": _each_once(*pod.image_pull_secrets, *pull_secrets),
    }
    return without_empty(spec)


def _each_once(*secrets: Mapping[str, Any]) -> list[Manifest]:
    found: list[Manifest] = []
    for one in secrets:
        if one not in found:
            found.append(dict(one))
    return found


def _mounted(backup: EtcdBackup, told: Order) -> Mounted:
    found = store_access(backup.store)
    if told.client_secret:
        found.append(optional_secret("client", told.client_secret, orders.CLIENT_FOLDER))
    return found
