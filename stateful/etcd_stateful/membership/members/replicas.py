"""How many replicas the StatefulSet must have: one rule for all operations.

The member list decides, if there is one. The number is recorded before the StatefulSet changes;
while etcd does not answer, the record decides.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful import naming
from etcd_stateful.membership import roster
from etcd_stateful.membership.epochs import survivor
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import Step, WriteBootstrap
from etcd_stateful.records.bootstrap import Bootstrap


def wanted(seen: Observation) -> int:
    """The replicas that the StatefulSet must have, never fewer than there are members or their
    volumes.

    The number is lowered only by the member list (I5), or to zero for a recovery or restore that
    the user asked for. It is raised for a larger `spec.size` only by the member list as well.
    """
    if survivor.halted(seen) or _retired_runs(seen):
        return 0
    if (listed := _by_list(seen)) is not None:
        return listed
    record = seen.bootstrap
    begun = record.ordinals if record else 0
    if record and record.latched and seen.stateful_set is not None:
        # Unless all pods were stopped, claims do not count: a shrink may just have removed their
        # members.
        return max([seen.replicas, begun, *_stopped(seen, record)])
    return max([seen.replicas, begun, *_owned(seen, record)]) or seen.cluster.size


def _retired_runs(seen: Observation) -> bool:
    """Whether pods run etcd of a cluster that a restore in place has replaced, because somebody
    scaled the StatefulSet up after the takeover, while its template was still the old one.

    The restored cluster must not begin to serve beside them, also while they stop. Once it serves,
    only they are restarted.
    """
    record, etcd = seen.bootstrap, seen.etcd
    if not record or not record.retired or (etcd and etcd.cluster_id == record.cluster_id):
        return False
    left = (pod for pod in seen.pods if pod.runs_etcd and not (pod.deleting and seen.replicas))
    held = (claim.record for pod in left if (claim := seen.claim(pod.ordinal)))
    return any(one and one.cluster_id in record.retired for one in held)


def record(seen: Observation) -> Step | None:
    """Records the number of ordinals before the StatefulSet changes. If there is no member list,
    and the StatefulSet was deleted or scaled by hand, only the record has it."""
    record, listed = recorded(seen), _by_list(seen)
    if listed in (None, record.ordinals) or survivor.halted(seen):
        return None
    reason = f"the cluster should have {listed} members now"
    return WriteBootstrap.of(seen, replace(record, size=listed), reason)


def _by_list(seen: Observation) -> int | None:
    """The replicas by the member list; None without a list of the recorded cluster."""
    record = seen.bootstrap
    if not (record and record.latched and seen.etcd and seen.etcd.cluster_id == record.cluster_id):
        return None
    used = max((one + 1 for one in roster.listed_ordinals(seen)), default=0)
    stop = in_the_way(seen)
    size = max(used, seen.cluster.size if stop is None else min(seen.cluster.size, stop))
    # The cluster does not grow while the next ordinal is used for a restore in place.
    return min(size, record.successor.ordinal) if record.successor else size


def in_the_way(seen: Observation) -> int | None:
    """The lowest ordinal beyond the replicas whose old claim is still being deleted, or may not be.
    The cluster does not grow to it meanwhile: the StatefulSet controller creates no pod there,
    fails, backs off and neglects other pods. Something may keep the claim for ever, so nothing else
    waits for it."""
    if seen.stateful_set is None:
        return None
    old = (one for one in seen.claims if one.deleting or seen.is_kept(one))
    beyond = (one for one in old if one.ordinal >= seen.replicas)
    return min((one.ordinal for one in beyond if seen.pod(one.ordinal) is None), default=None)


def _owned(seen: Observation, begun: Bootstrap | None) -> list[int]:
    """For each recorded claim of this cluster, or pod with an emptyDir: how many replicas its
    ordinal requires. Claims that an adoption has not come to name other clusters, and count if they
    are of the same etcd cluster."""
    ours = {seen.cluster.uid, seen.cluster.retained_claims.adopt}
    holders = seen.claims if seen.cluster.durable else seen.pods
    held = [(one.ordinal, one.record) for one in holders if one.record]
    ids = {record.cluster_id for _, record in held if record.cluster_uid in ours}
    return [
        ordinal + 1
        for ordinal, record in held
        if record.cluster_id in ids and ordinal < naming.MAX_SIZE
        if not _is_successors(begun, ordinal)
    ]


def _stopped(seen: Observation, record: Bootstrap) -> list[int]:
    """The same for members whose pods were all stopped. If the record was put back from before some
    of them had joined, only their claims tell of them."""
    if seen.replicas:
        return []
    kept = [one for one in seen.claims if not (one.deleting or seen.is_kept(one))]
    held = [(one.ordinal, one.own_record) for one in kept if survivor.is_ours(seen, one)]
    return [ordinal + 1 for ordinal, own in held if own and own.epoch >= record.epoch]


def _is_successors(record: Bootstrap | None, ordinal: int) -> bool:
    """Whether the claim of this ordinal belongs to the successor of a restore in place. It is no
    member's claim until the successor takes over."""
    return bool(record and record.successor and record.successor.ordinal == ordinal)
