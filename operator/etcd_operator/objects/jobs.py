"""What can be read off a Job and the pods that it made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from etcd_operator.objects import reading, trouble
from etcd_stateful import naming
from etcd_stateful.manifests.backup_job import LABEL
from etcd_stateful.manifests.trial_job import ETCDUTL

State = Literal["running", "complete", "failed"]


def state(job: Mapping[str, Any]) -> State:
    """By its conditions; `running` also before its pod is made."""
    said = {one["type"] for one in _conditions(job) if one.get("status") == "True"}
    if "Complete" in said:
        return "complete"
    return "failed" if "Failed" in said else "running"


def why_failed(job: Mapping[str, Any]) -> str:
    """In Kubernetes' words; empty for one that has not."""
    for one in _conditions(job):
        if one["type"] == "Failed" and one.get("status") == "True":
            return f"{one.get('reason', '')}: {one.get('message', '')}"[:300]
    return ""


def of_job(pods: Iterable[Mapping[str, Any]], job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those of the pods that this very Job controls."""
    uid = job["metadata"]["uid"]
    return [pod for pod in pods if (reading.controller(pod) or {}).get("uid") == uid]


def newest(pods: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The pod that was made last; None where there is none."""
    by_age = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    return by_age[-1] if by_age else None


def message(pod: Mapping[str, Any], container: str) -> str:
    """What the container left behind when it ended; empty while it has not."""
    for name, ended in _ended(pod):
        if name == container:
            return str(ended.get("message") or "")
    return ""


def is_unpullable(
    job: Mapping[str, Any], pod: Mapping[str, Any] | None, operator_image: str
) -> bool:
    """Whether its pod waits in vain for the operator's image, and the present one is another than
    the Job was made with. By its own note: admission may write a mirror into every image."""
    made = (job["metadata"].get("annotations") or {}).get(naming.OPERATOR_IMAGE)
    if pod is None or state(job) != "running" or made in (None, operator_image):
        return False
    containers = trouble.all_containers(pod.get("status") or {})
    ours = (one for one in containers if one["name"] not in (naming.ETCD_CONTAINER, ETCDUTL))
    return any(trouble.is_image_missing(one) for one in ours)


def is_stopping(pod: Mapping[str, Any]) -> bool:
    """Whether it is being deleted, and still runs."""
    runs = (pod.get("status") or {}).get("phase") == "Running"
    return runs and "deletionTimestamp" in pod["metadata"]


def backs_up(pod: Mapping[str, Any]) -> bool:
    """Whether it runs for a backup, and may be reading a snapshot from a member now."""
    labels = pod["metadata"].get("labels") or {}
    runs = (pod.get("status") or {}).get("phase") == "Running"
    return runs and labels.get(naming.LABEL_NAME) == LABEL


def out_of_memory(pod: Mapping[str, Any]) -> str:
    """The container that was killed for want of memory, which has no last word; empty for none."""
    return next((name for name, ended in _ended(pod) if ended.get("reason") == "OOMKilled"), "")


def _ended(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(kind) or ():
            if ended := (one.get("state") or {}).get("terminated"):
                yield one["name"], ended


def _conditions(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((job.get("status") or {}).get("conditions") or ())
