"""Claims that a deleted cluster or a removed member left behind, and tampered ones.

Data outlives its cluster. A new cluster of that name neither serves it by accident nor starts empty
beside it: it holds until a human names the old cluster's UID, to adopt its data or to discard it.
"""

from __future__ import annotations

from etcd_stateful.membership import replicas
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import DeleteClaim, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim


def left_behind(seen: Observation) -> tuple[Claim, ...]:
    """Claims with a member of another cluster. One without a record never had a ticket."""
    return tuple(
        claim
        for claim in seen.claims
        if claim.record and claim.record.cluster_uid != seen.cluster.uid
    )


def before_anything(seen: Observation) -> Step | None:
    """Asked before the cluster has begun: afterwards `start` itself keeps foreign data out.

    A formed cluster whose StatefulSet is gone has begun: it is made again whatever lies beside it.
    """
    if seen.secret is not None and (seen.stateful_set is not None or is_latched(seen)):
        return None
    if broken := next((claim for claim in seen.claims if claim.damage), None):
        return damaged_record(broken)
    discard = seen.cluster.retained_claims.discard
    old = left_behind(seen)
    for claim in old:
        if discard and claim.record and claim.record.cluster_uid == discard:
            return _discard(claim)
    if not old:
        return _nothing_to_adopt(seen)
    return None if _adoptable(seen, old) else _ways_on(old)


def is_removed_members(seen: Observation, claim: Claim) -> bool:
    """Whether it is on record, and on the linearizable list, that its member is no more (I6)."""
    record, bootstrap = claim.own_record, recorded(seen)
    if seen.etcd is None or record is None:
        return False
    ours = {seen.cluster.uid, seen.cluster.retained_claims.adopt} - {""}
    listed = {member.member_id for member in seen.etcd.members}
    return (
        record.cluster_uid in ours
        and record.cluster_id == bootstrap.cluster_id == seen.etcd.cluster_id
        and record.member_id not in listed
    )


def of_removed_members(seen: Observation) -> Step | None:
    """Claims beyond the replicas: no pod uses them, and one to come must find no old data."""
    for claim in seen.claims:
        if claim.ordinal < seen.replicas or seen.pod(claim.ordinal):
            continue
        if claim.deleting:
            if claim.ordinal < replicas.wanted(seen):
                return Wait(f"claim {claim.name} to be gone")
        elif is_removed_members(seen, claim):
            return DeleteClaim.of(claim, f"claim {claim.name} is deleted: its member was removed")
    return None


def stopping(seen: Observation) -> Step | None:
    """Pods beyond the replicas. Until they are gone the claims of their members are not (F5)."""
    names = [pod.name for pod in seen.pods if pod.ordinal >= seen.replicas]
    return Wait(f"pods {', '.join(names)}, needed no more, to stop") if names else None


def _discard(claim: Claim) -> Step:
    if claim.deleting:
        return Wait(f"claim {claim.name} to be gone")
    reason = f"claim {claim.name} is discarded: spec.retainedClaims.discard names its cluster"
    return DeleteClaim.of(claim, reason)


def _adoptable(seen: Observation, old: tuple[Claim, ...]) -> bool:
    adopt = seen.cluster.retained_claims.adopt
    uids = {claim.record.cluster_uid for claim in old if claim.record}
    return bool(adopt) and uids == {adopt}


def _nothing_to_adopt(seen: Observation) -> Step | None:
    """Who means to go on with old data must not be given an empty cluster (I11)."""
    uid = seen.cluster.retained_claims.adopt
    if not uid or seen.secret is not None or any(claim.record for claim in seen.claims):
        return None
    return Hold(
        "NothingToAdopt",
        f"spec.retainedClaims.adopt names the cluster with UID {uid}, and no claim here holds data "
        "of it. Bring its claims back, or remove the field to start empty",
    )


def _ways_on(old: tuple[Claim, ...]) -> Hold:
    uids = sorted({claim.record.cluster_uid for claim in old if claim.record})
    names = ", ".join(claim.name for claim in old)
    if len(uids) > 1:
        return Hold(
            "RetainedClaims",
            f"claims {names} hold the data of {len(uids)} deleted clusters of this name (UIDs "
            f"{', '.join(uids)}). Only one can be adopted: set spec.retainedClaims.discard to the "
            "UID of one that is to be deleted for good, and go on with the other when it is gone",
        )
    return Hold(
        "RetainedClaims",
        f"claims {names} hold the data of a deleted cluster of this name (UID {uids[0]}). To go on "
        "with that data set spec.version to the one that it ran, or another patch of that minor, "
        f'and spec.retainedClaims.adopt to "{uids[0]}"; to delete it for good and start empty set '
        f'spec.retainedClaims.discard to "{uids[0]}"',
    )


def damaged(seen: Observation) -> Step | None:
    """Claims whose record cannot be trusted: edited by hand, restored or cloned.

    One that is being deleted is not to be mended any more. It stays for as long as its pod does,
    and the pod for as long as its member is not replaced: so that must not wait for it here.
    """
    for claim in seen.claims:
        if claim.deleting:
            continue
        if claim.damage:
            return damaged_record(claim)
        if claim.record and claim.record.claim_uid != claim.uid:
            return Hold(
                "ClaimRestored",
                f"claim {claim.name} is not the one its record was written for: it was restored "
                "from a backup or cloned, and its data may be old. Restore a cluster from a "
                "snapshot instead, or delete the claim: while the others are a quorum its member "
                "is replaced",
            )
    return None


def damaged_record(claim: Claim) -> Hold:
    way = "Put its annotations right, or delete the claim if its data is not needed"
    if claim.deleting:
        way = "It is being deleted, and goes once no pod uses it: delete the pod that does"
    return Hold("ClaimRecordDamaged", f"claim {claim.name}: {claim.damage}. {way}")
