"""Whether a restore in place is requested, and how far its first volume has come.

An EtcdRestore has its cluster's name and confirms the replacement with the etcd cluster ID that it
replaces. After the replacement no cluster has that ID any more, so the same EtcdRestore can never
replace a second one.
"""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import BackupRef
from etcd_stateful.identity import to_hex
from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.observed.objects import Claim
from etcd_stateful.records import takeover
from etcd_stateful.records.member import MemberRecord, member_record
from etcd_stateful.records.successor import Successor


def requested(seen: Observation) -> EtcdRestore | None:
    """The EtcdRestore that names this very cluster as it is now."""
    restore = seen.restore
    if restore is None or not is_latched(seen):
        return None
    return restore if restore.replaces == recorded(seen).cluster_id else None


def why_not(seen: Observation) -> str:
    """Why the restore cannot be carried out; empty if it can."""
    if not seen.cluster.durable:
        return "a restore in place needs claims, and this cluster's data is in emptyDir volumes"
    if survivor := recorded(seen).survivor:
        return (
            f"a recovery with the data of {survivor} is under way (docs/recovery.md), and comes "
            "first"
        )
    if left := off_record(seen):
        return left
    begun = recorded(seen).successor is not None
    if not begun and (others := _to_be_adopted(seen)):
        uids = ", ".join(sorted(set(others.values())))
        return (
            f"claims {', '.join(others)} must be adopted first (spec.retainedClaims.adopt: "
            f"{uids}); delete those whose data is lost or not needed"
        )
    if not begun and free_ordinal(seen) >= naming.MAX_SIZE:
        return f"it needs an ordinal that is not used, but {_why_none_is_free(seen)}"
    return ""


def _why_none_is_free(seen: Observation) -> str:
    used, size = f"all {naming.MAX_SIZE} are used", seen.cluster.size
    if size > naming.MAX_SIZE - 2:
        return f"{used}: set spec.size to {naming.MAX_SIZE - 2}, and back afterwards"
    beyond = (one for one in seen.claims if one.ordinal >= _end_of_use(seen))
    left = [one.name for one in beyond if _is_taken(seen, one) and seen.pod(one.ordinal) is None]
    if left:
        return f"{used}, also by claims {', '.join(left)}: delete those that you do not need"
    way = "" if seen.etcd else ". Without a quorum none is removed: restore into a new cluster"
    return f"{used}, as long as there are pods beyond spec.size{way}"


def off_record(seen: Observation, survivor: str = "") -> str:
    """Which claim or volume is of a restore in place or a recovery that is no longer on record, as
    after the loss of the Secret; empty if none is known.

    A recovery or another restore would begin its epoch. `start` would then let its pod run, beside
    the other cluster.

    Args:
        survivor: the member whose recovery is requested, perhaps once more.
    """
    return _of_lost_restore(seen) or _unreadable(seen) or _of_lost_recovery(seen, survivor)


def _of_lost_restore(seen: Observation) -> str:
    record = recorded(seen)
    known = {record.cluster_id, record.successor.cluster_id if record.successor else 0}
    for claim in seen.claims:
        held = claim.own_record
        if held is None or claim.deleting or held.cluster_uid != seen.cluster.uid:
            continue
        if held.epoch > record.epoch and held.cluster_id not in known:
            return (
                f"claim {claim.name} holds epoch {held.epoch} of another etcd cluster, "
                f"{to_hex(held.cluster_id)}, as a restore leaves it whose record was lost. Its pod "
                "could run beside this cluster: if you do not need its data, delete the claim"
            )
    return ""


def _unreadable(seen: Observation) -> str:
    """Which claim without a pod may be such a one, as its record cannot be read. What is on the
    volume of a pod is known from `start`."""
    taking = recorded(seen).successor
    beyond = _end_of_use(seen)
    for claim in seen.claims:
        if claim.deleting or (taking and claim.ordinal == taking.ordinal):
            continue
        if claim.damage and claim.ordinal >= beyond and not is_foreign(seen, claim):
            return (
                f"claim {claim.name} may be of a restore that was cancelled, and have the next "
                f"epoch: {claim.damage}. Correct its annotations or, if you do not need its data, "
                "delete the claim"
            )
    return ""


def _of_lost_recovery(seen: Observation, survivor: str) -> str:
    """Known only while `start` runs in the pod: the claim is recorded after the volume."""
    record = recorded(seen)
    for pod in seen.pods:
        finding, taking = pod.finding, record.successor
        if finding is None or finding.epoch is None or pod.name == survivor:
            continue
        if finding.cluster_uid != seen.cluster.uid or (taking and pod.ordinal == taking.ordinal):
            continue
        if finding.epoch > record.latest_epoch:
            claim = naming.claim_of(pod.name)
            return (
                f"the volume of {pod.name} holds epoch {finding.epoch}, as a recovery leaves it "
                "whose record was lost. Its pod could run beside the other cluster: request that "
                f"recovery again or, if you do not need its data, delete claim {claim}"
            )
    return ""


def _to_be_adopted(seen: Observation) -> dict[str, str]:
    """Claims of this etcd cluster whose record still names a deleted EtcdCluster, and its UID, even
    if the spec no longer adopts that. Once the cluster is replaced, nothing would delete them
    (I6). A record that cannot be read may be of this etcd cluster."""
    own, cluster_id = seen.cluster.uid, recorded(seen).cluster_id
    return {
        claim.name: claim.cluster_uid
        for claim in seen.claims
        if claim.cluster_uid not in ("", own) and not claim.deleting
        if claim.damage or (claim.record and claim.record.cluster_id == cluster_id)
    }


def free_ordinal(seen: Observation) -> int:
    """The ordinal above all that the cluster uses or has left data at.

    A claim of this cluster without a record does not count. It has no data: it was created for a
    restore that was cancelled.
    """
    used = [claim.ordinal for claim in seen.claims if _is_taken(seen, claim)]
    used += [*(pod.ordinal for pod in seen.pods), *roster.listed_ordinals(seen)]
    return max([_end_of_use(seen), *(one + 1 for one in used)])


def _end_of_use(seen: Observation) -> int:
    """The lowest ordinal above those that members have or are about to have. There may be no
    replicas, because this very restore or a recovery has stopped the pods."""
    return max(seen.cluster.size, seen.replicas, recorded(seen).ordinals)


def _is_taken(seen: Observation, claim: Claim) -> bool:
    return bool(claim.record or claim.damage or claim.deleting or is_foreign(seen, claim))


def is_foreign(seen: Observation, claim: Claim) -> bool:
    """Whether the claim was created for another cluster, or by hand."""
    return claim.cluster_uid != seen.cluster.uid


def successor_ordinals(seen: Observation) -> frozenset[int]:
    """The ordinal where a successor has or will have its first volume."""
    record = seen.bootstrap
    if record and record.successor:
        return frozenset({record.successor.ordinal})
    return frozenset({free_ordinal(seen)} if requested(seen) else ())


def wanted_backup(seen: Observation) -> str:
    """Name of the EtcdBackup to look up; empty if none is needed."""
    restore = requested(seen)
    if restore is None or not isinstance(restore.source, BackupRef):
        return ""
    taking = recorded(seen).successor
    return "" if taking and taking.is_from(restore.source) else restore.source.name


def current(seen: Observation) -> Successor | None:
    """The successor on record, if it is still the one that is requested."""
    restore, record = requested(seen), seen.bootstrap
    taking = record.successor if record else None
    if restore is None or taking is None or taking.restore != restore.uid:
        return None
    return taking if taking.is_from(restore.source) else None


def is_filled(seen: Observation, taking: Successor) -> bool:
    """Whether the record says that this very claim has been filled."""
    claim = seen.claim(taking.ordinal)
    return bool(claim and taking.claim == claim.uid and is_successors_claim(seen, claim))


def is_successors_claim(seen: Observation, claim: Claim) -> bool:
    """Whether the claim is usable and recorded for the successor's first member."""
    taking = recorded(seen).successor
    if taking is None or claim.deleting or claim.phase == "Lost":
        return False
    return claim.own_record == first_member(seen, taking, claim)


def first_member(seen: Observation, taking: Successor, claim: Claim) -> MemberRecord:
    """The member record of the successor's first member, on this claim."""
    record = takeover.successor_record(recorded(seen), taking)
    return member_record(record, taking.member_id, claim.uid)


def halted(seen: Observation) -> bool:
    """Whether no pod may run, because the successor is ready to take over."""
    taking = current(seen)
    return bool(taking and not why_not(seen) and is_filled(seen, taking))
