"""The Job that fills a first volume from a backup: created, awaited, recreated if needed.

A new cluster that starts from a backup uses it, and so does a restore in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.quantity import same_quantity
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.steps import IMAGE_UNPULLABLE
from etcd_stateful.jobs.restore import FIELD
from etcd_stateful.manifests.restore_job import job_hash, restore_job
from etcd_stateful.manifests.statefulset import first_claim
from etcd_stateful.membership import roster
from etcd_stateful.membership.beginning import bootstrap
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import ApplyChild, CreateJob, DeleteJob, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim, Job
from etcd_stateful.records.bootstrap import Bootstrap

IF_OFF: Final = f"(if the node of one is off for good, {roster.GIVE_UP})"
"""To be added to a wait for pods to stop."""


@dataclass(frozen=True, slots=True)
class Filling:
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
        return Wait(f"Job {job.name} to be gone", soon=True)
    return _why_useless(seen, claim, job, filling) or _of_job(job, filling)


def delete_job(seen: Observation, why: str) -> Step | None:
    """Deletes the Job, for the reason `why`; None once it is gone."""
    job = seen.job
    if job is None or job.stranger:
        return None
    if job.deleting:
        return Wait(f"Job {job.name} to be gone", soon=True)
    return DeleteJob.of(job, f"Job {job.name} is deleted: {why}")


def wait_for_occupants(seen: Observation) -> Step | None:
    """Waits until no other pod can use the volume. The Job controller sometimes creates a second
    pod, and a deleted Job may be gone before its pods."""
    if not seen.occupants:
        return None
    return Wait(f"pods {', '.join(seen.occupants)} to stop {IF_OFF}", soon=True)


def wait_for_deleted_claim(seen: Observation, claim: Claim) -> Step:
    """Waits for the deleted claim that is to be filled. Kubernetes keeps it as long as there is a
    pod of the Job, even one that has ended, so the Job is deleted first."""
    step = delete_job(seen, f"claim {claim.name}, which it is to fill, is being deleted")
    return step or Wait(roster.to_be_gone(claim), soon=True)


def wait_for_old_claim(claim: Claim, pod: str) -> Wait:
    """Waits for a deleted claim of an ordinal below the pod's: if the StatefulSet controller cannot
    create a pod, it creates none above it. Something may keep the claim for ever."""
    return Wait(
        f"claim {claim.name} to be gone: until then pod {pod} is not created (if the claim stays, "
        "its finalizers say what keeps it)",
        soon=True,
    )


def name_taken(job: Job) -> Hold:
    return Hold(
        "NameTaken",
        f"Job {job.name} belongs to {job.stranger}. It is left alone; delete it, or make it again "
        "under another name",
    )


def delete_unneeded_job(seen: Observation) -> Step | None:
    """Deletes a Job that nothing needs any more. A create request can be carried out long after it
    was sent; the Job's pod then waits for a claim by name, and would fill any claim of that
    name."""
    asked = survivor.needs_lookup(seen)
    return None if asked else delete_job(seen, "it was created too late, and nothing needs it")


def _why_useless(seen: Observation, claim: Claim, job: Job, filling: Filling) -> Step | None:
    """Deletes a Job that is not, or no longer, the right one; None if it is the right one."""
    if job.stranger:
        return name_taken(job)
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
        return Failed(f"Job {job.name} failed: {job.trouble or 'its pods say why'}{filling.whose}")
    where = filling.store.location(filling.store.key)
    doing = f"Job {job.name} to restore {where}{filling.whose}"
    return Wait(f"{doing}: {job.trouble}" if job.trouble else doing, soon=True)


def _create(seen: Observation, claim: Claim, filling: Filling) -> Step:
    if step := wait_for_occupants(seen):
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
    where = filling.store.location(filling.store.key)
    return CreateJob(name, manifest, f"Job {name} restores {where}")
