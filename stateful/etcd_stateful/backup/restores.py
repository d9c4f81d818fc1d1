"""What is to be done for one EtcdRestore, from what is seen of it alone.

    no cluster of that name -> a Job reads what the manifest in the store says of the cluster
    -> the EtcdCluster is created, to be born from the backup -> it serves

An EtcdBackup by name is looked up before the Job is made, and the Job's order is the record of what
was found: the cluster is made from that, whatever the EtcdBackup says by then. A cluster that is
there and that this object did not make is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from etcd_stateful import naming
from etcd_stateful.api import stores
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import BackupRef
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.named import Awaited, resolved
from etcd_stateful.backup.outcome import Described
from etcd_stateful.backup.plan import Job, Run

LOOK_SECONDS: Final = 2.0
AWAIT_SECONDS: Final = 10.0
"""Until an EtcdBackup that is awaited is looked at again."""
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
    backup: Store | Awaited | None = None
    """Where the EtcdBackup has stored that the spec names; None where that was not looked up."""


@dataclass(frozen=True, slots=True)
class CreateDescription:
    """Make the Job that reads the manifest."""

    store: Store


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


def description(restore: EtcdRestore) -> Run:
    """Another one for each edit of the spec: what the one before has found is not asked for."""
    return Run(f"d{restore.generation}", 0.0)


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
    job, source = seen.job, seen.restore.source
    if job is None:
        return _begin(seen)
    if job.stranger:
        return Say("JobOfAnother", f"Job {job.name} belongs to {job.stranger}", "False", 30.0)
    if job.deleting:
        return Say("Reading", f"Job {job.name} of before is being deleted", after=1.0)
    if job.state == "complete" and job.said.described:
        store = job.store if isinstance(source, BackupRef) else source
        return _create(seen.restore, job.said.described, store) if store else _unreadable(job)
    return _reading(job)


def _begin(seen: Seen) -> Step:
    found = resolved(seen.restore.source, seen.backup)
    if isinstance(found, Store):
        return CreateDescription(found)
    said = f"spec.backupRef.name: {found.why}. Nothing is made until then"
    return Say("BackupAwaited", said, "False" if found.stuck else "Unknown", after=AWAIT_SECONDS)


def _unreadable(job: Job) -> Say:
    words = f"Job {job.name} does not say from which store: delete it, and it is made again"
    return Say("JobUnreadable", words, "False", after=SLOW_SECONDS)


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


def _create(restore: EtcdRestore, described: Described, store: Store) -> Step:
    # One that left the version to the operator ran this; the default may be another by now.
    version = {"version": described.version} if described.version else {}
    spec = version | dict(described.spec) | {"bootstrap": {"restore": stores.to_spec(store)}}
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


def status(said: Say) -> dict[str, Any]:
    """coreos's fields; the conditions are `backup.status`'s business. What was said of the spec
    before it was edited is so no longer."""
    if said.status == "True":
        return {"succeeded": True, "reason": ""}
    if said.failed:
        return {"succeeded": False, "reason": said.message[:2048]}
    return {}
