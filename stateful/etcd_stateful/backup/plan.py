"""What is to be done for one EtcdBackup, from what is seen of it alone.

Each run is one Job, whose name says which: an operator that is killed between any two calls finds
the Job of the run that is due, or finds none and makes it. The status says which run it tells of,
and only that makes a run be over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from etcd_stateful import naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import trial
from etcd_stateful.backup.outcome import Failure, Progress, Proven, Said, Stored

PROGRESS_SECONDS: Final = 2.0
SLOW_SECONDS: Final = 10.0
CLOCKS_DIFFER: Final = 300.0
"""By so many seconds at most: those of two operators in whose turn one comes after the other, and
the API server's."""
IMAGE_UNPULLABLE: Final = (
    "its operator image cannot be pulled, and the operator runs another by now"
)
"""Why a Job is recreated whose pod waits for an operator image that no registry has any more."""

LONGEST_WAIT: Final = 600.0
"""Timers run by another clock than the calendar, and a clock may be set, or stand while its machine
sleeps."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an EtcdBackup: a generation of a single one, a due time of one at an interval."""

    id: str
    due: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Target:
    """The EtcdCluster that `clusterRef` names."""

    endpoints: tuple[str, ...]
    cluster_id: int
    client_secret: str = ""
    """With the certificate that its members ask clients for; none where they speak plaintext."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run's Job and what its newest pod tells."""

    name: str
    uid: str
    resource_version: str
    created: float
    state: Literal["running", "complete", "failed"]
    said: Said = field(default_factory=Said)
    why: str = ""
    """Why it failed, as Kubernetes has it."""
    trouble: str = ""
    """What keeps its pod from running; of one that is being deleted, from being gone."""
    progress: Progress | None = None
    stranger: str = ""
    """Whose it is, if it is not this backup's."""
    deleting: bool = False
    store: Store | None = None
    """Where its order says to look; None where that cannot be read."""
    unpullable: bool = False
    """It runs, but its pod cannot pull the operator image, and the operator runs another by now."""


@dataclass(frozen=True, slots=True)
class Seen:
    backup: EtcdBackup
    stored: Mapping[str, Any]
    """The status as it is."""
    run: Run | None
    """Which run is due; None where none is."""
    now: float
    job: Job | None = None
    trial: Job | None = None
    """The Job of the trial restore of this run."""
    before: Job | None = None
    """The Job of another run that the status still names."""
    target: Target | None = None
    """None also where `clusterRef` names no cluster that is there."""
    claim: bool = True
    """False where the store's claim is not there."""
    members: bool = False
    """Whether that claim has the data of a member of an EtcdCluster."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    run: Run


@dataclass(frozen=True, slots=True)
class CreateTrial:
    """Make the Job that restores what was stored, and compares."""

    run: Run
    stored: Stored


@dataclass(frozen=True, slots=True)
class DeleteJob:
    name: str
    uid: str
    resource_version: str
    why: str

    @classmethod
    def of(cls, job: Job, why: str) -> DeleteJob:
        return cls(job.name, job.uid, job.resource_version, why)


@dataclass(frozen=True, slots=True)
class Tell:
    """Nothing to do but to say so; `after` seconds later it may be otherwise."""

    reason: str
    message: str
    status: Literal["True", "False", "Unknown"] = "False"
    after: float | None = None
    stored: Stored | None = None
    proven: Proven | None = None
    unproven: Stored | None = None
    """What a run that has failed left in the store."""
    failure: Failure | None = None
    progress: Progress | None = None
    began: float | None = None
    """When the run that this speaks of began; set where it is over."""

    @property
    def over(self) -> bool:
        return self.began is not None


Step = CreateJob | CreateTrial | DeleteJob | Tell


def due_run(
    backup: EtcdBackup, stored: Mapping[str, Any], last: float | None, created: float, now: float
) -> Run | None:
    """The run that comes next; None where there will be none.

    However many intervals have passed meanwhile, one backup makes up for all of them.

    Args:
        last: when the last run that is over began.
        created: when the resource was made.
    """
    if backup.periodic:
        due = (created if last is None else last) + backup.policy.interval
        # More than one interval from now only a clock has written it that was ahead; no backup
        # would come, without a word, until it is right.
        ahead = due - now > backup.policy.interval + CLOCKS_DIFFER
        return Run(str(int(due)), now if ahead else due)
    run = Run(f"g{backup.generation}", created)
    if stored.get("succeeded") is True or stored.get("run") == run.id:
        return None
    # Letting it go, with what it has stored, edits the spec too, and is no wish to try again.
    return None if backup.let_go else run


def decide(seen: Seen) -> Step:
    """The next step. A run that the spec has left behind is ended before anything else."""
    run, job = seen.run, seen.job
    if seen.before and seen.before.state == "running" and not seen.before.stranger:
        return _end(seen.before)
    if run is None:
        return _said_before(seen)
    if job is None:
        return _wait(seen, run) if run.due > seen.now else _begin(seen, run)
    return _of_job(seen, run, job)


def trial_of(run: Run) -> Run:
    """A run's trial restore, as another run beside it."""
    return Run(f"v{run.id}", run.due)


def _of_job(seen: Seen, run: Run, job: Job) -> Step:
    if job.stranger or job.deleting:
        return not_ours(job)
    match job.state:
        case "complete":
            return _complete(seen, run, job)
        case "failed":
            return _failed(seen, job)
        case _:
            return _running(job)


def not_ours(job: Job) -> Tell:
    if job.stranger:
        return Tell(
            "JobOfAnother",
            f"Job {job.name} belongs to {job.stranger}; delete it, or give this another name",
            after=SLOW_SECONDS,
        )
    words = f"Job {job.name} of before is being deleted{held_by(job)}"
    return Tell("Starting", words, after=1.0)


def held_by(job: Job) -> str:
    """Why a Job that is being deleted is still there, as the end of a sentence."""
    return f": {job.trouble}" if job.trouble else ""


def _begin(seen: Seen, run: Run) -> Step:
    backup = seen.backup
    if backup.cluster and seen.target is None:
        return Tell(
            "ClusterNotFound",
            f"spec.clusterRef.name: there is no EtcdCluster {backup.cluster!r} in namespace "
            f"{backup.namespace}, or its spec is not accepted",
            after=SLOW_SECONDS,
        )
    if not seen.claim:
        return Tell(
            "VolumeNotFound",
            f"spec.volume.claimName: there is no PersistentVolumeClaim {backup.store.bucket!r} in "
            f"namespace {backup.namespace}",
            after=SLOW_SECONDS,
        )
    if seen.members:
        return Tell(
            "VolumeOfCluster",
            f"spec.volume.claimName: PersistentVolumeClaim {backup.store.bucket!r} has the data of "
            "a member of an EtcdCluster, where nothing else is written; name another",
            after=SLOW_SECONDS,
        )
    return CreateJob(run)


def _end(job: Job) -> Step:
    if job.deleting:
        words = f"the pod of Job {job.name} of before is to end first{held_by(job)}"
        return Tell("Starting", words, after=PROGRESS_SECONDS)
    why = "the spec was changed while it ran"
    return DeleteJob.of(job, why)


def _complete(seen: Seen, run: Run, job: Job) -> Step:
    stored = job.said.stored
    if stored is None:
        return DeleteJob.of(job, "its pod is gone, and with it what it stored")
    if seen.backup.verify == "Restore":
        return _try(seen, run, job, stored)
    return _made(job, stored)


def _made(job: Job, stored: Stored, proven: Proven | None = None) -> Tell:
    words = f"{stored.location} holds {stored.size} bytes, revision {stored.revision}"
    notes = "".join(f"; {note}" for note in stored.notes)
    proof = f"; {proven.words}" if proven else ""
    words += notes + proof
    return Tell("Stored", words, "True", stored=stored, proven=proven, began=job.created)


def _try(seen: Seen, run: Run, job: Job, stored: Stored) -> Step:
    """What is stored counts once a restore of it was seen to work."""
    tried = seen.trial
    if why := trial.why_not(stored.version):
        refused = replace(job, said=Said(failure=Failure("VerificationFailed", why)))
        return replace(_failed(seen, refused), unproven=stored)
    if tried is None:
        return CreateTrial(run, stored)
    return _of_trial(seen, job, stored, tried)


def _of_trial(seen: Seen, job: Job, stored: Stored, tried: Job) -> Step:
    if tried.stranger or tried.deleting:
        return not_ours(tried)
    match tried.state:
        case "complete" if tried.said.proven:
            return _made(job, stored, tried.said.proven)
        case "complete":
            why = "its pod is gone, and with it what it found"
            return DeleteJob.of(tried, why)
        case "failed":
            return replace(_failed(seen, tried), began=job.created, unproven=stored)
        case _:
            return _trying(tried)


def with_present_image(job: Job) -> DeleteJob | None:
    """Recreates a Job whose image cannot be pulled, once the operator itself runs another image."""
    return DeleteJob.of(job, IMAGE_UNPULLABLE) if job.unpullable else None


def _trying(tried: Job) -> Step:
    if tried.said.failure or tried.trouble or tried.unpullable:
        return _running(tried)
    words = f"Job {tried.name} restores what is stored, to compare it with what the cluster held"
    return Tell("Verifying", words, "Unknown", after=PROGRESS_SECONDS)


def _failed(seen: Seen, job: Job) -> Tell:
    words = (job.why or f"Job {job.name} has failed") + _waited(seen)
    failure = job.said.failure or Failure("JobFailed", words)
    return Tell(failure.reason, failure.message, failure=failure, began=job.created)


def _waited(seen: Seen) -> str:
    """What the last word was, where its pod had not started: of a Job whose time is over Kubernetes
    says only that."""
    conditions: Sequence[Mapping[str, Any]] = seen.stored.get("conditions") or ()
    waited = [one for one in conditions if (one["type"], one["reason"]) == ("Complete", "PodWaits")]
    return f"; {waited[0]['message']}" if waited else ""


def _running(job: Job) -> Step:
    if again := with_present_image(job):
        return again
    if failure := job.said.failure:
        words = f"{failure.message}; it is tried again"
        return Tell(failure.reason, words, after=PROGRESS_SECONDS, progress=job.progress)
    if job.trouble:
        words = f"the pod of Job {job.name}: {job.trouble}"
        return Tell("PodWaits", words, "Unknown", after=PROGRESS_SECONDS)
    if progress := job.progress:
        words = "the snapshot is on its way to the store"
        return Tell("Running", words, "Unknown", PROGRESS_SECONDS, progress=progress)
    return Tell("Starting", f"Job {job.name} starts", "Unknown", after=PROGRESS_SECONDS)


def _wait(seen: Seen, run: Run) -> Step:
    """Before the next of an interval: what is known of the one before stays."""
    after = min(run.due - seen.now, LONGEST_WAIT)
    if seen.stored.get("run"):
        return replace(_said_before(seen), after=after)
    return Tell("Scheduled", "the first backup is made after one interval", "Unknown", after)


def _said_before(seen: Seen) -> Tell:
    """What was said of a run that is over stays. Where `Complete` has told of a trouble since, and
    that has passed, the run's own end is said again."""
    stored = seen.stored
    conditions: Sequence[Mapping[str, Any]] = stored.get("conditions") or ()
    told = next((one for one in conditions if one["type"] == "Complete"), None)
    if told and stored.get("succeeded") is True and told["status"] != "True":
        size, revision = stored.get("size"), stored.get("etcdRevision")
        words = f"{stored.get('location')} holds {size} bytes, revision {revision}"
        return Tell("Stored", words, "True")
    if told and stored.get("succeeded") is False and told["message"] != stored.get("reason"):
        return Tell("Failed", str(stored.get("reason")))
    return Tell("", "")


def job_name(backup: EtcdBackup, run: Run) -> str:
    return naming.backup_job(backup.name, run.id)
