"""What the objects of a cluster, its Jobs among them, have in common."""

from __future__ import annotations

from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders

Manifest = dict[str, Any]

TRIES: Final = 3
"""Of a Job, after the first has failed."""

_FREED = str(32 * 1024 * 1024)
REUSING: Final = (
    {"name": "MALLOC_ARENA_MAX", "value": "2"},
    {"name": "MALLOC_MMAP_THRESHOLD_", "value": _FREED},
    {"name": "MALLOC_TRIM_THRESHOLD_", "value": _FREED},
)
"""For containers that a database streams through. By itself glibc gives what one piece has freed
back to the kernel, and the next piece faults it in anew, page by page; and it keeps some of it for
each thread, of which there are many."""

_AZURE: Final = "azure.workload.identity/use"


def identity_labels(store: Store) -> dict[str, str]:
    """By which Azure's webhook knows that a pod is to have its service account's identity. Those
    of the other clouds go by the account alone."""
    return {_AZURE: "true"} if store.storage_account else {}


AUTHORITIES_MOUNT: Final[Manifest] = {"name": "ca", "mountPath": orders.CA_FOLDER, "readOnly": True}


def authorities_volume(store: Store) -> Manifest:
    """What the store's certificate is checked by, and nothing else of that Secret. Optional, so
    that one that is missing is said in words by the pod."""
    source = {
        "secretName": store.ca_secret,
        "items": [{"key": orders.CA_FILE, "path": orders.CA_FILE}],
        "optional": True,
        "defaultMode": 0o440,
    }
    return {"name": AUTHORITIES_MOUNT["name"], "secret": source}


def metadata(cluster: EtcdCluster, name: str) -> Manifest:
    """Name, labels and the owner that garbage collection follows."""
    return {
        "name": name,
        "namespace": cluster.namespace,
        "labels": naming.labels(cluster.name),
        "ownerReferences": [owner_reference(naming.CLUSTER_KIND, cluster.name, cluster.uid)],
    }


def owner_reference(kind: str, name: str, uid: str) -> Manifest:
    """Of one of our custom resources."""
    return {
        "apiVersion": naming.API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def job_spec(final: int, *containers: str) -> Manifest:
    """A Job's spec but for its template: one pod at a time, and three tries beside the first.

    It is over once one of `containers` ends with the code `final`: another try would meet the same.
    """
    return {
        "backoffLimit": TRIES,
        "completions": 1,
        "parallelism": 1,
        # Never two pods on a volume.
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": pod_failure_policy(final, *containers),
    }


def pod_failure_policy(final: int, *containers: str) -> Manifest:
    """A Job is over once one of `containers` ends with the code `final`: another try would meet the
    same. An eviction, as by a drain, is none of its tries."""
    codes = {"operator": "In", "values": [final]}
    refused = [
        {"action": "FailJob", "onExitCodes": {"containerName": one, **codes}} for one in containers
    ]
    evicted = [{"type": "DisruptionTarget", "status": "True"}]
    return {"rules": [*refused, {"action": "Ignore", "onPodConditions": evicted}]}


def unexpanded(text: str) -> str:
    """JSON for a container's variable, in which the kubelet expands `$(NAME)` and halves `$$`."""
    return text.replace("$", "\\u0024")
