"""The Job that fills a first volume from a backup: made, waited for, made again.

The same for a cluster that begins and for one that is to take another's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.stores import Store
from etcd_stateful.jobs.restore import FIELD
from etcd_stateful.manifests.restore_job import made_of, restore_job
from etcd_stateful.manifests.statefulset import first_claim
from etcd_stateful.membership import bootstrap, survivor
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import ApplyChild, CreateJob, DeleteJob, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim, Job
from etcd_stateful.records.bootstrap import Bootstrap

UNPULLABLE: Final = "its image of the operator cannot be had, and there is another by now"


@dataclass(frozen=True, slots=True)
class Filling:
    record: Bootstrap
    """Of the cluster that is to run on the volume, with its one first member."""
    store: Store
    whose: str = ""
    """Added to what is said of the store: which object names it."""
    field: str = FIELD
    """Where the store is named."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The Job has given up."""

    why: str


def claimed(seen: Observation, ordinal: int, beside: str = "") -> Step:
    """The claim that is to be filled; `beside`: what else there is, in words."""
    name = naming.claim(seen.cluster.name, ordinal)
    words = f"claim {name} is made for what is restored{beside}"
    return ApplyChild("PersistentVolumeClaim", name, first_claim(seen.cluster, ordinal), words)


def by_job(seen: Observation, claim: Claim, filling: Filling) -> Step | Failed | None:
    """What comes next; None once the claim has been filled."""
    job = seen.job
    if job is None:
        return _create(seen, claim, filling)
    if job.deleting:
        return Wait(f"Job {job.name} to be gone", soon=True)
    return _why_useless(seen, claim, job, filling) or _of_job(job, filling)


def cleared(seen: Observation, why: str) -> Step | None:
    """The Job goes, once it is of no use any more; None where it is gone."""
    job = seen.job
    if job is None or job.stranger:
        return None
    if job.deleting:
        return Wait(f"Job {job.name} to be gone", soon=True)
    return DeleteJob.of(job, f"Job {job.name} is deleted: {why}")


def occupied(seen: Observation) -> Step | None:
    """Nobody else may be at the volume. A Job's controller makes a second pod at times, and a Job
    that is deleted does not wait for its pods."""
    if not seen.occupants:
        return None
    return Wait(f"pods {', '.join(seen.occupants)} to stop", soon=True)


def of_another(job: Job) -> Hold:
    return Hold(
        "NameTaken",
        f"Job {job.name} belongs to {job.stranger}. It is left alone; delete it, or make it again "
        "under another name",
    )


def late(seen: Observation) -> Step | None:
    """A Job that nobody waits for any more goes: a request may be carried out long after its time,
    and its pods wait for a claim of the name that they know, and fill whatever comes by it."""
    asked = survivor.is_looked_at(seen)
    return None if asked else cleared(seen, "it has come too late, and nothing asks for it")


def _why_useless(seen: Observation, claim: Claim, job: Job, filling: Filling) -> Step | None:
    """A Job under the name that is not the one to wait for."""
    if job.stranger:
        return of_another(job)
    made = made_of(bootstrap.as_running(seen), filling.store)
    if (job.epoch, job.spec_hash) != (filling.record.epoch, made):
        return DeleteJob.of(job, f"Job {job.name} is made again: the spec has been edited")
    if job.claim_uid != claim.uid:
        # What it has filled may be gone with the claim of before.
        words = f"Job {job.name} is made again: claim {claim.name} is another by now"
        return DeleteJob.of(job, words)
    if job.unpullable:
        return DeleteJob.of(job, f"Job {job.name} is made again: {UNPULLABLE}")
    return None


def _of_job(job: Job, filling: Filling) -> Step | Failed | None:
    if job.state == "complete":
        return None
    if job.state == "failed":
        return Failed(f"Job {job.name} failed: {job.trouble or 'its pods say why'}{filling.whose}")
    where = filling.store.location(filling.store.key)
    doing = f"Job {job.name} to restore {where}{filling.whose}"
    return Wait(f"{doing}: {job.trouble}" if job.trouble else doing, soon=True)


def _create(seen: Observation, claim: Claim, filling: Filling) -> Step:
    if step := occupied(seen):
        return step
    manifest = restore_job(
        bootstrap.as_running(seen),
        filling.record,
        filling.store,
        claim_uid=claim.uid,
        operator_image=seen.operator_image,
        field=filling.field,
    )
    name = naming.restore_job(seen.cluster.name)
    where = filling.store.location(filling.store.key)
    return CreateJob(name, manifest, f"Job {name} restores {where}")
