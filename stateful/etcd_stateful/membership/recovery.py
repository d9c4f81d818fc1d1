"""Recovery from the loss of the quorum, which only a human can ask for (`spec.recovery`).

    replicas 0 -> no pod left (or declared fenced) -> epoch + 1, the survivor on record
    -> a Job runs its volume once as a cluster of one -> its claim is recorded as of the new epoch
    -> Job deleted -> the other members' claims deleted -> the survivor off the record
    -> replicas as ever: the survivor runs, the others wait empty and are grown

Up to the raise of the epoch, taking the word back calls all off. From then on no volume may run as
it is, so it is finished, whatever the spec says; only another survivor can still be named, by a
recovery of the new epoch.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.api.recovery import Recovery
from etcd_stateful.manifests.recovery_job import made_of, recovery_job
from etcd_stateful.membership import bootstrap, filling, going_back, roster, survivor
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import (
    CreateJob,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    Hold,
    RecordMember,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.objects import Claim, Job
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import bootstrap as records


def carry_out(seen: Observation) -> Step | None:
    """Asked once the StatefulSet asks for no pods: `replicas.wanted` sees to that."""
    if recorded(seen).restoring or not survivor.halted(seen):
        return None
    if (asked := survivor.accepted(seen)) is not None:
        return _stopped(seen, asked.fenced) or _raise_epoch(seen, asked)
    fenced = seen.cluster.recovery.fenced if seen.cluster.recovery else ()
    return _stopped(seen, fenced) or _finish(seen)


def decline(seen: Observation) -> Step | None:
    """A recovery that is asked for while a quorum answers is not kept for the next loss of it."""
    if not is_latched(seen):
        return None
    record, asked = recorded(seen), survivor.asked_for(seen)
    if record.declined and asked is None:
        words = "spec.recovery is gone: it may be asked for again"
        return WriteBootstrap.of(seen, records.decline(record, declined=False), words)
    if seen.etcd is None or asked is None or record.declined:
        return None
    if asked.cluster_id != record.cluster_id:
        return None
    words = "spec.recovery is declined: a quorum answers"
    return WriteBootstrap.of(seen, records.decline(record, declined=True), words)


def refused(seen: Observation) -> Step | None:
    """Asked without a quorum: what stands against the recovery that the spec asks for."""
    asked = survivor.asked_for(seen)
    if asked is None or seen.etcd is not None:
        return None
    if why := survivor.why_not(seen, asked):
        return Hold(
            "RecoveryRefused",
            f"spec.recovery is not carried out: {why}. {survivor.ways_out(seen)}",
        )
    names = ", ".join(survivor.served(seen, asked))
    return Wait(f"{names} to be no longer Ready or led: a quorum may be there", soon=True)


def not_needed(seen: Observation) -> Step | None:
    """Asked last, as the cluster goes on all the same."""
    if seen.etcd is None or survivor.asked_for(seen) is None:
        return None
    return Hold(
        "RecoveryNotNeeded",
        "a quorum answers, so spec.recovery has no effect, now or later: remove it",
    )


def _stopped(seen: Observation, fenced: tuple[str, ...]) -> Step | None:
    """Nobody may run the volumes of before any more."""
    for pod in seen.pods:
        if pod.name in fenced and pod.deleting and pod.overdue:
            reason = (
                f"pod {pod.name} is given up: spec.recovery.fenced says that it is off for good"
            )
            return DeletePod.by_force(pod, reason)
    if seen.pods:
        return Wait(f"{', '.join(_stopping(pod) for pod in seen.pods)} to stop", soon=True)
    return _strangers_stopped(seen)


def _strangers_stopped(seen: Observation) -> Step | None:
    others = [name for name in seen.occupants if not _is_of_job(seen, name)]
    if not others:
        return None
    return Wait(
        f"pods {', '.join(others)} to stop, which are not of this StatefulSet (if the node of one "
        "is off for good, delete the Node, or the pod by force)",
        soon=True,
    )


def _stopping(pod: Pod) -> str:
    if not pod.overdue:
        return f"pod {pod.name}"
    return (
        f"pod {pod.name} ({pod.trouble or 'nobody confirms that it has stopped'}; if its node is "
        "off for good, list it in spec.recovery.fenced)"
    )


def _is_of_job(seen: Observation, name: str) -> bool:
    return name.startswith(f"{naming.recovery_job(seen.cluster.name)}-")


def _raise_epoch(seen: Observation, asked: Recovery) -> Step:
    record = records.recovering(recorded(seen), asked.survivor)
    return WriteBootstrap.of(
        seen,
        record,
        f"epoch {record.epoch} begins with the data of {asked.survivor}; from here on the recovery "
        "cannot be called off",
        final=True,
    )


def _finish(seen: Observation) -> Step:
    record = recorded(seen)
    seat = roster.named(seen, record.survivor)
    claim = seat.claim if seat else None
    if claim is None:
        return _failed(seen, f"{record.survivor} has no claim")
    if why := survivor.why_no_claim(seen, claim):
        return _failed(seen, why)
    if claim.record and claim.record.epoch == record.epoch:
        return _clear_up(seen, claim)
    return _run(seen, claim)


def _run(seen: Observation, claim: Claim) -> Step:
    """The Job, once: not before every pod of an earlier one has stopped."""
    job = seen.job
    if job is None:
        return _create(seen, claim)
    if job.deleting:
        return Wait(f"Job {job.name} to be gone", soon=True)
    if (useless := _why_useless(seen, job)) is not None:
        return useless
    if job.state == "complete":
        return _record(seen, claim)
    if job.state == "failed":
        return _failed(seen, f"Job {job.name} failed: {job.trouble or 'its pods say why'}")
    return Wait(_doing(seen, job), soon=True)


def _doing(seen: Observation, job: Job) -> str:
    words = f"Job {job.name} to make a cluster of one out of {job.survivor}"
    if not job.trouble:
        return words
    return ". ".join(filter(None, (f"{words}: {job.trouble}", going_back.why_not(seen))))


def _why_useless(seen: Observation, job: Job) -> Step | None:
    """A Job under the name that is not the one to wait for."""
    record = recorded(seen)
    if job.stranger:
        return filling.of_another(job)
    if (job.survivor, job.epoch) != (record.survivor, record.epoch):
        return DeleteJob.of(job, f"Job {job.name} is deleted: it is of an earlier recovery")
    edited = job.spec_hash != made_of(bootstrap.as_running(seen))
    if job.state != "complete" and (edited or job.unpullable):
        why = "the spec has been edited" if edited else filling.UNPULLABLE
        return DeleteJob.of(job, f"Job {job.name} is made again: {why}")
    return None


def _create(seen: Observation, claim: Claim) -> Step:
    if step := filling.occupied(seen):
        return step
    if claim.record is None:
        return _failed(seen, f"claim {claim.name} has no record")
    manifest = recovery_job(
        bootstrap.as_running(seen),
        recorded(seen),
        claim.record.member_id,
        operator_image=seen.operator_image,
    )
    name = naming.recovery_job(seen.cluster.name)
    words = f"Job {name} makes a cluster of one out of {recorded(seen).survivor}"
    return CreateJob(name, manifest, words)


def _record(seen: Observation, claim: Claim) -> Step:
    record = recorded(seen)
    if claim.record is None:
        return _failed(seen, f"claim {claim.name} has no record")
    reason = f"claim {claim.name} is recorded as of epoch {record.epoch}"
    return RecordMember.of(claim, replace(claim.record, epoch=record.epoch), reason)


def _clear_up(seen: Observation, kept: Claim) -> Step:
    if step := filling.cleared(seen, "it has done its work") or filling.occupied(seen):
        return step
    for claim in seen.claims:
        if claim.ordinal != kept.ordinal and _is_of_before(seen, claim):
            return _discard(claim)
    record = recorded(seen)
    size = max(kept.ordinal + 1, seen.cluster.size)
    words = f"{record.survivor} goes on alone, and is joined by others as spec.size says"
    return WriteBootstrap.of(seen, records.recovered(record, size), words)


def _is_of_before(seen: Observation, claim: Claim) -> bool:
    """On record as a volume of an epoch that a human's recovery has ended (I6)."""
    record = claim.own_record
    return bool(record and survivor.is_ours(seen, claim) and record.epoch < recorded(seen).epoch)


def _discard(claim: Claim) -> Step:
    if claim.deleting:
        return Wait(f"claim {claim.name} to be gone", soon=True)
    reason = f"claim {claim.name} is deleted: its member ended with the recovery"
    return DeleteClaim.of(claim, reason)


def _failed(seen: Observation, why: str) -> Hold:
    record = recorded(seen)
    again = "" if seen.job is None else f"delete Job {seen.job.name} to try again, or "
    return Hold(
        "RecoveryFailed",
        f"the recovery with {record.survivor} cannot go on: {why}. The epoch is {record.epoch} by "
        f"now, so no member starts as it is: {again}name another survivor in spec.recovery, with "
        f"epoch {record.epoch}",
    )
