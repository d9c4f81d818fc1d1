"""What is to be done for one EtcdRestore, from what is seen of it alone.

    no cluster of that name -> a Job reads what the manifest in the store says of the cluster
    -> the EtcdCluster is created, to be born from the backup -> it serves

An EtcdBackup by name is looked up before the Job is made, and the Job's order is the record of what
was found: the cluster is made from that, whatever the EtcdBackup says by then.

    a cluster of that name -> `spec.replace` names its ID -> its own passes carry it out
    (`membership/in_place.py`) -> what they say in `status.restore` is told here

A cluster that is there is touched only by a spec that names its ID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from etcd_stateful import naming
from etcd_stateful.api import stores
from etcd_stateful.api.backup import JobPod
from etcd_stateful.api.restore import EtcdRestore, RefusedRestore, parse_restore
from etcd_stateful.api.source import BackupRef
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import recorded_cluster
from etcd_stateful.backup.outcome import Described
from etcd_stateful.backup.plan import DeleteJob, Job, Run, held_by, with_present_image
from etcd_stateful.backup.reference import Awaited, resolved
from etcd_stateful.identity import to_hex

LOOK_SECONDS: Final = 2.0
AWAIT_SECONDS: Final = 10.0
"""Until an EtcdBackup that is awaited is looked at again."""
SLOW_SECONDS: Final = 30.0
GIVE_UP_SECONDS: Final = 86400.0
"""Until one that is kept from its work is over."""

HELD: Final = "Held"
FAILED: Final = "Failed"
WORKING: Final = "Working"
DONE: Final = "Done"
"""The states in a cluster's `status.restore`, which `status.restore_progress` writes."""


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
    restore: Mapping[str, Any] = field(default_factory=dict)
    """Its `status.restore`."""
    otherwise: bool = False
    """By its record it has formed, and no backup has filled its first volume."""


@dataclass(frozen=True, slots=True)
class Seen:
    restore: EtcdRestore
    stored: Mapping[str, Any]
    cluster: Born | None = None
    job: Job | None = None
    backup: Store | Awaited | None = None
    """Where the EtcdBackup has stored that the spec names; None where that was not looked up."""
    pod: JobPod = field(default_factory=JobPod)
    """What that EtcdBackup says of its pods."""
    waited: float = 0.0
    """Seconds since it began to say it for the reason that `stored` has."""


@dataclass(frozen=True, slots=True)
class CreateDescription:
    """Make the Job that reads the manifest."""

    store: Store
    pod: JobPod = field(default_factory=JobPod)
    """Of the EtcdBackup that is read."""


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


Step = CreateDescription | CreateCluster | DeleteJob | Say


def is_over(body: Mapping[str, Any]) -> bool:
    """It succeeded once, or failed as the spec is."""
    said: Mapping[str, Any] = body.get("status") or {}
    if said.get("succeeded") is True:
        return True
    generation = body["metadata"].get("generation")
    return said.get("succeeded") is False and said.get("observedGeneration") == generation


def replacing(body: Mapping[str, Any] | None) -> EtcdRestore | None:
    """The EtcdRestore as a word to its cluster: where it asks to replace one, and is not over."""
    if body is None or "deletionTimestamp" in body["metadata"] or is_over(body):
        return None
    try:
        restore = parse_restore(body)
    except RefusedRestore:
        return None
    return restore if restore.replaces is not None else None


def description(restore: EtcdRestore) -> Run:
    """Another one for each edit of the spec: what the one before has found is not asked for."""
    return Run(f"d{restore.generation}", 0.0)


def decide(seen: Seen) -> Step:
    """Once it has succeeded it is never looked at again: the cluster goes its own way."""
    cluster = seen.cluster
    if cluster is None:
        return _describe(seen) if seen.restore.replaces is None else _nothing_there(seen)
    if cluster.of != seen.restore.uid:
        return _taken(seen, cluster)
    if cluster.otherwise:
        return _begun_otherwise(seen, cluster)
    if cluster.serves:
        words = f"cluster {cluster.cluster_id} serves the data of the backup"
        return Say("Restored", words, "True")
    if cluster.blocked:
        words = f"EtcdCluster {seen.restore.name} is blocked: {cluster.blocked}"
        return Say("ClusterBlocked", words, "False", after=LOOK_SECONDS)
    return Say("Restoring", f"EtcdCluster {seen.restore.name}: {cluster.doing}", after=LOOK_SECONDS)


def _begun_otherwise(seen: Seen, cluster: Born) -> Say:
    words = (
        f"EtcdCluster {seen.restore.name} ({cluster.cluster_id}) does not have the data of the "
        "backup: it has begun otherwise, as spec.bootstrap.restore was taken out of it, or its "
        "spec.retainedClaims.adopt names the claims of a cluster before. To give up what it holds "
        "for what is in the backup, make this EtcdRestore anew with its ID in "
        "spec.replace.clusterID"
    )
    return Say("BegunOtherwise", words, "False", failed=True)


def _taken(seen: Seen, cluster: Born) -> Say:
    """There is a cluster of that name that this object has not made."""
    restore = seen.restore
    if restore.replaces is None:
        return _not_confirmed(seen, cluster)
    if cluster.restore.get("uid") == restore.uid:
        return _in_place(seen, cluster)
    if to_hex(restore.replaces) != cluster.cluster_id:
        return _wrong_id(seen, cluster)
    words = f"EtcdCluster {restore.name} is to be looked at: {cluster.doing}"
    return _for_a_day(seen, Say("Restoring", words, after=LOOK_SECONDS))


def _not_confirmed(seen: Seen, cluster: Born) -> Say:
    name = seen.restore.name
    which = f" ({cluster.cluster_id})" if cluster.cluster_id else ", which has not formed yet"
    named = cluster.cluster_id or "its status.clusterID"
    said = Say(
        "ClusterExists",
        f"spec.etcdCluster.name: there is an EtcdCluster {name}{which}. Nothing is done to it. To "
        f"give up what it holds for what is in the backup, set spec.replace.clusterID to "
        f'"{named}"; or make a cluster of another name with spec.bootstrap.restore',
        "False",
        after=SLOW_SECONDS,
    )
    return _for_a_day(seen, said)


def _wrong_id(seen: Seen, cluster: Born) -> Say:
    restore = seen.restore
    there = cluster.cluster_id or "none yet, as it has not formed"
    said = Say(
        "ClusterChanged",
        f"spec.replace.clusterID names {to_hex(restore.replaces or 0)}, and the ID of EtcdCluster "
        f"{restore.name} is {there}. Nothing is done to it: name the one that is to be replaced",
        "False",
        after=SLOW_SECONDS,
    )
    return _for_a_day(seen, said)


def _in_place(seen: Seen, cluster: Born) -> Say:
    told, restore = cluster.restore, seen.restore
    state, words = told.get("state"), str(told.get("message") or "")
    if state == DONE and cluster.serves:
        words = f"cluster {cluster.cluster_id} serves the data of the backup, in place"
        return Say("Restored", words, "True")
    if told.get("generation", restore.generation) != restore.generation:
        words = f"the spec has been edited and is to be looked at: {cluster.doing}"
        return _for_a_day(seen, Say("Restoring", words, after=LOOK_SECONDS))
    if state == FAILED and "generation" in told:
        kept = f"{words}. EtcdCluster {restore.name} goes on with the data that it has"
        return Say("RestoreFailed", kept, "False", failed=True)
    said = Say("Restoring", words or cluster.doing, after=LOOK_SECONDS)
    if state in (FAILED, HELD):
        said = Say("Held", words, "False", after=LOOK_SECONDS)
    return _for_a_day(seen, said) if "generation" in told else said


def _for_a_day(seen: Seen, said: Say) -> Say:
    """Then it is given up. Whoever takes the hindrance away months later, or deletes the cluster,
    has forgotten what that sets off, and all that was written since would be lost.

    The words may be others by then: the scheduler's are whenever a node comes or goes."""
    conditions: Sequence[Mapping[str, Any]] = seen.stored.get("conditions") or ()
    told = next((one for one in conditions if one["type"] == "Complete"), {})
    now = (said.reason, said.status, seen.restore.generation)
    before = (told.get("reason"), told.get("status"), told.get("observedGeneration"))
    if now != before or seen.waited < GIVE_UP_SECONDS:
        return said
    words = f"{said.message}. It was so for a day, and this EtcdRestore is given up: nothing comes "
    words += "of it any more, unless it is edited or made anew"
    return replace(said, message=words, status="False", after=None, failed=True)


def _nothing_there(seen: Seen) -> Say:
    said = Say(
        "ClusterNotFound",
        f"spec.replace: there is no EtcdCluster {seen.restore.name} to be replaced. Remove the "
        "field, and one is made from the backup",
        "False",
        after=SLOW_SECONDS,
    )
    return _for_a_day(seen, said)


def _describe(seen: Seen) -> Step:
    job, source = seen.job, seen.restore.source
    if job is None:
        return _begin(seen)
    if job.stranger:
        words = f"Job {job.name} belongs to {job.stranger}; delete it: its name is needed"
        return Say("JobOfAnother", words, "False", after=SLOW_SECONDS)
    if job.deleting:
        words = f"Job {job.name} of before is being deleted{held_by(job)}"
        return Say("Reading", words, after=1.0)
    if job.state == "complete" and job.said.described:
        store = job.store if isinstance(source, BackupRef) else source
        return _create(seen.restore, job.said.described, store) if store else _unreadable(job)
    if job.state == "complete":
        return DeleteJob.of(job, "its pod is gone, and with it what it read")
    return with_present_image(job) or _reading(job)


def _begin(seen: Seen) -> Step:
    found = resolved(seen.restore.source, seen.backup)
    if isinstance(found, Store):
        return CreateDescription(found, seen.pod)
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
    spec = (
        version
        | recorded_cluster.lasting(described.spec)
        | {"bootstrap": {"restore": stores.to_spec(store)}}
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


def status(seen: Seen, said: Say) -> dict[str, Any]:
    """coreos's fields and the kind of store; the conditions are `backup.status`'s business. What
    was said of the spec before an edit is not said of it now."""
    kind = _storage(seen)
    told: dict[str, Any] = {"backupStorageType": kind} if kind else {}
    if said.status == "True":
        return told | {"succeeded": True, "reason": ""}
    if said.failed:
        return told | {"succeeded": False, "reason": said.message[:2048]}
    return told


def _storage(seen: Seen) -> str:
    """Of the store that is restored from; empty as long as nobody has looked it up."""
    ordered = seen.job.store if seen.job else None
    for store in (seen.restore.source, ordered, seen.backup):
        if isinstance(store, Store):
            return store.kind
    same = seen.stored.get("observedGeneration") == seen.restore.generation
    return str(seen.stored.get("backupStorageType", "")) if same else ""
