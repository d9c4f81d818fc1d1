"""Claims that a deleted cluster or a removed member left behind, and claims with a bad record.

Data outlives its cluster. A new cluster of the same name neither serves the old data by accident
nor starts empty beside it. It holds until the user names the old cluster's UID, to adopt the data
or to discard it.
"""

from __future__ import annotations

from collections.abc import Iterable

from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.beginning import bootstrap_source
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import roll
from etcd_stateful.membership.steps import DeleteClaim, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim


def _left_behind(seen: Observation) -> tuple[Claim, ...]:
    """Claims recorded for another cluster. A claim without a record never held data: its member
    never got a ticket."""
    return tuple(
        claim
        for claim in seen.claims
        if claim.record and claim.record.cluster_uid != seen.cluster.uid
    )


def claims_of_another_cluster(seen: Observation) -> Step | None:
    """Asked before the cluster begins; after that, `start` itself keeps foreign data out.

    A formed cluster whose StatefulSet is gone has begun: it gets a new one, whatever claims there
    are.
    """
    if seen.secret is not None and (seen.stateful_set is not None or is_latched(seen)):
        return None
    if broken := next((claim for claim in seen.claims if claim.damage), None):
        return damaged_record(broken)
    discard = seen.cluster.retained_claims.discard
    old = _left_behind(seen)
    for claim in old:
        if discard and claim.record and claim.record.cluster_uid == discard:
            # Not for a backup that may not exist: the old data would be gone, and nothing instead.
            return bootstrap_source.awaited(seen) or _discard(claim)
    if not old:
        return _nothing_to_adopt(seen)
    if not seen.cluster.durable:
        return _not_for_empty_dirs(old)
    return None if _adoptable(seen, old) else _ways_on(old)


def is_removed_members(seen: Observation, claim: Claim) -> bool:
    """Whether the claim's own record names a member of this cluster that is no longer on the
    linearizable member list (I6)."""
    record, bootstrap = claim.own_record, recorded(seen)
    if seen.etcd is None or record is None:
        return False
    ours = {seen.cluster.uid, seen.cluster.retained_claims.adopt} - {""}
    listed = {member.member_id for member in seen.members}
    return (
        record.cluster_uid in ours
        and record.cluster_id == bootstrap.cluster_id == seen.etcd.cluster_id
        and record.member_id not in listed
    )


def delete_claims_of_removed(seen: Observation) -> Step | None:
    """Deletes claims of removed members beyond the replicas: a later pod must not find old data."""
    for claim in seen.claims:
        if claim.ordinal < seen.replicas or seen.pod(claim.ordinal) or claim.deleting:
            continue
        if is_removed_members(seen, claim) and not seen.is_kept(claim):
            return DeleteClaim.of(claim, f"claim {claim.name} is deleted: its member was removed")
    return None


def claim_in_the_way(seen: Observation) -> Step | None:
    """Waits for the claim that keeps the cluster from growing (`replicas`). Asked last: something
    may keep it for ever."""
    ordinal = replicas.in_the_way(seen)
    claim = seen.claim(ordinal) if ordinal is not None and ordinal < seen.cluster.size else None
    return Wait(wording.to_be_gone(claim)) if claim else None


def claim_of_a_third_member(seen: Observation) -> Step | None:
    """The same, while there are too few members to spare one. Asked before pods are restarted: that
    would be an outage now, and none once the cluster has grown."""
    few = len(roster.voters(seen)) < roll.SPARING
    return claim_in_the_way(seen) if few else None


def surplus_pods(seen: Observation) -> Step | None:
    """Waits for pods beyond the replicas. Until they have stopped, their claims stay."""
    names = [pod.name for pod in seen.pods if pod.ordinal >= seen.replicas]
    return Wait(f"pods {', '.join(names)}, no longer needed, to stop") if names else None


def _discard(claim: Claim) -> Step:
    if claim.deleting:
        return Wait(wording.to_be_gone(claim))
    reason = f"claim {claim.name} is discarded: spec.retainedClaims.discard names its cluster"
    return DeleteClaim.of(claim, reason)


def _adoptable(seen: Observation, old: tuple[Claim, ...]) -> bool:
    """Also if they name several deleted clusters, but are members of one etcd cluster: then an
    adoption had not come to all of them. `start` still wants a word for the marker of each."""
    adopt, uids = seen.cluster.retained_claims.adopt, _uids(old)
    alike = len(uids) == 1 or _are_of_one_etcd_cluster(old)
    return bool(adopt) and adopt in uids and alike


def _uids(old: tuple[Claim, ...]) -> list[str]:
    return sorted({claim.record.cluster_uid for claim in old if claim.record})


def _are_of_one_etcd_cluster(old: tuple[Claim, ...]) -> bool:
    return len({claim.record.cluster_id for claim in old if claim.record}) == 1


def _nothing_to_adopt(seen: Observation) -> Step | None:
    """Holds if the spec adopts data that is not here: the cluster must not start empty (I11)."""
    uid = seen.cluster.retained_claims.adopt
    if not uid or seen.secret is not None or any(claim.record for claim in seen.claims):
        return None
    return Hold(
        "NothingToAdopt",
        f"spec.retainedClaims.adopt names the cluster with UID {uid}, but no claim here holds its "
        "data. Bring its claims back, or remove the field to start empty",
    )


def _ways_on(old: tuple[Claim, ...]) -> Hold:
    uids, names = _uids(old), ", ".join(claim.name for claim in old)
    if len(uids) > 1 and _are_of_one_etcd_cluster(old):
        return Hold(
            "RetainedClaims",
            f"claims {names} hold the data of one etcd cluster, which was adopted only in part: "
            f"they name {len(uids)} deleted clusters of this name (UIDs {', '.join(uids)}). To "
            "adopt that data, set spec.version to the version that it ran, or another patch of "
            "that minor, and spec.retainedClaims.adopt to one of these UIDs, and then to the next "
            "that a condition names; to delete it for good and start empty, set "
            "spec.retainedClaims.discard to one after the other",
        )
    if len(uids) > 1:
        return Hold(
            "RetainedClaims",
            f"claims {names} hold the data of {len(uids)} deleted clusters of this name (UIDs "
            f"{', '.join(uids)}). Only one can be adopted: set spec.retainedClaims.discard to the "
            "UID of the one to delete for good, and adopt the other once that one is gone",
        )
    return Hold(
        "RetainedClaims",
        f"claims {names} hold the data of a deleted cluster of this name (UID {uids[0]}). To adopt "
        "that data, set spec.version to the version that it ran, or another patch of that minor, "
        f'and spec.retainedClaims.adopt to "{uids[0]}"; to delete it for good and start empty, set '
        f'spec.retainedClaims.discard to "{uids[0]}"',
    )


def _not_for_empty_dirs(old: tuple[Claim, ...]) -> Hold:
    names, uids = ", ".join(claim.name for claim in old), _uids(old)
    return Hold(
        "RetainedClaims",
        f"claims {names} hold the data of a deleted cluster of this name (UID {', '.join(uids)}), "
        "and this one keeps its data in emptyDir volumes. To go on with that data, delete the "
        "EtcdCluster, and create it again without spec.pod.emptyDir; to delete it for good, set "
        f'spec.retainedClaims.discard to "{uids[0]}"',
    )


def damaged_claim(seen: Observation) -> Step | None:
    """Holds for a claim whose record cannot be trusted: edited by hand, restored or cloned.

    A claim that is being deleted is skipped. It stays until its pod is gone, and the pod stays
    until its member is replaced, so the replacement must not wait for the claim.
    """
    return _distrusted(claim for claim in seen.claims if claim.ordinal < seen.replicas)


def damaged_leftover(seen: Observation) -> Step | None:
    """The same for a claim beyond the replicas. Asked last, as no pod uses it."""
    return _distrusted(seen.claims)


def _distrusted(claims: Iterable[Claim]) -> Hold | None:
    for claim in claims:
        if claim.deleting:
            continue
        if claim.damage:
            return damaged_record(claim)
        if claim.record and not claim.own_record:
            return Hold(
                "ClaimRestored",
                f"claim {claim.name} is not the one its record was written for: it was restored "
                "from a backup or cloned, so its data may be old. If the others are a quorum, "
                "delete the claim, and its member is replaced. Otherwise restore the cluster from "
                "a snapshot",
            )
    return None


def damaged_record(claim: Claim) -> Hold:
    way = "Correct its annotations, or delete the claim if you do not need its data"
    if claim.deleting:
        way = "It is being deleted, which waits until no pod uses it: delete the pod that does"
    return Hold("ClaimRecordDamaged", f"claim {claim.name}: {claim.damage}. {way}")
