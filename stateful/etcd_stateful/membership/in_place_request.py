"""Whether a restore is to take this cluster's place, and how far its first volume has come.

An EtcdRestore has the name of its cluster and says, as confirmation, the ID of the etcd cluster
that it replaces. Once that is replaced no cluster has the ID any more, so the same words never
replace another.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import BackupRef
from etcd_stateful.membership import roster, takeover
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.observed.objects import Claim
from etcd_stateful.records.successor import Successor

NONE_LEFT: Final = naming.MAX_SIZE


def asked(seen: Observation) -> EtcdRestore | None:
    """The EtcdRestore that names this very cluster as it is now."""
    restore = seen.restore
    if restore is None or not is_latched(seen):
        return None
    return restore if restore.replaces == recorded(seen).cluster_id else None


def why_not(seen: Observation) -> str:
    """What stands against it, in words; empty where it may go on."""
    if not seen.cluster.durable:
        return "the data of this cluster is in emptyDir volumes, beside which nothing can be kept"
    if survivor := recorded(seen).survivor:
        return f"a recovery with the data of {survivor} goes on (docs/recovery.md); it comes first"
    if free_ordinal(seen) >= NONE_LEFT and recorded(seen).successor is None:
        return (
            f"it fills a volume at an ordinal that the cluster does not use, and all "
            f"{naming.MAX_SIZE} are used: set spec.size to {naming.MAX_SIZE - 2}, and back "
            "afterwards"
        )
    return ""


def free_ordinal(seen: Observation) -> int:
    """Above all that the cluster uses or has left data at.

    One of this cluster without a record never had any: it was made for a restore that was called
    off.
    """
    used = [claim.ordinal for claim in seen.claims if _is_taken(seen, claim)]
    used += [pod.ordinal for pod in seen.pods]
    listed = (roster.ordinal_of(seen, one) for one in (seen.etcd.members if seen.etcd else ()))
    used += [one for one in listed if one is not None]
    return max([seen.cluster.size, seen.replicas, *(one + 1 for one in used)])


def _is_taken(seen: Observation, claim: Claim) -> bool:
    return bool(claim.record or claim.damage or claim.deleting or is_strange(seen, claim))


def is_strange(seen: Observation, claim: Claim) -> bool:
    """Whether it was made for another cluster, or by hand, whatever its name."""
    return claim.cluster_uid != seen.cluster.uid


def ordinals(seen: Observation) -> frozenset[int]:
    """That a successor has or will have its first volume at."""
    record = seen.bootstrap
    if record and record.successor:
        return frozenset({record.successor.ordinal})
    return frozenset({free_ordinal(seen)} if asked(seen) else ())


def sought(seen: Observation) -> str:
    """Name of the EtcdBackup that is to be looked up; empty where none is."""
    restore = asked(seen)
    if restore is None or not isinstance(restore.source, BackupRef):
        return ""
    taking = recorded(seen).successor
    return "" if taking and taking.is_from(restore.source) else restore.source.name


def current(seen: Observation) -> Successor | None:
    """The successor on record, if it is still the one that is asked for."""
    restore, record = asked(seen), seen.bootstrap
    taking = record.successor if record else None
    if restore is None or taking is None or taking.restore != restore.uid:
        return None
    return taking if taking.is_from(restore.source) else None


def holds_it_all(seen: Observation, taking: Successor) -> bool:
    """Whether it is on record that the claim has been filled, and the claim is still the same."""
    claim = seen.claim(taking.ordinal)
    return bool(claim and taking.claim == claim.uid and is_successors(seen, claim))


def is_successors(seen: Observation, claim: Claim) -> bool:
    """Whether a claim is, by its own record, the first of the successor, and can be used."""
    record, taking = recorded(seen), recorded(seen).successor
    if taking is None or claim.deleting or claim.phase == "Lost":
        return False
    return claim.own_record == takeover.member_record(record, taking, claim.uid)


def halted(seen: Observation) -> bool:
    """Whether no pod may run, as the successor is ready to take the cluster's place."""
    taking = current(seen)
    return bool(taking and not why_not(seen) and holds_it_all(seen, taking))
