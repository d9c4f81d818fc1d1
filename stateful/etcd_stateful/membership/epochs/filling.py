"""The Job that fills a first volume from a backup: created, awaited, recreated if needed.

A new cluster that starts from a backup uses it, and so does a restore in place.
"""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful import naming
from etcd_stateful.api.quantity import same_quantity
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.steps import IMAGE_UNPULLABLE
from etcd_stateful.jobs.restore import FIELD
from etcd_stateful.manifests.restore_job import job_hash, restore_job
from etcd_stateful.manifests.statefulset import first_claim
from etcd_stateful.membership import wording
from etcd_stateful.membership.beginning import bootstrap, leftovers
from etcd_stateful.membership.epochs import volume_jobs
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import ApplyChild, CreateJob, DeleteJob, Step, Wait
from etcd_stateful.observed.objects import Claim, Job
from etcd_stateful.records.bootstrap import Bootstrap


@dataclass(frozen=True, slots=True)
class Filling:
    """What a first volume is filled with, and for which cluster."""

    record: Bootstrap
    """The record of the cluster that will run on the volume, with its one first member."""
    store: Store
    backup: str = ""
    """Name of the EtcdBackup that the store is that of; empty if a spec names the store itself."""
    field: str = FIELD
    """The field that names the store."""

    @property
    def whose(self) -> str:
        """Whose store it is, to be added to a message."""
        return f" (the store is that of EtcdBackup {self.backup})" if self.backup else ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The Job has failed for good."""

    why: str


def create_claim(seen: Observation, ordinal: int, beside: str = "") -> Step:
    """Creates the claim to fill; `beside` is added to the reason."""
    name = naming.claim(seen.cluster.name, ordinal)
    words = f"claim {name} is created for the restored data{beside}"
    return ApplyChild("PersistentVolumeClaim", name, first_claim(seen.cluster, ordinal), words)


def fill_with_job(seen: Observation, claim: Claim, filling: Filling) -> Step | Failed | None:
    """The next step for the Job; None once it has filled the claim."""
    job = seen.job
    if job is None:
        return _create(seen, claim, filling)
    if job.deleting:
        return volume_jobs.to_be_gone(job)
    return _why_useless(seen, claim, job, filling) or _of_job(job, filling)


def not_to_be_used(seen: Observation, claim: Claim) -> Step | None:
    """Waits for a deleted claim that is to be filled, and holds for a damaged one. Kubernetes keeps
    a deleted one as long as there is a pod of the Job, even one that has ended, so the Job is
    deleted first."""
    if not claim.deleting:
        return leftovers.damaged_record(claim) if claim.damage else None
    words = f"claim {claim.name}, which it is to fill, is being deleted"
    return volume_jobs.delete_job(seen, words) or Wait(wording.to_be_gone(claim), soon=True)


def _why_useless(seen: Observation, claim: Claim, job: Job, filling: Filling) -> Step | None:
    """Deletes a Job that is not, or no longer, the right one; None if it is the right one."""
    if job.stranger:
        return volume_jobs.name_taken(job)
    made = job_hash(bootstrap.at_running_version(seen), filling.store)
    if (job.epoch, job.spec_hash) != (filling.record.epoch, made):
        return DeleteJob.of(job, f"Job {job.name} is recreated: the spec has been edited")
    if job.claim_uid != claim.uid:
        # The data that it wrote may be gone with the earlier claim.
        words = f"Job {job.name} is recreated: claim {claim.name} was replaced"
        return DeleteJob.of(job, words)
    if job.state == "failed" and job.storage and not same_quantity(job.storage, claim.requested):
        return DeleteJob.of(job, f"Job {job.name} is recreated: the size of its claim was changed")
    if job.unpullable:
        return DeleteJob.of(job, f"Job {job.name} is recreated: {IMAGE_UNPULLABLE}")
    return None


def _of_job(job: Job, filling: Filling) -> Step | Failed | None:
    if job.state == "complete":
        return None
    if job.state == "failed":
        return Failed(f"{volume_jobs.why_failed(job)}{filling.whose}")
    where = filling.store.place
    doing = f"Job {job.name} to restore {where}{filling.whose}"
    return Wait(f"{doing}: {job.trouble}" if job.trouble else doing, soon=True)


def _create(seen: Observation, claim: Claim, filling: Filling) -> Step:
    if step := volume_jobs.wait_for_occupants(seen):
        return step
    manifest = restore_job(
        bootstrap.at_running_version(seen),
        filling.record,
        filling.store,
        claim_uid=claim.uid,
        storage=claim.requested,
        operator_image=seen.operator_image,
        field=filling.field,
    )
    name = naming.restore_job(seen.cluster.name)
    where = filling.store.place
    return CreateJob(name, manifest, f"Job {name} restores {where}")
