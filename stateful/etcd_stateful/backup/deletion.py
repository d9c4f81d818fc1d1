"""What becomes of the stored backup when its object is deleted.

Only `deletionPolicy: Delete` holds an object back, by a finalizer, until a Job has deleted what it
had stored. Nobody is held by what cannot be done: `Retain` lets go at any time, also of an object
that is being deleted already, and so does a namespace that ends. A deletion that has failed is
tried again after a while, for who mends a Secret or a bucket edits nothing here, and at once after
an edit: each generation has a Job of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.backup import names, plan
from etcd_stateful.backup.plan import DeleteJob, Job, Run, Tell

FINALIZER: Final = f"{naming.GROUP}/stored-backup"
AGAIN_SECONDS: Final = 600.0
"""From one deletion that fails to the next."""


@dataclass(frozen=True, slots=True)
class CreateDeletion:
    """Make the Job that deletes what is stored."""


@dataclass(frozen=True, slots=True)
class SetFinalizers:
    finalizers: tuple[str, ...]


Step = CreateDeletion | DeleteJob | SetFinalizers | Tell


def deletion_of(backup: EtcdBackup) -> Run:
    return Run(f"delete-g{backup.generation}", 0.0)


def elsewhere(backup: EtcdBackup, stored: Mapping[str, Any]) -> tuple[str, ...]:
    """Locations of what it has stored, by its status, to which its spec no longer leads.

    Args:
        stored: the status.
    """
    told = (str(stored.get(field) or "") for field in ("location", "unproven"))
    return tuple(dict.fromkeys(one for one in told if one and not _is_where_it_stores(backup, one)))


def _is_where_it_stores(backup: EtcdBackup, location: str) -> bool:
    store = backup.store
    key = store.key_at(location)
    return key == store.key or (backup.periodic and bool(names.moment_of(store.key, key)))


def guard(finalizers: Sequence[str], *, wanted: bool) -> SetFinalizers | None:
    """Puts the finalizer on before anything is stored, and takes it off where it is not wanted."""
    if (FINALIZER in finalizers) == wanted:
        return None
    if wanted:
        return SetFinalizers((*finalizers, FINALIZER))
    return SetFinalizers(tuple(one for one in finalizers if one != FINALIZER))


def decide(
    finalizers: Sequence[str], *, wanted: bool, running: Job | None, job: Job | None, now: float
) -> Step | None:
    """Of an object that is being deleted; None where it is held by nothing of ours.

    Args:
        running: the Job of the last backup, where it `may_store`.
        job: the Job that deletes.
    """
    if FINALIZER not in finalizers:
        return None
    off = guard(finalizers, wanted=False)
    if not wanted or off is None:
        return off
    if running and may_store(running):
        return _stop(running)
    if job is None:
        return CreateDeletion()
    return _of_job(job, off, now)


def may_store(job: Job) -> bool:
    """Whether a pod of it may still run. One that is being deleted is there until its pod is
    not."""
    return not job.stranger and (job.state == "running" or job.deleting)


def _stop(running: Job) -> Step:
    if running.deleting:
        words = f"the pod of Job {running.name} is to end first, or it could store it once more"
        words += plan.held_by(running)
        return Tell("Deleting", words, after=plan.PROGRESS_SECONDS)
    why = "its EtcdBackup is being deleted"
    return DeleteJob.of(running, why)


def _of_job(job: Job, off: SetFinalizers, now: float) -> Step:
    if job.stranger or job.deleting:
        return plan.not_ours(job)
    if job.state == "complete":
        return off
    if job.state == "failed" and now - job.created >= AGAIN_SECONDS:
        why = "it could not delete what is stored, and is tried again"
        return DeleteJob.of(job, why)
    return plan.with_present_image(job) or _held(job)


def _held(job: Job) -> Tell:
    failure = job.said.failure
    why = failure.message if failure else job.trouble or job.why
    if not why:
        return Tell("Deleting", "what is stored is being deleted", after=plan.PROGRESS_SECONDS)
    words = f"what is stored cannot be deleted: {why}. It is tried again every ten minutes and "
    words += "after an edit; set deletionPolicy to Retain to let go of it"
    return Tell("DeletionFailed", words, after=plan.SLOW_SECONDS)
