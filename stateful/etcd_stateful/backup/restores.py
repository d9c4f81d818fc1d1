"""What is to be done for one EtcdRestore, from what is seen of it alone.

    no cluster of that name -> a Job reads what the manifest in the store says of the cluster
    -> the EtcdCluster is created, to be born from the backup -> it serves

A cluster that is there and that this object did not make is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from etcd_stateful import naming
from etcd_stateful.api import stores
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.backup.outcome import Described
from etcd_stateful.backup.plan import Job, Run

DESCRIPTION: Final = Run("describe", 0.0)
LOOK_SECONDS: Final = 2.0
SLOW_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Born:
    """The EtcdCluster of that name."""

    of: str
    """UID of the EtcdRestore that made it; empty where none did."""
    serves: bool
    cluster_id: str
    doing: str
    """What its operator is at, in words."""
    blocked: str = ""
    """What a human has to do for it."""


@dataclass(frozen=True, slots=True)
class Seen:
    restore: EtcdRestore
    stored: Mapping[str, Any]
    cluster: Born | None = None
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class CreateDescription:
    """Make the Job that reads the manifest."""


@dataclass(frozen=True, slots=True)
class CreateCluster:
    manifest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    reason: str
    message: str
    status: Literal["True", "False", "Unknown"] = "Unknown"
    after: float | None = None
    failed: bool = False
    """Whether nothing more comes of it as the spec is."""


Step = CreateDescription | CreateCluster | Say


def decide(seen: Seen) -> Step:
    """Once it has succeeded it is never looked at again: the cluster goes its own way."""
    cluster = seen.cluster
    if cluster is None:
        return _describe(seen)
    if cluster.of != seen.restore.uid:
        return _taken(seen, cluster)
    if cluster.serves:
        words = f"cluster {cluster.cluster_id} serves the data of the backup"
        return Say("Restored", words, "True")
    if cluster.blocked:
        return Say("ClusterBlocked", cluster.blocked, "False", after=LOOK_SECONDS)
    return Say("Restoring", f"EtcdCluster {seen.restore.name}: {cluster.doing}", after=LOOK_SECONDS)


def _taken(seen: Seen, cluster: Born) -> Say:
    name = seen.restore.name
    which = f" ({cluster.cluster_id})" if cluster.cluster_id else ""
    return Say(
        "ClusterExists",
        f"spec.etcdCluster.name: there is an EtcdCluster {name}{which}, and this version cannot "
        "restore in place. Nothing is done to it. Delete it first and discard its claims when it "
        "comes back, or make a cluster of another name with spec.bootstrap.restore",
        "False",
        after=SLOW_SECONDS,
    )


def _describe(seen: Seen) -> Step:
    job = seen.job
    if job is None:
        return CreateDescription()
    if job.stranger:
        return Say("JobOfAnother", f"Job {job.name} belongs to {job.stranger}", "False", 30.0)
    if job.deleting:
        return Say("Reading", f"Job {job.name} of before is being deleted", after=1.0)
    if job.state == "complete" and job.said.described:
        return _create(seen.restore, job.said.described)
    return _reading(job)


def _reading(job: Job) -> Say:
    failure = job.said.failure
    if job.state != "running":
        words = failure.message if failure else job.why or "its pod is gone"
        return Say(failure.reason if failure else "JobFailed", words, "False", failed=True)
    if failure:
        words = f"{failure.message}; it is tried again"
        return Say(failure.reason, words, "False", after=LOOK_SECONDS)
    if job.trouble:
        return Say("PodWaits", f"the pod of Job {job.name}: {job.trouble}", after=LOOK_SECONDS)
    return Say("Reading", "the manifest of the backup is read", after=LOOK_SECONDS)


def _create(restore: EtcdRestore, described: Described) -> Step:
    # One that left the version to the operator ran this; the default may be another by now.
    version = {"version": described.version} if described.version else {}
    spec = (
        version | dict(described.spec) | {"bootstrap": {"restore": stores.to_spec(restore.store)}}
    )
    return CreateCluster(
        {
            "metadata": {
                "name": restore.name,
                "namespace": restore.namespace,
                "annotations": {naming.RESTORED_BY: restore.uid},
            },
            "spec": spec,
        }
    )


def status(body: Mapping[str, Any], said: Say) -> dict[str, Any]:
    """coreos's fields; the conditions are `backup.status`'s business."""
    before: Mapping[str, Any] = body.get("status") or {}
    if said.status == "True":
        return {"succeeded": True, "reason": ""}
    if said.failed:
        return {"succeeded": False, "reason": said.message[:2048]}
    return {key: before[key] for key in ("succeeded", "reason") if key in before}
