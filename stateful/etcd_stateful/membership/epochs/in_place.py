"""A restore in place: the cluster serves until the restored data is on a volume.

    successor on record -> a claim at an unused ordinal -> its record -> a Job fills it
    -> "filled" on record -> Job deleted -> replicas 0 -> no pod left
    -> epoch + 1, another cluster ID: the successor takes over
    -> replicas as usual: its first member runs, the old volumes may not
    -> it serves -> the old claims are deleted -> new members are added at their ordinals, and the
       first member is removed like any other beyond `spec.size`

It is requested by an EtcdRestore that names the cluster ID to be replaced. Until the epoch is
raised, deleting the EtcdRestore undoes everything, and stopped pods start again with their data.
After that it is finished without the EtcdRestore, and the old volumes are kept until it serves.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import backup_in
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.reference import resolved
from etcd_stateful.identity import to_hex
from etcd_stateful.membership import put_off, roster, wording
from etcd_stateful.membership.epochs import (
    filling,
    in_place_request,
    quorum,
    survivor,
    volume_jobs,
)
from etcd_stateful.membership.epochs.filling import Failed, Filling
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import (
    DeleteClaim,
    Hold,
    RecordMember,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.observed.objects import Claim
from etcd_stateful.records import takeover
from etcd_stateful.records.successor import Successor, bump, raised_by, successor

FAILED = "RestoreFailed"


def advance(seen: Observation) -> Step | None:
    """The next write of the restore. Its waits, and writes that were just refused, hold up nothing
    else until the pods are stopped."""
    step = next_step(seen)
    waits = isinstance(step, Wait) and not in_place_request.halted(seen)
    failed = put_off.last_failure(seen, step)
    return None if isinstance(step, Hold) or waits or failed else step


def without_quorum(seen: Observation) -> Step | None:
    """What the restore waits for while no quorum answers: it may be the way out of that."""
    step = next_step(seen) if seen.etcd is None else None
    return step if isinstance(step, Wait) else None


def report(seen: Observation) -> Step | None:
    """What the restore waits for, or why it is not carried out. Asked late."""
    step = next_step(seen)
    return step if isinstance(step, Wait | Hold) else None


def next_step(seen: Observation) -> Step | None:
    """The next step of the restore, until the successor has taken over."""
    if not is_latched(seen):
        return None
    restore, taking = in_place_request.requested(seen), recorded(seen).successor
    if restore is None or (taking and taking.restore != restore.uid):
        return _call_off(seen, taking) if taking else None
    if why := in_place_request.why_not(seen):
        return Hold("RestoreRefused", f"EtcdRestore {restore.name} is not carried out: {why}")
    if (recovery := survivor.accepted(seen)) is not None:
        words = f"spec.recovery asks to go on with the data of {recovery.survivor}, and comes first"
        return Hold("RestoreRefused", f"EtcdRestore {restore.name} is not carried out: {words}")
    if in_place_request.current(seen) is None:
        return _begin(seen, restore)
    return _fill(seen, restore, taking) if taking else None


def _begin(seen: Observation, restore: EtcdRestore) -> Step:
    """Records the successor first, so that its claim and Job can be recognised."""
    found = resolved(restore.source, seen.backup)
    if not isinstance(found, Store):
        words = f"EtcdRestore {restore.name}: spec.backupRef.name: {found.why}"
        return Hold("BackupAwaited", words) if found.stuck else Wait(words)
    record = recorded(seen)
    live = _revision(seen)
    ordinal = record.successor.ordinal if record.successor else in_place_request.free_ordinal(seen)
    taking = successor(
        cluster_uid=seen.cluster.uid,
        restore=restore.uid,
        epoch=record.next_epoch,
        first=(naming.pod(seen.cluster.name, ordinal), seen.cluster.peer_url(ordinal)),
        bump=bump(live, record.bump),
        raised_by=raised_by(live, record.bump, found.revision),
        store=found,
        backup=backup_in(restore.source),
    )
    words = (
        f"EtcdRestore {restore.name} replaces cluster {to_hex(record.cluster_id)} with "
        f"{found.place}; the cluster serves until that is restored"
    )
    return WriteBootstrap.of(seen, replace(record, successor=taking), words)


def _revision(seen: Observation) -> int:
    """The highest revision that a member reports; 0 if none answers."""
    return max((status.revision for status in seen.statuses.values()), default=0)


def _fill(seen: Observation, restore: EtcdRestore, taking: Successor) -> Step:
    claim = seen.claim(taking.ordinal)
    if claim is None:
        return filling.create_claim(seen, taking.ordinal, ", beside the data there is")
    if step := _not_to_be_used(seen, taking, claim):
        return step
    if claim.record is None and in_place_request.is_foreign(seen, claim):
        words = (
            f"claim {claim.name} does not belong to this cluster; if you do not need it, delete it"
        )
        return Hold(FAILED, words)
    if claim.record is None:
        record = in_place_request.first_member(seen, taking, claim)
        words = f"claim {claim.name} is recorded for the restored cluster's first member"
        return RecordMember.of(claim, record, words)
    if in_place_request.is_filled(seen, taking):
        return volume_jobs.delete_job(seen, "it has done its work") or _take_over(seen, taking)
    return _run(seen, restore, taking, claim)


def _not_to_be_used(seen: Observation, taking: Successor, claim: Claim) -> Step | None:
    if step := filling.not_to_be_used(seen, claim):
        return step
    if claim.record is None or in_place_request.is_successors_claim(seen, claim):
        return None
    if _is_deletable(seen, taking, claim):
        words = f"claim {claim.name} is deleted: it was created for an earlier restore"
        return DeleteClaim.of(claim, words)
    words = (
        f"claim {claim.name} holds another member's data; if you do not need it, delete the claim"
    )
    return Hold(FAILED, words)


def _run(seen: Observation, restore: EtcdRestore, taking: Successor, claim: Claim) -> Step:
    record = replace(takeover.successor_record(recorded(seen), taking), bump=taking.raised_by)
    store = replace(taking.store, revision=taking.bump - taking.raised_by)
    to_fill = Filling(record, store, taking.backup, field="spec")
    step = filling.fill_with_job(seen, claim, to_fill)
    if isinstance(step, Failed):
        return Hold(FAILED, f"EtcdRestore {restore.name}: {step.why}")
    filled = replace(recorded(seen), successor=replace(taking, claim=claim.uid))
    words = f"claim {claim.name} holds the data of the backup; the present members are stopped"
    return step or _claim_in_the_way(seen, taking.ordinal) or WriteBootstrap.of(seen, filled, words)


def _take_over(seen: Observation, taking: Successor) -> Step:
    """Lets the successor take over, once no pod can use the old volumes any more."""
    stopping = [wording.stopping(pod) for pod in seen.pods]
    if stopping or seen.occupants:
        names = ", ".join((*stopping, *seen.occupants))
        words = f"pods {names} to stop, before the restored cluster takes over"
        return Wait(
            f"{words} {volume_jobs.if_they_stay(seen)}" if seen.occupants else words, soon=True
        )
    if step := _claim_in_the_way(seen, taking.ordinal):
        return step
    record = takeover.taken_over(recorded(seen), taking)
    words = (
        f"cluster {to_hex(record.cluster_id)} replaces {to_hex(record.retired[-1])}; "
        f"it starts with {taking.name}, and from now on it cannot be cancelled"
    )
    return WriteBootstrap.of(seen, record, words, final=True)


def _claim_in_the_way(seen: Observation, first: int) -> Wait | None:
    """Waits for a deleted claim below the first member's."""
    for claim in seen.claims:
        if claim.deleting and claim.ordinal < first and seen.pod(claim.ordinal) is None:
            return volume_jobs.wait_for_old_claim(claim, naming.pod(seen.cluster.name, first))
    return None


def _call_off(seen: Observation, taking: Successor) -> Step:
    """Cancels the restore: deletes its Job, and its claim if that is recorded as the restore's."""
    recovers = recorded(seen).survivor  # then the Job is that of the recovery
    if not recovers and (step := volume_jobs.delete_job(seen, "the restore in place is cancelled")):
        return step
    claim = seen.claim(taking.ordinal)
    if claim is not None and claim.deleting:
        return Wait(wording.to_be_gone(claim), soon=True)
    if step := discard_first_volume(seen, "the restore in place is cancelled"):
        return step
    words = (
        "the restore in place is cancelled: its EtcdRestore was deleted, changed or is over. The "
        "cluster goes on with the data that it has"
    )
    return WriteBootstrap.of(seen, replace(recorded(seen), successor=None), words)


def _is_deletable(seen: Observation, taking: Successor, claim: Claim) -> bool:
    """Whether the claim is recorded for the successor, which has never run (I6)."""
    held = claim.own_record
    return bool(
        held
        and held.cluster_uid == seen.cluster.uid
        and held.cluster_id == taking.cluster_id != recorded(seen).cluster_id
        and seen.pod(claim.ordinal) is None
    )


def discard_first_volume(seen: Observation, why: str) -> DeleteClaim | None:
    """Deletes what the restore has filled so far; None if nothing is left of it to delete."""
    taking = recorded(seen).successor
    claim = seen.claim(taking.ordinal) if taking else None
    if taking is None or claim is None or claim.deleting or not _is_deletable(seen, taking, claim):
        return None
    return DeleteClaim.of(claim, f"claim {claim.name} is deleted: {why}")


def clean_up(seen: Observation) -> Step | None:
    """After the takeover: deletes the old claims, but not before the restored cluster serves."""
    record = recorded(seen)
    if not record.retired or not is_latched(seen):
        return None
    if seen.etcd is None:
        if _has_served(seen):
            return None  # it has served, and may have lost its quorum since
        return authentication.denied(seen) or _until_it_serves(seen)
    old = [claim for claim in seen.claims if _is_of_retired_cluster(seen, claim)]
    for claim in old:
        if not (claim.deleting or seen.is_kept(claim)):
            words = f"claim {claim.name} is deleted: the cluster that replaced its own serves"
            return DeleteClaim.of(claim, words)
    if old:
        return None  # their pods are recreated (`replace.delete_remains`), or cannot start
    words = "the restored cluster serves; new members join it"
    # The backup's own revisions may be higher than any that the replaced cluster had reached.
    over = replace(record, retired=(), bump=max(record.bump, _revision(seen)))
    return WriteBootstrap.of(seen, over, words)


def _until_it_serves(seen: Observation) -> Step:
    record = recorded(seen)
    seats = (seat for seat in roster.seats(seen) if not quorum.is_lost(seat))
    first = [
        seat.claim for seat in seats if seat.claim and _is_of_present_cluster(seen, seat.claim)
    ]
    old = (claim for claim in seen.claims if _is_of_retired_cluster(seen, claim))
    kept = [claim.name for claim in old if not claim.deleting]
    keeps = f"claims {', '.join(kept)} of the replaced cluster are kept" if kept else ""
    if not first:
        return Hold(
            FAILED,
            "the restored cluster lost its volume before it served. Restore again, with an "
            f'EtcdRestore whose spec.replace.clusterID is "{to_hex(record.cluster_id)}". '
            f"{keeps or 'Nothing is left of the replaced cluster'}",
        )
    pod = seen.pod(first[0].ordinal)
    if pod is None and (step := _claim_in_the_way(seen, first[0].ordinal)):
        return step
    why = pod.trouble if pod else wording.not_created(seen, first[0].ordinal)
    name = naming.pod(seen.cluster.name, first[0].ordinal)
    words = f"{name} to serve the restored data{f' ({why})' if why else ''}"
    return Wait(f"{words}; until then {keeps}" if keeps else words, soon=True)


def _has_served(seen: Observation) -> bool:
    """Whether other members have joined, so that it has served. Only those get tickets: the first
    member runs without one."""
    held = [claim.record for claim in seen.claims if _is_of_present_cluster(seen, claim)]
    return any(one and recorded(seen).challenge(one.member_id) is not None for one in held)


def _is_of_present_cluster(seen: Observation, claim: Claim) -> bool:
    held, record = claim.own_record, recorded(seen)
    usable = not claim.deleting and claim.phase != "Lost"
    return bool(usable and held and held.cluster_id == record.cluster_id)


def _is_of_retired_cluster(seen: Observation, claim: Claim) -> bool:
    """Whether the claim is recorded for a cluster and epoch that the user's restore has ended
    (I6)."""
    held, record = claim.own_record, recorded(seen)
    return bool(
        held
        and held.cluster_uid == seen.cluster.uid
        and held.cluster_id in record.retired
        and held.cluster_id != record.cluster_id
        and held.epoch < record.epoch
    )
