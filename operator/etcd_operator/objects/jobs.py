"""Reads the state of a Job and of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from etcd_operator.objects import reading, trouble
from etcd_stateful import naming, stored_conditions
from etcd_stateful.manifests.backup_job import CONTAINER, LABEL
from etcd_stateful.manifests.jobs import ETCDUTL
from etcd_stateful.metadata import annotations_of, labels_of

State = Literal["running", "complete", "failed"]


def state(job: Mapping[str, Any]) -> State:
    """The state by the Job's conditions. It is `running` even before the pod is created."""
    status = job.get("status")
    if stored_conditions.is_true(status, "Complete"):
        return "complete"
    return "failed" if stored_conditions.is_true(status, "Failed") else "running"


def why_failed(job: Mapping[str, Any]) -> str:
    """Reason and message of the condition Failed; empty if the Job has not failed."""
    failed = stored_conditions.find(job.get("status"), "Failed")
    if failed.get("status") != "True":
        return ""
    return f"{failed.get('reason', '')}: {failed.get('message', '')}"[:300]


def of_job(pods: Iterable[Mapping[str, Any]], job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pods that this very Job controls, by its UID."""
    uid = job["metadata"]["uid"]
    return [pod for pod in pods if (reading.controller(pod) or {}).get("uid") == uid]


def newest(pods: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The pod that was created last; None if there is none."""
    by_age = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    return by_age[-1] if by_age else None


def message(pod: Mapping[str, Any], container: str) -> str:
    """The termination message of a container; empty if it has not ended."""
    for name, how in ended(pod):
        if name == container:
            return str(how.get("message") or "")
    return ""


def is_unpullable(
    job: Mapping[str, Any], pod: Mapping[str, Any] | None, operator_image: str
) -> bool:
    """Whether the operator's image cannot be pulled, and the Job was created with an image
    that is not the operator's present one.

    The image that the Job was created with is read from its annotation, not from its pod template,
    because an admission webhook may replace images by those of a mirror.
    """
    made = annotations_of(job).get(naming.OPERATOR_IMAGE)
    if pod is None or state(job) != "running" or made in (None, operator_image):
        return False
    containers = trouble.all_containers(pod.get("status") or {})
    ours = (one for one in containers if one["name"] not in (naming.ETCD_CONTAINER, ETCDUTL))
    return any(trouble.is_image_missing(one) for one in ours)


def is_stopping(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is being deleted and still runs."""
    runs = (pod.get("status") or {}).get("phase") == "Running"
    return runs and "deletionTimestamp" in pod["metadata"]


def backs_up(pod: Mapping[str, Any]) -> bool:
    """Whether the pod runs a backup, so that it may be reading a snapshot from a member."""
    runs = (pod.get("status") or {}).get("phase") == "Running"
    is_backup = labels_of(pod).get(naming.LABEL_NAME) == LABEL
    return runs and is_backup and outlived(pod) is None


def outlived(pod: Mapping[str, Any]) -> int | None:
    """The exit code of the Job's own container, if another one that admission has added, such as a
    service mesh's, goes on after it, perhaps for ever. Until that ends, Kubernetes counts the pod
    as running, so its Job is neither complete nor retried. None otherwise."""
    every = (pod.get("status") or {}).get("containerStatuses") or ()
    left = [one for one in every if "terminated" not in (one.get("state") or {})]
    codes = (int(how.get("exitCode") or 0) for name, how in ended(pod) if name == CONTAINER)
    return next(codes, None) if left else None


def out_of_memory(pod: Mapping[str, Any]) -> str:
    """What to report about a container that was OOM-killed, which leaves no termination message of
    its own; empty if none was."""
    for name, how in ended(pod):
        if how.get("reason") == "OOMKilled":
            words = f"container {name} needs more memory than its limit (OOMKilled)"
            return f"spec.pod.resources: {words}: raise limits.memory"
    return ""


def ended(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The containers that have ended, each with how it did."""
    for one in trouble.all_containers(pod.get("status") or {}):
        if how := (one.get("state") or {}).get("terminated"):
            yield one["name"], how
