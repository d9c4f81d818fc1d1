"""What a recovery and a restore have in common: the Job that works on a volume, and the wait until
nothing else uses that volume."""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.membership import put_off, wording
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import DeleteJob, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim, Job


def delete_job(seen: Observation, why: str) -> Step | None:
    """Deletes the Job, for the reason `why`; None once it is gone."""
    job = seen.job
    if job is None or job.stranger:
        return None
    if job.deleting:
        return to_be_gone(job)
    return DeleteJob.of(job, f"Job {job.name} is deleted: {why}")


def clear_up(seen: Observation) -> Step | None:
    """Deletes the Job, which has done its work, and waits for its pods; None once all are gone."""
    return delete_job(seen, "it has done its work") or wait_for_occupants(seen)


def delete_unneeded_job(seen: Observation) -> Step | None:
    """Deletes a Job that nothing needs any more. A create request can be carried out long after it
    was sent; the Job's pod then waits for a claim by name, and would work on any claim of that
    name. One whose work is done keeps a deleted claim as long as it has a pod."""
    if survivor.needs_lookup(seen):
        return None
    step = delete_job(seen, "nothing needs it any more")
    return None if put_off.last_failure(seen, step) else step


def not_deleted(seen: Observation) -> Hold | None:
    """Holds if the API server has just refused to delete such a Job. No pod is started meanwhile,
    whose volume the Job's pod might work on; everything else goes on."""
    if seen.job is None or seen.job.state == "complete" or survivor.needs_lookup(seen):
        return None
    failed = put_off.last_failure(seen, delete_job(seen, ""))
    if failed is None:
        return None
    return Hold(
        "JobNotDeleted",
        f"{failed.why}. Its pod might work on a member's volume: no pod is started or restarted "
        "until it is deleted",
    )


def to_be_gone(job: Job) -> Wait:
    return Wait(f"Job {job.name} to be gone", soon=True)


def name_taken(job: Job) -> Hold:
    return Hold(
        "NameTaken",
        f"Job {job.name} belongs to {job.stranger}. It is left alone; delete it, or make it again "
        "under another name",
    )


def why_failed(job: Job) -> str:
    return f"Job {job.name} failed: {job.trouble or 'its pods say why'}"


def wait_for_occupants(seen: Observation) -> Step | None:
    """Waits until no other pod can use the volume. The Job controller sometimes creates a second
    pod, and a deleted Job may be gone before its pods."""
    if not seen.occupants:
        return None
    return Wait(f"pods {', '.join(seen.occupants)} to stop {if_they_stay(seen)}", soon=True)


def if_they_stay(seen: Observation) -> str:
    """What to do about occupants, to be added to a wait for them to stop. One with the name of a
    member's pod is not the StatefulSet's, perhaps since somebody has changed its labels."""
    name = seen.cluster.name
    others = [one for one in seen.occupants if naming.ordinal_of(name, one) is not None]
    orphans = f"kubectl delete pod {' '.join(others)}, as nothing else stops it; " if others else ""
    return f"({orphans}if the node of one is off for good, {wording.GIVE_UP})"


def wait_for_old_claim(claim: Claim, pod: str) -> Wait:
    """Waits for a deleted claim of an ordinal below the pod's: if the StatefulSet controller cannot
    create a pod, it creates none above it. Something may keep the claim for ever."""
    return Wait(
        f"claim {claim.name} to be gone: until then pod {pod} is not created (if the claim stays, "
        "its finalizers say what keeps it)",
        soon=True,
    )
