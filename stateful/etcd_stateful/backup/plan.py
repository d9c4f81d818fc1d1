"""Decides the next step for one EtcdBackup, from what is observed.

Each run is one Job, and the Job's name identifies the run. So an operator that was killed between
any two calls finds the Job of the run that is due, or finds none and creates it. A run is over only
once the status names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from etcd_stateful import naming, stored_conditions
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.backup import names, trial, trouble
from etcd_stateful.backup.clocks import CLOCKS_DIFFER, LONGEST_WAIT
from etcd_stateful.backup.observed import Job, ObservedBackup, Run
from etcd_stateful.backup.outcome import Failure, JobReport, Stored, Verified
from etcd_stateful.backup.steps import (
    IMAGE_UNPULLABLE,
    CreateJob,
    CreateTrialJob,
    DeleteJob,
    Step,
    WriteStatus,
)

PROGRESS_SECONDS: Final = 2.0
SLOW_SECONDS: Final = 10.0
HOUR: Final = 3600.0
DAY: Final = 86400.0
"""How long a scheduled and a single backup wait for a cluster or a volume that does not exist. The
Job of each has as long for its pod to start."""


def due_run(
    backup: EtcdBackup, stored: Mapping[str, Any], last: float | None, created: float, now: float
) -> Run | None:
    """The next run; None if there will be none.

    One backup makes up for all intervals that have passed in the meantime.

    Args:
        last: when the last finished run began.
        created: creation timestamp of the EtcdBackup.
    """
    if backup.periodic:
        due = (created if last is None else last) + backup.policy.interval
        if stored.get("run") == str(int(due)):  # Made already, while a clock was ahead.
            due += 1
        # A due time more than one interval ahead was written by a clock that was ahead. Without
        # this, no backup would be made until that time, and nothing would say so.
        ahead = due - now > backup.policy.interval + CLOCKS_DIFFER
        return Run(str(int(due)), now if ahead else due)
    run = Run(single_run(backup.generation), min(created, now))  # A clock may be behind.
    if stored.get("succeeded") is True or stored.get("run") == run.id:
        return None
    # Before a schedule deletes a finished backup, it edits the spec: that is no request for another
    # run. A copy of such an object has no status, and may never be deleted.
    return None if backup.let_go and stored.get("run") else run


def single_run(generation: int) -> str:
    """ID of the run of a backup without an interval: after a failure, an edit begins another."""
    return f"g{generation}"


def decide(seen: ObservedBackup) -> Step:
    """The next step. What is left of an older spec comes before anything else."""
    run, job = seen.run, seen.job
    if seen.before and (step := _of_earlier(seen, seen.before)):
        return step
    if run is None:
        return _said_before(seen)
    if job is None:
        return _wait(seen, run) if run.due > seen.now else _begin(seen, run)
    return _of_job(seen, run, job)


def trial_run(run: Run) -> Run:
    """The trial restore of a run, as a run of its own."""
    return Run(f"v{run.id}", run.due)


def is_where_it_stores(backup: EtcdBackup, location: str) -> bool:
    """Whether the spec leads to the location."""
    store = backup.store
    key = store.key_at(location)
    return key == store.key or (backup.periodic and bool(names.moment_of(store.key, key)))


def spared(backup: EtcdBackup, stay: Iterable[str]) -> tuple[str, ...]:
    """Those of the locations that its Job could overwrite, or delete as old ones, as keys."""
    if backup.periodic and not backup.policy.keep:
        return ()
    return tuple(sorted({backup.store.key_at(at) for at in stay if is_where_it_stores(backup, at)}))


def _of_job(seen: ObservedBackup, run: Run, job: Job) -> Step:
    if job.other_owner or job.deleting:
        return not_ours(job)
    match job.state:
        case "complete":
            return _complete(seen, run, job)
        case "failed":
            return _failed(seen, job)
        case _:
            return _not_aware(seen, job) or _running(job)


def _not_aware(seen: ObservedBackup, job: Job) -> DeleteJob | None:
    """Deletes a Job that could overwrite or delete what a restore reads that was declared since."""
    if job.said.stored or job.order is None or {*seen.spare} <= {*job.order.spare}:
        return None
    return DeleteJob.of(job, "a restore has been declared that reads what it may delete")


def not_ours(job: Job) -> WriteStatus:
    if job.other_owner:
        return WriteStatus(
            "JobOfAnother",
            f"Job {job.name} belongs to {job.other_owner}; delete it, or rename this EtcdBackup",
            after=SLOW_SECONDS,
        )
    words = f"the previous Job {job.name} is being deleted{held_by(job)}"
    return WriteStatus("Starting", words, after=1.0)


def held_by(job: Job) -> str:
    """Why a Job that is being deleted still exists, as the end of a sentence."""
    return f": {job.trouble}" if job.trouble else ""


def _begin(seen: ObservedBackup, run: Run) -> Step:
    missing = _missing(seen)
    return _not_for_ever(seen, missing) if missing else CreateJob(run)


def _missing(seen: ObservedBackup) -> WriteStatus | None:
    """What the spec names and cannot be used; None if nothing keeps the Job from being made."""
    backup = seen.backup
    if backup.cluster and seen.target is None:
        return WriteStatus(
            "ClusterNotFound",
            f"spec.clusterRef.name: there is no EtcdCluster {backup.cluster!r} in namespace "
            f"{backup.namespace}",
            after=SLOW_SECONDS,
        )
    if seen.target and not seen.target.formed:
        field = "clusterRef.name" if backup.cluster else "etcdEndpoints"
        words = f"spec.{field}: the EtcdCluster has not formed yet; its status.plan says why"
        return WriteStatus("ClusterNotFormed", words, after=SLOW_SECONDS)
    if not seen.claim:
        return WriteStatus(
            "VolumeNotFound",
            f"spec.volume.claimName: there is no PersistentVolumeClaim {backup.store.bucket!r} in "
            f"namespace {backup.namespace}",
            after=SLOW_SECONDS,
        )
    if seen.members:
        failure = trouble.of_a_member(backup.store)
        return WriteStatus(failure.reason, failure.message, after=SLOW_SECONDS)
    return None


def _not_for_ever(seen: ObservedBackup, said: WriteStatus) -> WriteStatus:
    """Fails the run once it has waited for long enough, so that `kubectl wait` for `succeeded` ends
    and the next run of a schedule begins. At an interval no other run waits for this one."""
    backup = seen.backup
    told = stored_conditions.find(seen.stored, "Complete")
    before = (told.get("reason"), told.get("observedGeneration"))
    seconds, time = (HOUR, "an hour") if backup.scheduled else (DAY, "a day")
    if backup.periodic or before != (said.reason, backup.generation) or seen.told < seconds:
        return said
    words = given_up(said.message, naming.BACKUP_KIND, time)
    return replace(said, message=words, after=None, began=seen.now)


def given_up(message: str, kind: str, time: str) -> str:
    """The message of an object of this kind that has waited in vain for so long."""
    return (
        f"{message}. This has not changed for {time}, so this {kind} is given up; to try again, "
        "edit it or create it again"
    )


def _of_earlier(seen: ObservedBackup, job: Job) -> Step | None:
    """The step for the Job of an older spec. What it has stored is noted, so that it is deleted
    along with this object; the Job is stopped if it runs."""
    left = job.said.left
    if job.other_owner:
        return None
    if left and seen.stored.get("unproven") != left:
        return left_by_an_edit("Starting", left)
    return _stop_earlier(job) if job.state == "running" else None


def left_by_an_edit(reason: str, location: str) -> WriteStatus:
    words = f"the spec was changed before {location} counted"
    return WriteStatus(reason, words, "Unknown", after=1.0, unproven=location)


def _stop_earlier(job: Job) -> Step:
    if job.deleting:
        words = f"the pod of the previous Job {job.name} has to end first{held_by(job)}"
        return WriteStatus("Starting", words, after=PROGRESS_SECONDS)
    return DeleteJob.of(job, "the spec was changed while it ran")


def _complete(seen: ObservedBackup, run: Run, job: Job) -> Step:
    stored = job.said.stored
    if stored is None:
        return DeleteJob.of(job, "its pod is gone, and so is its report of what it stored")
    if seen.backup.verify != "Restore":
        return _made(seen, job, stored)
    if job.order and not job.order.measure:
        why = "spec.verify was edited while it ran, so it is not verified"
        return _made(seen, job, replace(stored, notes=(*stored.notes, why)))
    return _try(seen, run, job, stored)


def _made(
    seen: ObservedBackup, job: Job, stored: Stored, proven: Verified | None = None
) -> WriteStatus:
    holds = f"{stored.location} holds {stored.size} bytes, revision {stored.revision}"
    words = "; ".join((holds, *stored.notes, *((proven.words,) if proven else ())))
    began = _began(seen, job)
    return WriteStatus("Stored", words, "True", stored=stored, proven=proven, began=began)


def _began(seen: ObservedBackup, job: Job) -> float:
    """When the run began. If the clock of the API server, by which the Job was created, is wrong,
    the next run would be due at once, again and again."""
    due = seen.run.due if seen.run else job.created
    is_likely = due - CLOCKS_DIFFER <= job.created <= seen.now
    return max(job.created, due) if is_likely else seen.now


def _try(seen: ObservedBackup, run: Run, job: Job, stored: Stored) -> Step:
    """The next step of `verify: Restore`: a backup counts once a trial restore of it has worked."""
    tried = seen.trial
    if why := trial.why_not(stored.version):
        refused = replace(job, said=JobReport(failure=Failure("VerificationFailed", why)))
        return replace(_failed(seen, refused), unproven=stored.location)
    if tried is None:
        return CreateTrialJob(run, stored, job.store or seen.backup.store)
    return _of_trial(seen, job, stored, tried)


def _of_trial(seen: ObservedBackup, job: Job, stored: Stored, tried: Job) -> Step:
    if tried.other_owner or tried.deleting:
        return not_ours(tried)
    if tried.order and tried.order.expected != stored.sha256:
        # The run's own Job was recreated since, and has stored another backup.
        return DeleteJob.of(tried, "it is of an earlier backup of the same run")
    match tried.state:
        case "complete" if tried.said.proven:
            return _made(seen, job, stored, tried.said.proven)
        case "complete":
            why = "its pod is gone, and so is its report of the trial restore"
            return DeleteJob.of(tried, why)
        case "failed":
            return replace(_failed(seen, tried), began=_began(seen, job), unproven=stored.location)
        case _:
            return _trying(tried)


def with_present_image(job: Job) -> DeleteJob | None:
    """Recreates a Job whose image cannot be pulled, once the operator itself runs another image."""
    return DeleteJob.of(job, IMAGE_UNPULLABLE) if job.unpullable else None


def _trying(tried: Job) -> Step:
    if tried.said.failure or tried.trouble or tried.unpullable:
        return _running(tried)
    words = f"Job {tried.name} restores the backup and compares it with what the cluster held"
    return WriteStatus("Verifying", words, "Unknown", after=PROGRESS_SECONDS)


def _failed(seen: ObservedBackup, job: Job) -> WriteStatus:
    words = (job.why or f"Job {job.name} has failed") + _waited(seen)
    failure = job.said.failure or Failure("JobFailed", words)
    began = _began(seen, job)
    return WriteStatus(failure.reason, failure.message, unproven=failure.left, began=began)


def _waited(seen: ObservedBackup) -> str:
    """Why its pod had not started, from the last status: for a Job that exceeded its deadline,
    Kubernetes says nothing else."""
    told = stored_conditions.find(seen.stored, "Complete")
    words = told.get("message") if told.get("reason") == "PodWaits" else ""
    return f"; {words}" if words else ""


def _running(job: Job) -> Step:
    if again := with_present_image(job):
        return again
    if failure := job.said.failure:
        words, left = f"{failure.message}; it is retried", failure.left
        return WriteStatus(
            failure.reason, words, after=PROGRESS_SECONDS, unproven=left, progress=job.progress
        )
    if job.trouble:
        words = f"the pod of Job {job.name}: {job.trouble}"
        return WriteStatus("PodWaits", words, "Unknown", after=PROGRESS_SECONDS)
    if progress := job.progress:
        nothing = f"Job {job.name} has begun; nothing is uploaded yet"
        words = "the snapshot is being uploaded to the store" if progress.has_begun else nothing
        return WriteStatus("Running", words, "Unknown", PROGRESS_SECONDS, progress=progress)
    if job.said.stored:
        words = f"the backup is stored; Job {job.name} is about to end"
        return WriteStatus("Running", words, "Unknown", PROGRESS_SECONDS)
    return starting(job.name)


def starting(job: str) -> WriteStatus:
    """The status of a Job, by its name, that is about to run."""
    return WriteStatus("Starting", f"Job {job} is starting", "Unknown", after=PROGRESS_SECONDS)


def _wait(seen: ObservedBackup, run: Run) -> Step:
    """Until the next run of an interval, the status of the last run stays."""
    after = min(run.due - seen.now, LONGEST_WAIT)
    if seen.stored.get("run"):
        return replace(_said_before(seen), after=after)
    return WriteStatus("Scheduled", "the first backup is made after one interval", "Unknown", after)


def _said_before(seen: ObservedBackup) -> WriteStatus:
    """The status of a finished run stays. If `Complete` has reported another problem since, which
    is over now, it reports the end of the run again."""
    stored, told = seen.stored, stored_conditions.find(seen.stored, "Complete")
    if not told and stored.get("succeeded") is True:
        return WriteStatus("Stored", _OF_COREOS, "True")
    if told and stored.get("succeeded") is True and told["status"] != "True":
        size, revision = stored.get("size"), stored.get("etcdRevision")
        words = f"{stored.get('location')} holds {size} bytes, revision {revision}"
        return WriteStatus("Stored", words, "True")
    if told and stored.get("succeeded") is False and told.get("message") != stored.get("reason"):
        return WriteStatus("Failed", str(stored.get("reason")))
    return WriteStatus("", "")


_OF_COREOS: Final = (
    "it had succeeded under the coreos operator; to back up again, create another EtcdBackup"
)
"""For a status without conditions."""


def job_name(backup: EtcdBackup, run: Run) -> str:
    return naming.backup_job(backup.name, run.id)
