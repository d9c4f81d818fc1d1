"""Recovery from the loss of the quorum, which only the user can ask for (`spec.recovery`).

    replicas 0 -> no pod left (or declared fenced) -> epoch + 1, the survivor on record
    -> a Job runs its volume once as a cluster of one -> its claim is recorded with the new epoch
    -> Job deleted -> the other members' claims deleted -> the survivor off the record
    -> replicas back to normal: the survivor runs, new members are added beside it

Until the epoch is raised, removing `spec.recovery` cancels everything. After that, no volume may
run as it is, so the recovery is finished whatever the spec says. Only another survivor can still be
named, by a `spec.recovery` with the new epoch.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.api.recovery import Recovery
from etcd_stateful.backup.steps import IMAGE_UNPULLABLE
from etcd_stateful.manifests.recovery_job import job_hash, recovery_job
from etcd_stateful.membership import put_off, roster, wording
from etcd_stateful.membership.beginning import bootstrap
from etcd_stateful.membership.epochs import in_place, survivor, volume_jobs
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import rollback, upgrade
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
from etcd_stateful.records.member import MemberRecord


def carry_out(seen: Observation) -> Step | None:
    """The next step of the recovery. Asked once the StatefulSet has no replicas, which is what
    `replicas.wanted` says during a recovery."""
    if recorded(seen).restoring or not survivor.halted(seen):
        return None
    if (asked := survivor.accepted(seen)) is not None:
        return _stopped(seen, asked.fenced) or _discard_restored(seen) or _raise_epoch(seen, asked)
    fenced = seen.cluster.recovery.fenced if seen.cluster.recovery else ()
    return _stopped(seen, fenced) or _finish(seen)


def decline(seen: Observation) -> Step | None:
    """Notes on the record that a recovery was requested while a quorum answered, so that it does
    not take effect when the quorum is lost later."""
    if not is_latched(seen):
        return None
    record, asked = recorded(seen), survivor.requested(seen)
    if record.declined and asked is None:
        words = "spec.recovery was removed, so it can be set again"
        return WriteBootstrap.of(seen, replace(record, declined=False), words)
    if seen.etcd is None or asked is None or record.declined:
        return None
    if asked.cluster_id != record.cluster_id:
        return None
    words = "spec.recovery is declined, because a quorum answers"
    return WriteBootstrap.of(seen, replace(record, declined=True), words)


def correct_record(seen: Observation) -> Step | None:
    """Corrects a record that was put back from before a recovery, or from during it. Otherwise no
    member could start on its data again, or all pods would be stopped once more.

    A volume gets a later epoch only by a recovery's Job. Once the recovery is over, members get it
    with their tickets. But if the Secret was lost in the middle, members of the epoch before may
    have served again since: which data to go on with is for the user to say.
    """
    record, proven = recorded(seen), _proven_epochs(seen)
    epoch = max([record.epoch, *proven.values()])
    at = [name for name, of in proven.items() if of == epoch]
    over = epoch > record.epoch or (record.survivor and set(at) - {record.survivor})
    if not (record.latched and over):
        return None
    alone = epoch > record.epoch and not _has_served(seen, at)
    if alone and survivor.before_may_have_served(seen, epoch):
        words = f"{at[0]} has epoch {epoch}, and members of the epoch before may have served since"
        return bootstrap.note_begun(seen, epoch, words) or _take_off_claim(seen, at[0], epoch)
    after = replace(records.recovered(record, record.ordinals), epoch=epoch)
    words = f"{', '.join(at)} had epoch {epoch} already: the record was put back from before that"
    return WriteBootstrap.of(seen, after, words, final=True)


def _take_off_claim(seen: Observation, name: str, epoch: int) -> Step | None:
    """Records the claim as before a recovery that is no longer on record. If the Secret were lost
    once more, the latest epoch on the claims would count, and the members that may have served
    since would be given up."""
    ours = [(one, one.own_record) for one in seen.claims if survivor.is_ours(seen, one)]
    held = [(one, own) for one, own in ours if own and own.epoch == epoch]
    if [one.name for one, _ in held] != [naming.claim_of(name)]:
        return None  # others have joined the survivor: its epoch has served
    (claim, own), of = held[0], recorded(seen).epoch
    words = f"claim {claim.name} is of epoch {of} again: the recovery of {epoch} is not on record"
    step = RecordMember.of(claim, replace(own, epoch=of), words)
    return None if put_off.last_failure(seen, step) else step


def _has_served(seen: Observation, names: list[str]) -> bool:
    """Whether more is left of the epoch of these pods than the volume that its Job has made."""
    return len(names) > 1 or any(pod.runs_etcd for pod in seen.pods if pod.name in names)


def _proven_epochs(seen: Observation) -> dict[str, int]:
    """By pod, the epoch of its volume, where etcd runs on it or `start` has read it, and the claim
    says the same: anybody may edit the claim."""
    found: dict[str, int] = {}
    for pod in seen.pods:
        epoch = _epoch_of_volume(seen, pod)
        if epoch and epoch == _epoch_on_claim(seen, pod):
            found[pod.name] = epoch
    return found


def _epoch_of_volume(seen: Observation, pod: Pod) -> int | None:
    if pod.finding and pod.finding.cluster_uid == seen.cluster.uid:
        return pod.finding.epoch
    return pod.epoch if pod.runs_etcd else None


def _epoch_on_claim(seen: Observation, pod: Pod) -> int | None:
    claim = seen.claim(pod.ordinal)
    if claim is None or claim.own_record is None or not survivor.is_ours(seen, claim):
        return None
    return claim.own_record.epoch


def refused(seen: Observation) -> Step | None:
    """Says why the requested recovery is not carried out. Asked without a quorum. One that is
    accepted waits only for certificates, which are named elsewhere."""
    asked = survivor.requested(seen)
    if asked is None or seen.etcd is not None or survivor.accepted(seen):
        return None
    if why := survivor.why_not(seen, asked):
        return Hold(
            "RecoveryRefused",
            f"spec.recovery is not carried out: {why}. {survivor.ways_out(seen)}",
        )
    return Wait(_what_may_serve(seen, asked), soon=True)


def _what_may_serve(seen: Observation, asked: Recovery) -> str:
    """What has to be over before all pods are stopped."""
    if serving := survivor.still_serving(seen, asked):
        need = "to be no longer Ready and to have no leader: a quorum may still serve"
        return f"{', '.join(serving)} {need}{_if_a_disk_hangs(seen, serving)}"
    names = survivor.unheard(seen, asked)
    others = [name for name in names if name != asked.survivor]
    enough = f"enough of {', '.join(names)}" if len(names) > 1 else names[0]
    return (
        f"{enough} to answer: etcd runs there, so a quorum may still serve, out of the "
        "operator's reach (if the node of one is off, or cut off from clients and members, "
        f"for good, {_giving_up(seen, (others or names)[0])})"
    )


def _if_a_disk_hangs(seen: Observation, serving: list[str]) -> str:
    """What to do about members that name a leader for ever, as they do if their disk hangs."""
    if any(pod.ready for pod in seen.pods if pod.name in serving):
        return ""
    return " (a member whose disk hangs goes on naming the leader that it had: delete its pod)"


def not_needed(seen: Observation) -> Step | None:
    """Holds if a recovery is requested although a quorum answers. Asked last: nothing waits for
    it."""
    if seen.etcd is None or survivor.requested(seen) is None:
        return None
    return Hold(
        "RecoveryNotNeeded",
        "a quorum answers, so spec.recovery has no effect, now or later: remove it",
    )


def _stopped(seen: Observation, fenced: tuple[str, ...]) -> Step | None:
    """Waits until no pod can use the volumes any more."""
    for pod in seen.pods:
        if pod.name in fenced and pod.deleting and pod.overdue:
            why = "spec.recovery.fenced says that its node is off for good"
            reason = f"pod {pod.name} is force-deleted: {why}"
            if step := DeletePod.of(seen, pod, reason, force=True):
                return step
    if seen.pods:
        return Wait(f"{', '.join(_stopping(seen, pod) for pod in seen.pods)} to stop", soon=True)
    return _restore_stopped(seen) or _strangers_stopped(seen)


def _restore_stopped(seen: Observation) -> Step | None:
    """Deletes the Job of a restore in place, whose pod may never end. What it has restored is of no
    use after the recovery."""
    job = seen.job
    if job is None or job.name != naming.restore_job(seen.cluster.name):
        return None
    return volume_jobs.delete_job(seen, "the recovery comes first")


def _discard_restored(seen: Observation) -> Step | None:
    """Deletes the volume of a restore in place, whose epoch the recovery is about to begin. If the
    record was lost after that, its pod could run beside the survivor's."""
    return in_place.discard_first_volume(seen, "the recovery begins its epoch, and comes first")


def _strangers_stopped(seen: Observation) -> Step | None:
    others = [name for name in seen.occupants if not _is_of_job(seen, name)]
    if not others:
        return None
    words = f"pods {', '.join(others)} to stop, which are not of this StatefulSet"
    return Wait(f"{words} {volume_jobs.if_they_stay(seen)}", soon=True)


def _stopping(seen: Observation, pod: Pod) -> str:
    if not pod.overdue or pod.kept_by:
        return f"pod {wording.stopping(pod)}"
    return (
        f"pod {pod.name} ({pod.trouble or 'its node does not confirm that it has stopped'}; if its "
        f"node is off for good, {_giving_up(seen, pod.name)})"
    )


def _giving_up(seen: Observation, name: str) -> str:
    """What to do if the pod's node is off for good. A survivor cannot be fenced, as its volume is
    needed: the Job's pod gets it once Kubernetes knows that no other pod has it."""
    asked = seen.cluster.recovery
    if name == (asked.survivor if asked else recorded(seen).survivor):
        return wording.GIVE_UP
    return "list the pod in spec.recovery.fenced"


def _is_of_job(seen: Observation, name: str) -> bool:
    return name.startswith(f"{naming.recovery_job(seen.cluster.name)}-")


def _raise_epoch(seen: Observation, asked: Recovery) -> Step:
    record = records.recovering(recorded(seen), asked.survivor)
    return WriteBootstrap.of(
        seen,
        record,
        f"epoch {record.epoch} begins with the data of {asked.survivor}; the recovery "
        "cannot be cancelled from now on",
        final=True,
    )


def _finish(seen: Observation) -> Step:
    record = recorded(seen)
    seat = roster.seat_named(seen, record.survivor)
    claim = seat.claim if seat else None
    if claim is None:
        return _failed(seen, f"{record.survivor} has no claim")
    held = claim.record
    if (why := survivor.why_no_claim(seen, claim)) or held is None:
        return _failed(seen, why)
    return _clear_up(seen, claim) if held.epoch == record.epoch else _run(seen, claim, held)


def _run(seen: Observation, claim: Claim, held: MemberRecord) -> Step:
    """Runs the Job, but only after all pods of an earlier Job have stopped."""
    job = seen.job
    if job is None:
        return _create(seen, held.member_id)
    if job.deleting:
        return volume_jobs.to_be_gone(job)
    if (useless := _why_useless(seen, job)) is not None:
        return useless
    if job.state == "complete":
        return _record(seen, claim, held)
    if job.state == "failed":
        return _failed(seen, volume_jobs.why_failed(job))
    return upgrade.replace_assumed_in_job(seen) or Wait(_doing(seen, job), soon=True)


def _doing(seen: Observation, job: Job) -> str:
    words = f"Job {job.name} to make a cluster of one out of {job.survivor}"
    if not job.trouble:
        return words
    other = f"If that cannot be mended, {_another(seen)}"
    way = upgrade.hint_if_assumed(seen) or rollback.why_not(seen)
    return ". ".join(filter(None, (f"{words}: {job.trouble}", way, other)))


def _another(seen: Observation) -> str:
    """The way out, and what is wrong with a survivor that was named already: `refused` is asked
    only once no recovery is under way."""
    words = f"name another survivor in spec.recovery, with epoch {recorded(seen).epoch}"
    asked = survivor.requested(seen)
    why = survivor.why_not(seen, asked) if asked else ""
    return f"{words}. What it names now is refused: {why}" if why else words


def _why_useless(seen: Observation, job: Job) -> Step | None:
    """Deletes a Job that is not, or no longer, the right one; None if it is the right one."""
    record = recorded(seen)
    if job.stranger:
        return volume_jobs.name_taken(job)
    if (job.survivor, job.epoch) != (record.survivor, record.epoch):
        return DeleteJob.of(job, f"Job {job.name} is deleted: it belongs to an earlier recovery")
    edited = job.spec_hash != job_hash(bootstrap.at_running_version(seen))
    if job.state != "complete" and (edited or job.unpullable):
        why = "the spec has been edited" if edited else IMAGE_UNPULLABLE
        return DeleteJob.of(job, f"Job {job.name} is recreated: {why}")
    return None


def _create(seen: Observation, member_id: int) -> Step:
    if step := volume_jobs.wait_for_occupants(seen):
        return step
    manifest = recovery_job(
        bootstrap.at_running_version(seen),
        recorded(seen),
        member_id,
        operator_image=seen.operator_image,
    )
    name = naming.recovery_job(seen.cluster.name)
    words = f"Job {name} makes a cluster of one out of {recorded(seen).survivor}"
    return CreateJob(name, manifest, words)


def _record(seen: Observation, claim: Claim, held: MemberRecord) -> Step:
    epoch = recorded(seen).epoch
    reason = f"claim {claim.name} is recorded with epoch {epoch}"
    return RecordMember.of(claim, replace(held, epoch=epoch), reason)


def _clear_up(seen: Observation, kept: Claim) -> Step:
    if step := volume_jobs.clear_up(seen):
        return step
    if step := _discard_others(seen, kept):
        return step
    record, size = recorded(seen), _size(seen, kept)
    words = f"{record.survivor} runs alone, and new members join it up to spec.size"
    return WriteBootstrap.of(seen, records.recovered(record, size), words)


def _size(seen: Observation, kept: Claim) -> int:
    """How many pods there may be at first: none at a claim that is still being deleted, nor at that
    of a restore in place, whose volume may be of the epoch that the recovery has begun."""
    stop, restored = replicas.in_the_way(seen), recorded(seen).successor
    ends = (seen.cluster.size, stop, restored.ordinal if restored else None)
    return max(kept.ordinal + 1, min(end for end in ends if end is not None))


def _discard_others(seen: Observation, kept: Claim) -> Step | None:
    """Deletes the other members' claims. Something may keep one for ever, so only those below the
    survivor are waited for; and none whose deletion is refused: `start` refuses their epoch."""
    others = (claim for claim in seen.claims if claim.ordinal != kept.ordinal)
    old = [claim for claim in others if _is_from_earlier_epoch(seen, claim)]
    for claim in old:
        if not (claim.deleting or seen.is_kept(claim)):
            reason = f"claim {claim.name} is deleted: its member ended with the recovery"
            return DeleteClaim.of(claim, reason)
    for claim in old:
        if claim.deleting and claim.ordinal < kept.ordinal:
            return volume_jobs.wait_for_old_claim(claim, recorded(seen).survivor)
    return None


def _is_from_earlier_epoch(seen: Observation, claim: Claim) -> bool:
    """Whether the claim's record is from an epoch that the user's recovery has ended (I6)."""
    record = claim.own_record
    return bool(record and survivor.is_ours(seen, claim) and record.epoch < recorded(seen).epoch)


def _failed(seen: Observation, why: str) -> Hold:
    record = recorded(seen)
    again = "" if seen.job is None else f"delete Job {seen.job.name} to try again, or "
    return Hold(
        "RecoveryFailed",
        f"the recovery with {record.survivor} cannot continue: {why}. The epoch is already raised "
        f"to {record.epoch}, so no member can start: {again}{_another(seen)}",
    )
