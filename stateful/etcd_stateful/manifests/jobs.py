"""What the Jobs have in common: how often they are retried, and how they reach a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from etcd_stateful.api.stores import VOLUME, Store
from etcd_stateful.backup import order as orders
from etcd_stateful.manifests.common import Manifest

TRIES: Final = 3
"""How often a failed Job's pod is retried."""

ETCDUTL: Final = "etcdutl"
"""The container in which etcdutl makes data of a backup, with the image of etcd."""

NO_STACK_TRACE: Final = {"name": "GOTRACEBACK", "value": "none"}
"""For containers of etcd and etcdutl, whose termination message a trace would fill."""

_FREED = str(32 * 1024 * 1024)
MALLOC_ENVIRONMENT: Final = (
    {"name": "MALLOC_ARENA_MAX", "value": "2"},
    {"name": "MALLOC_MMAP_THRESHOLD_", "value": _FREED},
    {"name": "MALLOC_TRIM_THRESHOLD_", "value": _FREED},
)
"""For containers that stream a database. By default glibc returns freed memory to the kernel after
each chunk, and the next chunk faults it in again page by page; and it keeps an arena for each of
many threads."""

Mounted = list[tuple[Manifest, Manifest]]
"""Volumes of a pod, each with its mount in a container."""

_AZURE: Final = "azure.workload.identity/use"

_SET_BY_KUBERNETES: Final = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "batch.kubernetes.io/")
    for name in ("job-name", "controller-uid")
)


def admitted(asked: Mapping[str, str]) -> dict[str, str]:
    """What a spec asks for as labels of pods, but for those by which Kubernetes tells the pods of
    a Job: the API server refuses a Job that has others there."""
    return {key: value for key, value in asked.items() if key not in _SET_BY_KUBERNETES}


def identity_labels(store: Store) -> dict[str, str]:
    """The label by which Azure's webhook gives a pod its service account's identity. Other clouds
    need only the service account."""
    return {_AZURE: "true"} if store.storage_account else {}


def store_access(store: Store, *, read_only: bool = False) -> Mounted:
    """The volumes by which a pod reaches the store: the credentials, the CA bundle that the store's
    certificate is verified with, and the claim of a store of kind Volume."""
    only = {"readOnly": True} if read_only else {}
    found: Mounted = []
    if store.secret:
        found.append(optional_secret("store", store.secret, orders.STORE_FOLDER))
    if store.ca_secret:
        found.append(optional_secret("ca", store.ca_secret, orders.CA_FOLDER, orders.CA_FILE))
    if store.kind == VOLUME:
        claim = {"name": "volume", "persistentVolumeClaim": {"claimName": store.bucket, **only}}
        found.append((claim, {"name": "volume", "mountPath": orders.VOLUME, **only}))
    return found


def optional_secret(name: str, secret: str, path: str, *keys: str) -> tuple[Manifest, Manifest]:
    """A volume with the Secret, or with only these keys of it, and its mount. The Secret is
    optional, so that the pod starts and reports a missing one."""
    source: Manifest = {"secretName": secret, "optional": True, "defaultMode": 0o440}
    if keys:
        source["items"] = [{"key": one, "path": one} for one in keys]
    return {"name": name, "secret": source}, {"name": name, "mountPath": path, "readOnly": True}


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
