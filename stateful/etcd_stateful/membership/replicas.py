"""How many pods the StatefulSet must ask for: one rule for every chain of steps.

The member list decides, where it is at hand. What it says is on record before the StatefulSet
follows, and while etcd is silent the record decides.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.membership import roster, survivor
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import Step, WriteBootstrap
from etcd_stateful.observed.objects import Claim
from etcd_stateful.records.bootstrap import Bootstrap


def wanted(seen: Observation) -> int:
    """What the StatefulSet must ask for. Never fewer than there are members or their volumes.

    Lowered only with the member list at hand (I5), or for a recovery that a human asked for; raised
    for growth only with the list, too.
    """
    if survivor.halted(seen):
        return 0
    if (listed := _by_list(seen)) is not None:
        return listed
    record = seen.bootstrap
    begun = on_record(record) if record else 0
    if record and record.latched and seen.stateful_set is not None:
        # Of claims some may be of members that a shrink has just taken off the list.
        return max(seen.replicas, begun)
    return max([seen.replicas, begun, *_owned(seen, record)]) or seen.cluster.size


def keep(seen: Observation) -> Step | None:
    """Writes down how many ordinals there are to be, before there are: without a member list, and
    with the StatefulSet gone or scaled by hand, nothing else would tell."""
    record, listed = recorded(seen), _by_list(seen)
    if listed in (None, on_record(record)) or survivor.halted(seen):
        return None
    reason = f"the cluster is to have {listed} members now"
    return WriteBootstrap.of(seen, replace(record, size=listed), reason)


def _by_list(seen: Observation) -> int | None:
    """None where no list of the cluster that is on record is at hand."""
    record = seen.bootstrap
    if not (record and record.latched and seen.etcd and seen.etcd.cluster_id == record.cluster_id):
        return None
    listed = (roster.ordinal_of(seen, member) for member in seen.etcd.members)
    size = max([seen.cluster.size, *(one + 1 for one in listed if one is not None)])
    # Growth waits for what is being restored at the next ordinal.
    return min(size, record.successor.ordinal) if record.successor else size


def on_record(record: Bootstrap) -> int:
    """How many ordinals the record has, also while none of them may run."""
    return record.size or len(record.members)


def _owned(seen: Observation, record: Bootstrap | None) -> list[int]:
    """For each of this cluster's claims, how many ordinals there must be for it to have one."""
    ours = (seen.cluster.uid, seen.cluster.retained_claims.adopt)
    return [
        claim.ordinal + 1
        for claim in seen.claims
        if claim.record and claim.record.cluster_uid in ours and claim.ordinal < naming.MAX_SIZE
        if not _is_successors(record, claim)
    ]


def _is_successors(record: Bootstrap | None, claim: Claim) -> bool:
    """It is no member's until its cluster has taken the place of this one."""
    return bool(record and record.successor and record.successor.ordinal == claim.ordinal)
