"""What the Jobs have in common: how often they are tried, and how they reach a store."""

from __future__ import annotations

from typing import Final

from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.manifests.common import Manifest

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
