"""What the Jobs have in common: how often they are retried, and how they reach a store."""

from __future__ import annotations

from typing import Final

from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.manifests.common import Manifest

TRIES: Final = 3
"""How often a failed Job's pod is retried."""

_FREED = str(32 * 1024 * 1024)
MALLOC_ENVIRONMENT: Final = (
    {"name": "MALLOC_ARENA_MAX", "value": "2"},
    {"name": "MALLOC_MMAP_THRESHOLD_", "value": _FREED},
    {"name": "MALLOC_TRIM_THRESHOLD_", "value": _FREED},
)
"""For containers that stream a database. By default glibc returns freed memory to the kernel after
each chunk, and the next chunk faults it in again page by page; and it keeps an arena for each of
many threads."""

_AZURE: Final = "azure.workload.identity/use"


def identity_labels(store: Store) -> dict[str, str]:
    """The label by which Azure's webhook gives a pod its service account's identity. Other clouds
    need only the service account."""
    return {_AZURE: "true"} if store.storage_account else {}


AUTHORITIES_MOUNT: Final[Manifest] = {"name": "ca", "mountPath": orders.CA_FOLDER, "readOnly": True}


def authorities_volume(store: Store) -> Manifest:
    """The CA bundle that the store's certificate is verified with, and nothing else of its Secret.
    Optional, so that the pod starts and reports a missing Secret."""
    source = {
        "secretName": store.ca_secret,
        "items": [{"key": orders.CA_FILE, "path": orders.CA_FILE}],
        "optional": True,
        "defaultMode": 0o440,
    }
    return {"name": AUTHORITIES_MOUNT["name"], "secret": source}


def job_spec(final: int, *containers: str) -> Manifest:
    """A Job's spec without its template: one pod at a time, and three retries.

    It fails at once if one of `containers` exits with the code `final`: a retry would fail too.
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
    """Fails the Job at once if one of `containers` exits with the code `final`: a retry would fail
    too. Evictions, such as by a drain, do not count as retries."""
    codes = {"operator": "In", "values": [final]}
    refused = [
        {"action": "FailJob", "onExitCodes": {"containerName": one, **codes}} for one in containers
    ]
    evicted = [{"type": "DisruptionTarget", "status": "True"}]
    return {"rules": [*refused, {"action": "Ignore", "onPodConditions": evicted}]}


def unexpanded(text: str) -> str:
    """JSON without `$`, for an environment variable: the kubelet expands `$(NAME)` and halves
    `$$`."""
    return text.replace("$", "\\u0024")
