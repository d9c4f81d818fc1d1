"""Deletes the stored backup when its EtcdBackup is deleted.

With `deletionPolicy: Delete` a finalizer keeps the object until a Job has deleted what it stored.
The finalizer never blocks for good: it is removed if the policy is changed to `Retain`, even during
the deletion, and if the namespace is deleted. A failed deletion is tried again after a while,
because its cause may be fixed in a Secret or a bucket, without an edit of the EtcdBackup. After an
edit it is tried at once: each generation has its own Job. What a restore reads stays until that is
over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.backup import plan
from etcd_stateful.backup.observed import Job, Run
from etcd_stateful.backup.steps import DeleteJob, WriteStatus

FINALIZER: Final = f"{naming.GROUP}/stored-backup"
FAILED: Final = "DeletionFailed"
LOCATIONS: Final = ("location", "unproven")
"""Fields of the status with the location of what is stored."""
AGAIN_SECONDS: Final = 600.0
"""Time from one failed deletion to the next try."""


@dataclass(frozen=True, slots=True)
class CreateDeletionJob:
    """Create the Job that deletes what is stored."""


@dataclass(frozen=True, slots=True)
class SetFinalizers:
    """Replace the finalizers of the EtcdBackup."""

    finalizers: tuple[str, ...]


_READ: Final = WriteStatus(
    "Deleting",
    "what is stored stays for now: an EtcdRestore of this namespace that is not over names it, or "
    "the bootstrap.restore of an EtcdCluster that does not serve. It is deleted after that; to keep"
    " it and delete the object, set deletionPolicy to Retain",
    after=plan.SLOW_SECONDS,
)

Step = CreateDeletionJob | DeleteJob | SetFinalizers | WriteStatus


def deletion_run(backup: EtcdBackup) -> Run:
    """The deletion as a run, which names its Job."""
    return Run(f"delete-g{backup.generation}", 0.0)


def other_locations(backup: EtcdBackup, stored: Mapping[str, Any]) -> tuple[str, ...]:
    """Locations in the status that the spec no longer leads to.

    Args:
        stored: the status.
    """
    told = (str(stored.get(field) or "") for field in LOCATIONS)
    return tuple(
        dict.fromkeys(one for one in told if one and not plan.is_where_it_stores(backup, one))
    )


def left_elsewhere(backup: EtcdBackup, stored: Mapping[str, Any], job: Job) -> str:
    """Location of what a Job has stored, if neither the spec nor the status leads there."""
    left = "" if job.other_owner else job.said.left
    known = left in map(stored.get, LOCATIONS)
    return "" if known or plan.is_where_it_stores(backup, left) else left


def finalizer_step(finalizers: Sequence[str], *, wanted: bool) -> SetFinalizers | None:
    """Adds the finalizer if it is wanted, and removes it if not; None if nothing has to change."""
    if (FINALIZER in finalizers) == wanted:
        return None
    if wanted:
        return SetFinalizers((*finalizers, FINALIZER))
    return SetFinalizers(tuple(one for one in finalizers if one != FINALIZER))


def decide(
    backup: EtcdBackup,
    stored: Mapping[str, Any],
    finalizers: Sequence[str],
    *,
    before: Job | None,
    job: Job | None,
    told: float,
    read: bool,
) -> Step | None:
    """The next step for an EtcdBackup that is being deleted; None if our finalizer is gone.

    Args:
        stored: the status.
        before: the Job of the last backup, if it `matters`.
        job: the Job that deletes what is stored.
        told: for how many seconds `Complete` has said that it fails.
        read: whether a restore reads what is stored, or is about to.
    """
    off = finalizer_step(finalizers, wanted=False)
    if off is None or not backup.delete_stored:
        return off
    if before and (left := left_elsewhere(backup, stored, before)):
        return plan.left_by_an_edit("Deleting", left)
    if before and may_still_run(before):
        return _stop(before)
    if job is None:
        return _READ if read else CreateDeletionJob()
    return _of_job(job, off, told)


def may_still_run(job: Job) -> bool:
    """Whether a pod of the Job may still run. A Job that is being deleted exists until its pod is
    gone."""
    return not job.other_owner and (job.state == "running" or job.deleting)


def matters(backup: EtcdBackup, stored: Mapping[str, Any], job: Job) -> bool:
    """Whether the Job of a backup has to be looked at before what is stored is deleted."""
    return may_still_run(job) or bool(left_elsewhere(backup, stored, job))


def _stop(running: Job) -> Step:
    if running.deleting:
        words = f"the pod of Job {running.name} has to end first, as it could store a backup again"
        words += plan.held_by(running)
        return WriteStatus("Deleting", words, after=plan.PROGRESS_SECONDS)
    why = "its EtcdBackup is being deleted"
    return DeleteJob.of(running, why)


def _of_job(job: Job, off: SetFinalizers, told: float) -> Step:
    if job.other_owner or job.deleting:
        return plan.not_ours(job)
    if job.state == "complete":
        return off
    if job.state == "failed" and told >= AGAIN_SECONDS:
        why = "it could not delete the stored backup, and is retried"
        return DeleteJob.of(job, why)
    return plan.with_present_image(job) or _held(job)


def _held(job: Job) -> WriteStatus:
    failure = job.said.failure
    why = failure.message if failure else job.trouble or job.why
    if not why:
        return WriteStatus(
            "Deleting", "the stored backup is being deleted", after=plan.PROGRESS_SECONDS
        )
    words = f"the stored backup cannot be deleted: {why}. It is retried every ten minutes and "
    words += "after an edit; set deletionPolicy to Retain to keep it and delete the object"
    # By this reason the Job says that only what is in other stores is still there.
    emptied = job.store if failure and failure.reason == FAILED else None
    return WriteStatus(FAILED, words, after=plan.SLOW_SECONDS, emptied=emptied)
