"""How many pods the StatefulSet must ask for: one rule for every chain of steps.

What the member list says, where it is at hand. Where it is not: what it said last, or what the
record and the claims tell, and never fewer than there are (I5).
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.manifests.statefulset import noted_replicas
from etcd_stateful.membership import roster, survivor
from etcd_stateful.membership.observation import Claim, Observation, recorded
from etcd_stateful.membership.records import Bootstrap
from etcd_stateful.membership.steps import Step, WriteBootstrap


def wanted(seen: Observation) -> int:
    """What the StatefulSet must ask for. Never fewer than there are members or their volumes.

    Lowered only with the member list at hand (I5), or for a recovery that a human asked for; raised
    for growth only with the list, too.
    """
    if survivor.halted(seen):
        return 0
    if (listed := _by_list(seen)) is not None:
        return listed
    record = seen.secret.bootstrap if seen.secret else None
    if record and record.latched and (noted := _noted(seen)):
        return max(seen.replicas, noted)
    ours = (seen.cluster.uid, seen.cluster.retained_claims.adopt)
    owned = [
        claim.ordinal + 1
        for claim in seen.claims
        if claim.record and claim.record.cluster_uid in ours and claim.ordinal < naming.MAX_SIZE
        if not _is_successors(record, claim)
    ]
    begun = _begun(record) if record else 0
    return max([seen.replicas, begun, *owned]) or seen.cluster.size


def to_note(seen: Observation) -> int | None:
    """The replicas that the StatefulSet is to remember: the list's, once it has changed them.

    A list that falls silent in the middle of a shrink would otherwise bring back pods of members
    that are off it: their claims and the record, which is written last, still tell of them.
    """
    if survivor.halted(seen):
        return None
    noted, listed = _noted(seen), _by_list(seen)
    if listed is None:
        return noted
    return None if noted is None and listed == _begun(recorded(seen)) else listed


def _begun(record: Bootstrap) -> int:
    """How many ordinals there are by the record, which is written when a change of them is over."""
    return record.size or len(record.members)


def _by_list(seen: Observation) -> int | None:
    """None where no list of the cluster that is on record is at hand."""
    record = seen.secret.bootstrap if seen.secret else None
    if not (record and record.latched and seen.etcd and seen.etcd.cluster_id == record.cluster_id):
        return None
    listed = (roster.ordinal_of(seen, member) for member in seen.etcd.members)
    size = max([seen.cluster.size, *(one + 1 for one in listed if one is not None)])
    # Growth waits for what is being restored at the next ordinal.
    return min(size, record.successor.ordinal) if record.successor else size


def _noted(seen: Observation) -> int | None:
    return noted_replicas(seen.stateful_set) if seen.stateful_set else None


def _is_successors(record: Bootstrap | None, claim: Claim) -> bool:
    """It is no member's until its cluster has taken the place of this one."""
    return bool(record and record.successor and record.successor.ordinal == claim.ordinal)


def keep_size(seen: Observation) -> Step | None:
    """Writes down how many ordinals there are once that has changed: without a member list, and
    with the StatefulSet gone or scaled by hand, nothing else would tell."""
    record, size = recorded(seen), wanted(seen)
    if seen.etcd is None or size == _begun(record):
        return None
    reason = f"the cluster has {size} members now"
    return WriteBootstrap.of(seen, replace(record, size=size), reason)
