"""Decides the next step for one EtcdRestore, from what is observed.

If there is no EtcdCluster of that name:

    a Job reads the spec of the cluster from the manifest in the store -> the EtcdCluster is created
    with `spec.bootstrap.restore` -> it serves

An EtcdBackup in `spec.backupRef` is looked up before the Job is made. The Job's order records what
was found, and the cluster is made from that, even if the EtcdBackup has changed by then.

If there is an EtcdCluster of that name:

    `spec.replace` names its ID -> the passes of the cluster restore it in place
    (`membership/epochs/in_place.py`) -> their `status.restore` is reported here

An existing cluster is touched only if the spec names its ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from etcd_stateful import naming, stored_conditions
from etcd_stateful.api import stores
from etcd_stateful.api.backup import JobPod
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import BackupRef, Source, backup_in
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import begun_otherwise, recorded_cluster
from etcd_stateful.backup.observed import Job, Run
from etcd_stateful.backup.outcome import Described, Failure
from etcd_stateful.backup.plan import given_up, held_by, with_present_image
from etcd_stateful.backup.reference import NotRestorable, resolved
from etcd_stateful.backup.restore_requests import GIVE_UP_SECONDS
from etcd_stateful.backup.steps import DeleteJob
from etcd_stateful.identity import to_hex
from etcd_stateful.versions import number_of

LOOK_SECONDS: Final = 2.0
AWAIT_SECONDS: Final = 10.0
"""Until an EtcdBackup that has not succeeded yet is looked at again."""
SLOW_SECONDS: Final = 30.0
PASS_FAILED: Final = ("Refused", "StepFailed")
"""Reasons of `Complete` that are about the API server, not about the restore."""

HELD: Final = "Held"
FAILED: Final = "Failed"
WORKING: Final = "Working"
DONE: Final = "Done"
"""The states in the `status.restore` of an EtcdCluster, from `status.restore_progress`."""


@dataclass(frozen=True, slots=True)
class TargetCluster:
    """The EtcdCluster that has the name of the restore."""

    of: str
    """UID of the EtcdRestore that made it; empty if none did."""
    serves: bool
    cluster_id: str
    doing: str
    """What its operator is doing, in words."""
    refused: str = ""
    """Why its spec is not accepted, so that nothing is done."""
    blocked: str = ""
    """Why it is blocked otherwise, and what the user has to do."""
    restore: Mapping[str, Any] = field(default_factory=dict)
    """Its `status.restore`."""
    not_from_backup: bool = False
    """By its record it has formed, but not from a backup."""
    begins: Source | None = None
    """Its `spec.bootstrap.restore`."""
    named: str = ""
    """The EtcdBackup that the EtcdRestore which made it named then."""


@dataclass(frozen=True, slots=True)
class ObservedRestore:
    """What is observed of one EtcdRestore."""

    restore: EtcdRestore
    stored: Mapping[str, Any]
    """The status as it is."""
    cluster: TargetCluster | None = None
    job: Job | None = None
    backup: Store | NotRestorable | None = None
    """What the EtcdBackup in `spec.backupRef` has stored; None if it was not looked up."""
    pod: JobPod = field(default_factory=JobPod)
    """The pod settings of that EtcdBackup."""
    waited: float = 0.0
    """Seconds since `Complete` took the reason that it has in `stored`."""


@dataclass(frozen=True, slots=True)
class CreateDescriptionJob:
    """Create the Job that reads the manifest."""

    store: Store
    pod: JobPod = field(default_factory=JobPod)
    """The pod settings of the EtcdBackup whose backup is read."""


@dataclass(frozen=True, slots=True)
class CreateCluster:
    """Create the EtcdCluster."""

    manifest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteRestoreStatus:
    """Nothing to do but to write the status. Look again `after` seconds later."""

    reason: str
    message: str
    status: Literal["True", "False", "Unknown"] = "Unknown"
    after: float | None = None
    failed: bool = False
    """Whether it has failed for good, unless the spec is edited."""


Step = CreateDescriptionJob | CreateCluster | DeleteJob | WriteRestoreStatus


def description_run(restore: EtcdRestore) -> Run:
    """The run whose Job reads the manifest. Each edit of the spec has a Job of its own."""
    return Run(f"d{restore.generation}", 0.0)


def decide(seen: ObservedRestore) -> Step:
    """The next step. An EtcdRestore that has succeeded is never looked at again."""
    cluster = seen.cluster
    if cluster is None:
        return _absent(seen) if seen.restore.replaces is None else _nothing_there(seen)
    if cluster.of != seen.restore.uid or seen.restore.replaces is not None:
        return _taken(seen, cluster)
    if otherwise := _begun_otherwise(seen, cluster):
        return otherwise
    if cluster.serves:
        words = f"cluster {cluster.cluster_id} serves with the data of the backup"
        return WriteRestoreStatus("Restored", words, "True")
    if why := cluster.refused or cluster.blocked:
        words = f"EtcdCluster {seen.restore.name} is blocked: {why}"
        return WriteRestoreStatus("ClusterBlocked", words, "False", after=LOOK_SECONDS)
    return WriteRestoreStatus(
        "Restoring", f"EtcdCluster {seen.restore.name}: {cluster.doing}", after=LOOK_SECONDS
    )


def _begun_otherwise(seen: ObservedRestore, cluster: TargetCluster) -> WriteRestoreStatus | None:
    restore = seen.restore
    if cluster.not_from_backup:
        words = begun_otherwise.from_none(restore, cluster.cluster_id)
        return WriteRestoreStatus("BegunOtherwise", words, "False", failed=True)
    words = begun_otherwise.from_another(restore, cluster.begins, cluster.named, seen.backup)
    said = WriteRestoreStatus("BegunOtherwise", words, "False", LOOK_SECONDS, cluster.serves)
    return said if words else None


def _taken(seen: ObservedRestore, cluster: TargetCluster) -> WriteRestoreStatus:
    """The step if a cluster of that name exists that this EtcdRestore did not make, or is to
    replace."""
    restore = seen.restore
    if restore.replaces is None:
        return _not_confirmed(seen, cluster)
    told, asked = cluster.restore, to_hex(restore.replaces) == cluster.cluster_id
    # Without a generation it is about the last takeover, and not about the one that is asked for.
    if told.get("uid") == restore.uid and ("generation" in told or not asked):
        return _in_place(seen, cluster)
    if not asked:
        return _wrong_id(seen, cluster)
    if cluster.refused:
        return _for_a_day(seen, _refused(cluster, restore.name))
    words = f"EtcdCluster {restore.name} has not begun the restore yet: {cluster.doing}"
    return _for_a_day(seen, WriteRestoreStatus("Restoring", words, after=LOOK_SECONDS))


def _not_confirmed(seen: ObservedRestore, cluster: TargetCluster) -> WriteRestoreStatus:
    name = seen.restore.name
    its_id = cluster.cluster_id
    which = f" ({its_id})" if its_id else ", which has not formed yet"
    named = f'"{its_id}"' if its_id else "its status.clusterID, once it has one"
    said = WriteRestoreStatus(
        "ClusterExists",
        f"spec.etcdCluster.name: there is an EtcdCluster {name}{which}. Nothing is done to it. To "
        f"replace its data with the backup, set spec.replace.clusterID to {named}; or create a "
        "cluster with another name and spec.bootstrap.restore",
        "False",
        after=SLOW_SECONDS,
    )
    return _for_a_day(seen, said)


def _wrong_id(seen: ObservedRestore, cluster: TargetCluster) -> WriteRestoreStatus:
    restore = seen.restore
    there = cluster.cluster_id or "none yet, as it has not formed"
    said = WriteRestoreStatus(
        "ClusterChanged",
        f"spec.replace.clusterID names {to_hex(restore.replaces or 0)}, but the ID of EtcdCluster "
        f"{restore.name} is {there}. Nothing is done to it: name the ID of the cluster to replace",
        "False",
        after=SLOW_SECONDS,
    )
    return _for_a_day(seen, said)


def _in_place(seen: ObservedRestore, cluster: TargetCluster) -> WriteRestoreStatus:
    told, restore = cluster.restore, seen.restore
    state, words = told.get("state"), str(told.get("message") or "")
    is_done, source = state == DONE and cluster.serves, str(told.get("source") or "")
    if otherwise := begun_otherwise.in_place(restore, cluster.cluster_id, source):
        return WriteRestoreStatus("BegunOtherwise", otherwise, "False", LOOK_SECONDS, is_done)
    if is_done:
        words = f"cluster {cluster.cluster_id} serves with the data of the backup, in place"
        return WriteRestoreStatus("Restored", words, "True")
    edited = told.get("generation", restore.generation) != restore.generation
    if state == FAILED and "generation" in told and not (edited or cluster.refused):
        kept = f"{words}. EtcdCluster {restore.name} keeps the data that it has"
        return WriteRestoreStatus("RestoreFailed", kept, "False", failed=True)
    if edited:
        words = f"the cluster has not seen the edited spec yet: {cluster.doing}"
    said = WriteRestoreStatus("Restoring", words or cluster.doing, after=LOOK_SECONDS)
    if cluster.refused:
        said = _refused(cluster, restore.name)
    elif state in (FAILED, HELD) and not edited:
        said = WriteRestoreStatus("Held", words, "False", after=LOOK_SECONDS)
    return _for_a_day(seen, said) if "generation" in told else said


def _refused(cluster: TargetCluster, name: str) -> WriteRestoreStatus:
    words = f"nothing is done for EtcdCluster {name}: {cluster.refused}"
    return WriteRestoreStatus("Held", words, "False", after=LOOK_SECONDS)


def _for_a_day(seen: ObservedRestore, said: WriteRestoreStatus) -> WriteRestoreStatus:
    """Fails the EtcdRestore after a day for one reason. Somebody who removes the obstacle months
    later, or deletes the cluster, has forgotten about the restore, and would lose everything that
    was written since.

    Only the reason has to stay the same. The message may change: the scheduler's message does
    whenever a node comes or goes."""
    told = stored_conditions.find(seen.stored, "Complete")
    now = (said.reason, said.status, seen.restore.generation)
    before = (told.get("reason"), told.get("status"), told.get("observedGeneration"))
    if now != before or seen.waited < GIVE_UP_SECONDS:
        return said
    words = given_up(said.message, naming.RESTORE_KIND, "a day")
    return replace(said, message=words, status="False", after=None, failed=True)


def _nothing_there(seen: ObservedRestore) -> WriteRestoreStatus:
    said = WriteRestoreStatus(
        "ClusterNotFound",
        f"spec.replace: there is no EtcdCluster {seen.restore.name} to replace. Remove the field "
        "to create it from the backup",
        "False",
        after=SLOW_SECONDS,
    )
    return _for_a_day(seen, said)


def _absent(seen: ObservedRestore) -> Step:
    """The next step if there is no cluster. It may have been deleted while there was no operator,
    which would have given the restore up."""
    words = f"there was an EtcdCluster {seen.restore.name}, which is gone by now"
    said = _for_a_day(seen, WriteRestoreStatus("ClusterExists", words, "False"))
    return said if said.failed and seen.job is None else _describe(seen)


def _describe(seen: ObservedRestore) -> Step:
    job, source = seen.job, seen.restore.source
    if job is None:
        return _begin(seen)
    if job.other_owner:
        words = f"Job {job.name} belongs to {job.other_owner}; delete it, as its name is needed"
        return WriteRestoreStatus("JobOfAnother", words, "False", after=SLOW_SECONDS)
    if job.deleting:
        words = f"the previous Job {job.name} is being deleted{held_by(job)}"
        return WriteRestoreStatus("Reading", words, after=1.0)
    if job.state == "complete" and job.said.described:
        store = job.store if isinstance(source, BackupRef) else source
        return _create(seen.restore, job.said.described, store) if store else _unreadable(job)
    if job.state == "complete":
        return DeleteJob.of(job, "its pod is gone, and so is its report of what it read")
    return with_present_image(job) or _reading(job)


def _begin(seen: ObservedRestore) -> Step:
    found = resolved(seen.restore.source, seen.backup)
    if isinstance(found, Store):
        return CreateDescriptionJob(found, seen.pod)
    why = found.why if found.stuck else f"waiting for {found.why}"
    said = f"spec.backupRef.name: {why}. Nothing is created until then"
    return WriteRestoreStatus(
        "BackupAwaited", said, "False" if found.stuck else "Unknown", after=AWAIT_SECONDS
    )


def _unreadable(job: Job) -> WriteRestoreStatus:
    words = f"Job {job.name} has an order that cannot be read: delete it, and it is recreated"
    return WriteRestoreStatus("JobUnreadable", words, "False", after=SLOW_SECONDS)


def _reading(job: Job) -> WriteRestoreStatus:
    failure = job.said.failure
    if job.state != "running":
        end = failure or Failure("JobFailed", job.why or "its pod is gone")
        return WriteRestoreStatus(end.reason, end.message, "False", failed=True)
    if failure:
        words = f"{failure.message}; it is retried"
        return WriteRestoreStatus(failure.reason, words, "False", after=LOOK_SECONDS)
    if job.trouble:
        words = f"the pod of Job {job.name}: {job.trouble}"
        return WriteRestoreStatus("PodWaits", words, after=LOOK_SECONDS)
    words = "the Job reads the manifest of the backup"
    return WriteRestoreStatus("Reading", words, after=LOOK_SECONDS)


def _create(restore: EtcdRestore, described: Described, store: Store) -> Step:
    # For a spec without a version: what the cluster ran, as today's default may be another one.
    ran = number_of(described.version)
    version = {"version": ran} if ran else {}
    spec = (
        version
        | recorded_cluster.reusable(described.spec)
        | {"bootstrap": {"restore": stores.to_spec(store)}}
    )
    notes = {naming.RESTORED_BY: restore.uid}
    if named := backup_in(restore.source):
        notes[naming.RESTORED_FROM] = named
    if store.sha256:
        notes[naming.RESTORED_SHA256] = stores.noted(store)
    metadata = {"name": restore.name, "namespace": restore.namespace, "annotations": notes}
    return CreateCluster({"metadata": metadata, "spec": spec})


def status(seen: ObservedRestore, said: WriteRestoreStatus) -> dict[str, Any]:
    """The coreos operator's fields and the kind of store; `backup.status` adds the conditions."""
    kind = _storage(seen)
    told: dict[str, Any] = {"backupStorageType": kind} if kind else {}
    if said.status == "True":
        return told | {"succeeded": True, "reason": ""}
    if said.failed:
        return told | {"succeeded": False, "reason": said.message[:2048]}
    return told


def _storage(seen: ObservedRestore) -> str:
    """Kind of the store that is restored from; empty until the EtcdBackup was looked up. After an
    edit of the spec the old status no longer counts."""
    ordered = seen.job.store if seen.job else None
    for store in (seen.restore.source, ordered, seen.backup):
        if isinstance(store, Store):
            return store.kind
    same = seen.stored.get("observedGeneration") == seen.restore.generation
    return str(seen.stored.get("backupStorageType", "")) if same else ""
