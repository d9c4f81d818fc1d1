"""`minAvailable` of the PodDisruptionBudget: a quorum of all members on the list.

Learners count, so the budget is raised before a learner is promoted. A member counts until it is
off the list, so the budget is lowered only after its removal.
"""

from __future__ import annotations

from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.disruption_budget import disruption_budget, least_of
from etcd_stateful.membership import roster
from etcd_stateful.membership.members import replicas
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.observed.objects import Live


def manifest(seen: Observation) -> Manifest:
    return disruption_budget(seen.cluster, least=min_available(seen))


def min_available(seen: Observation) -> int:
    """`minAvailable` as it should be. Without a member list, a live budget is kept as it is."""
    if seen.etcd is not None and seen.etcd.cluster_id == recorded(seen).cluster_id:
        return roster.quorum(len(seen.members))
    live = _live(seen)
    return live or roster.quorum(max(replicas.wanted(seen), recorded(seen).ordinals))


def max_members(seen: Observation) -> int:
    """The most members that the live budget allows for: how many the list may have had when it was
    last seen. 0 without a budget."""
    live = _live(seen)
    return 2 * live - 1 if live else 0


def _live(seen: Observation) -> int | None:
    """`minAvailable` of the live budget; None if there is none."""
    return least_of(seen.disruption_budget) if seen.disruption_budget else None


def allows_more_evictions(live: Live, wanted: Manifest) -> bool:
    before = least_of(live)
    return before is None or wanted["spec"]["minAvailable"] < before


def protects(seen: Observation, members: int) -> bool:
    """Whether the live budget protects a quorum of this many members.

    It may not: the budget may be stuck in deletion, or the API server may refuse the write that
    creates or raises it. If another owner has its name, there is no budget to wait for.
    """
    taken = any(one.kind == "PodDisruptionBudget" for one in seen.foreign)
    return taken or (_live(seen) or 0) >= roster.quorum(members)


def is_stuck(seen: Observation) -> bool:
    """Whether the budget cannot be created or changed just now."""
    live = seen.disruption_budget
    off = any(kind == "PodDisruptionBudget" for kind, _ in seen.put_off)
    return off or bool(live and live["metadata"].get("deletionTimestamp"))


def blocks_all_evictions(seen: Observation) -> bool:
    """Whether the quorum of the members on the list takes all voters that it has pods of, so that
    no drain can evict one. A learner counts for the quorum, but is never Ready."""
    return min_available(seen) >= len(roster.voters(seen))
