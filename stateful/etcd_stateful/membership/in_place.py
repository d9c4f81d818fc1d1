"""A restore in place: the cluster goes on until all that takes its place is on a disk.

    successor on record -> a claim at an ordinal of its own -> its record -> a Job fills it
    -> "filled" on record -> Job deleted -> replicas 0 -> no pod left
    -> epoch + 1, another cluster ID: the successor takes over
    -> replicas as ever: its first member just runs, the volumes of before do not
    -> it serves -> the claims of before are deleted -> the others wait empty and are grown,
       and the first member goes as any beyond `spec.size`

Asked for by an EtcdRestore that names the cluster ID to be replaced. Up to the raise of the epoch
taking that back undoes all, and pods that were stopped start again with their data. From then on it
is finished without the EtcdRestore, and the volumes of before are kept until it serves.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import BackupRef
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.reference import resolved
from etcd_stateful.identity import to_hex
from etcd_stateful.membership import (
    authentication,
    filling,
    in_place_request,
    leftovers,
    roster,
    survivor,
    takeover,
)
from etcd_stateful.membership.filling import Failed, Filling
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import (
    DeleteClaim,
    Hold,
    RecordMember,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.objects import Claim
from etcd_stateful.records.successor import Successor, bump, raised_by, successor

FAILED = "RestoreFailed"


def go_on(seen: Observation) -> Step | None:
    """Its writes. What it only waits for holds up nothing, until all pods are stopped for it."""
    step = upcoming(seen)
    waits = isinstance(step, Wait) and not in_place_request.halted(seen)
    return None if isinstance(step, Hold) or waits else step


def meanwhile(seen: Observation) -> Step | None:
    """What it waits for while no quorum answers, which it is the way out of."""
    step = upcoming(seen) if seen.etcd is None else None
    return step if isinstance(step, Wait) else None


def awaited(seen: Observation) -> Step | None:
    """Asked late: what it waits for, or what stands against it."""
    step = upcoming(seen)
    return step if isinstance(step, Wait | Hold) else None


def upcoming(seen: Observation) -> Step | None:
    """What comes next of it, up to the point where the successor takes over."""
    if not is_latched(seen):
        return None
    restore, taking = in_place_request.asked(seen), recorded(seen).successor
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
    """On record first, so that whatever is made can be told to be of it."""
    found = resolved(restore.source, seen.backup)
    if not isinstance(found, Store):
        words = f"EtcdRestore {restore.name}: spec.backupRef.name: {found.why}"
        return Hold("BackupAwaited", words) if found.stuck else Wait(words)
    record = recorded(seen)
    live = max((status.revision for status in seen.statuses.values()), default=0)
    ordinal = record.successor.ordinal if record.successor else in_place_request.free_ordinal(seen)
    taking = successor(
        cluster_uid=seen.cluster.uid,
        restore=restore.uid,
        epoch=record.epoch + 1,
        first=(naming.pod(seen.cluster.name, ordinal), seen.cluster.peer_url(ordinal)),
        bump=bump(live, record.bump),
        raised_by=raised_by(live, record.bump, found.revision),
        store=found,
        backup=restore.source.name if isinstance(restore.source, BackupRef) else "",
    )
    words = (
        f"{found.location(found.key)} is to be restored in the place of cluster "
        f"{to_hex(record.cluster_id)}, which goes on until it is; EtcdRestore {restore.name} asks "
        "for it"
    )
    return WriteBootstrap.of(seen, replace(record, successor=taking), words)


def _fill(seen: Observation, restore: EtcdRestore, taking: Successor) -> Step:
    claim = seen.claim(taking.ordinal)
    if claim is None:
        return filling.claimed(seen, taking.ordinal, ", beside the data there is")
    if step := _not_to_be_used(seen, taking, claim):
        return step
    if claim.record is None and in_place_request.is_strange(seen, claim):
        words = f"claim {claim.name} is not of this cluster; if nobody needs it, delete the claim"
        return Hold(FAILED, words)
    if claim.record is None:
        record = takeover.member_record(recorded(seen), taking, claim.uid)
        words = f"claim {claim.name} is recorded as the first of what is restored"
        return RecordMember.of(claim, record, words)
    if in_place_request.holds_it_all(seen, taking):
        return filling.cleared(seen, "it has done its work") or _take_over(seen, taking)
    return _run(seen, restore, taking, claim)


def _not_to_be_used(seen: Observation, taking: Successor, claim: Claim) -> Step | None:
    if claim.deleting:
        return Wait(f"claim {claim.name} to be gone", soon=True)
    if claim.damage:
        return leftovers.damaged_record(claim)
    if claim.record is None or in_place_request.is_successors(seen, claim):
        return None
    if _may_go(seen, taking, claim):
        words = f"claim {claim.name} is deleted: what it was to be filled for has changed"
        return DeleteClaim.of(claim, words)
    words = f"claim {claim.name} holds another member's data; if nobody needs it, delete the claim"
    return Hold(FAILED, words)


def _run(seen: Observation, restore: EtcdRestore, taking: Successor, claim: Claim) -> Step:
    record = replace(takeover.to_be(recorded(seen), taking), bump=taking.raised_by)
    by = f" (the store is that of EtcdBackup {taking.backup})" if taking.backup else ""
    step = filling.by_job(seen, claim, Filling(record, taking.store, by, field="spec"))
    if isinstance(step, Failed):
        return Hold(FAILED, f"EtcdRestore {restore.name}: {step.why}")
    filled = replace(recorded(seen), successor=replace(taking, claim=claim.uid))
    words = f"claim {claim.name} holds the data of the backup; the members of before are stopped"
    return step or WriteBootstrap.of(seen, filled, words)


def _take_over(seen: Observation, taking: Successor) -> Step:
    """Not before nobody can run the volumes of before any more."""
    stopping = [roster.stopping(pod) for pod in seen.pods]
    if stopping or seen.occupants:
        names = ", ".join((*stopping, *seen.occupants))
        return Wait(f"pods {names} to stop, before what is restored takes their place", soon=True)
    record = takeover.taken_over(recorded(seen), taking)
    words = (
        f"cluster {to_hex(record.cluster_id)} takes the place of {to_hex(record.retired[-1])}; "
        f"it begins with {taking.name}, and from here on it cannot be called off"
    )
    return WriteBootstrap.of(seen, record, words, final=True)


def _call_off(seen: Observation, taking: Successor) -> Step:
    """Nothing is left of it, but for a claim that nothing says was its."""
    if step := filling.cleared(seen, "the restore in place is called off"):
        return step
    claim = seen.claim(taking.ordinal)
    if claim is not None and claim.deleting:
        return Wait(f"claim {claim.name} to be gone", soon=True)
    if claim is not None and _may_go(seen, taking, claim):
        words = f"claim {claim.name} is deleted: the restore in place is called off"
        return DeleteClaim.of(claim, words)
    words = (
        "the restore in place is called off: the EtcdRestore that asked for it is gone, changed or "
        "over. The cluster goes on with the data that it has"
    )
    return WriteBootstrap.of(seen, replace(recorded(seen), successor=None), words)


def _may_go(seen: Observation, taking: Successor, claim: Claim) -> bool:
    """By its own record it was to be the successor's, which has never run (I6)."""
    held = claim.own_record
    return bool(
        held
        and held.cluster_uid == seen.cluster.uid
        and held.cluster_id == taking.cluster_id != recorded(seen).cluster_id
        and seen.pod(claim.ordinal) is None
    )


def settle(seen: Observation) -> Step | None:
    """Once it has taken over: the claims of before go when it serves, and not earlier."""
    record = recorded(seen)
    if not record.retired or not is_latched(seen):
        return None
    if seen.etcd is None:
        if _was_joined(seen):
            return None  # it has served, and may have lost its quorum since
        return authentication.denied(seen) or _until_it_serves(seen)
    old = [claim for claim in seen.claims if _is_of_before(seen, claim)]
    for claim in old:
        if not claim.deleting:
            words = f"claim {claim.name} is deleted: the cluster that replaced its own serves"
            return DeleteClaim.of(claim, words)
    if old:
        return None  # their pods are made again (`replace.remains`)
    words = "what was restored serves; the others join it"
    return WriteBootstrap.of(seen, replace(record, retired=()), words)


def _until_it_serves(seen: Observation) -> Step:
    record = recorded(seen)
    first = [claim for claim in seen.claims if _is_of_now(seen, claim)]
    kept = [claim.name for claim in seen.claims if _is_of_before(seen, claim)]
    keeps = f"claims {', '.join(kept)} of the cluster before are kept" if kept else ""
    if not first:
        return Hold(
            FAILED,
            "the volume of what was restored is gone before it served. Restore again, with an "
            f'EtcdRestore whose spec.replace.clusterID is "{to_hex(record.cluster_id)}". '
            f"{keeps or 'Nothing is left of the cluster before'}",
        )
    pod = seen.pod(first[0].ordinal)
    why = f" ({pod.trouble})" if pod and pod.trouble else ""
    name = naming.pod(seen.cluster.name, first[0].ordinal)
    until = f"; until then {keeps}" if keeps else ""
    return Wait(f"{name} to serve what was restored{why}{until}", soon=True)


def _was_joined(seen: Observation) -> bool:
    """Its first member had no ticket, and others get theirs once it serves."""
    held = [claim.record for claim in seen.claims if _is_of_now(seen, claim)]
    return any(one and recorded(seen).challenge(one.member_id) is not None for one in held)


def _is_of_now(seen: Observation, claim: Claim) -> bool:
    held, record = claim.own_record, recorded(seen)
    usable = not claim.deleting and claim.phase != "Lost"
    return bool(usable and held and held.cluster_id == record.cluster_id)


def _is_of_before(seen: Observation, claim: Claim) -> bool:
    """On record as a volume of a cluster and an epoch that a human's restore has ended (I6)."""
    held, record = claim.own_record, recorded(seen)
    return bool(
        held
        and held.cluster_uid == seen.cluster.uid
        and held.cluster_id in record.retired
        and held.cluster_id != record.cluster_id
        and held.epoch < record.epoch
    )
