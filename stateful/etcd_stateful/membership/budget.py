"""How many members must stay: a quorum of those that vote, or are about to.

A learner counts from the moment that it is listed, so that the budget is raised before it is
promoted; a member that is removed counts until it is off the list, so that the budget is lowered
after that. In between there is nothing to keep in step: the budget follows the list.
"""

from __future__ import annotations

from etcd_stateful.manifests.common import Manifest
from etcd_stateful.manifests.disruption_budget import disruption_budget, least_of
from etcd_stateful.membership import replicas, roster
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.observed.objects import Live


def manifest(seen: Observation) -> Manifest:
    return disruption_budget(seen.cluster, least=least(seen))


def least(seen: Observation) -> int:
    """Without a list of its members nothing about a cluster's budget is known to be wrong."""
    if seen.etcd is not None and seen.etcd.cluster_id == recorded(seen).cluster_id:
        return roster.quorum(len(seen.etcd.members))
    asked = _asked(seen)
    return asked or roster.quorum(max(replicas.wanted(seen), replicas.on_record(recorded(seen))))


def most(seen: Observation) -> int:
    """How many members there may have been when a list of them was last at hand; 0 where nothing
    tells."""
    asked = _asked(seen)
    return 2 * asked - 1 if asked else 0


def _asked(seen: Observation) -> int | None:
    return least_of(dict(seen.disruption_budget)) if seen.disruption_budget else None


def is_lowered(live: Live, wanted: Manifest) -> bool:
    """Whether the wanted budget lets go of more pods than the live one."""
    before = least_of(dict(live))
    return before is None or wanted["spec"]["minAvailable"] < before


def keeps(seen: Observation, members: int) -> bool:
    """Whether it keeps a quorum of so many. Mostly it does by the time that anybody asks; but its
    deletion may be held up, and what would make or raise it refused or undone. Under a name that
    another has taken there is none to wait for."""
    taken = any(one.kind == "PodDisruptionBudget" for one in seen.foreign)
    return taken or (_asked(seen) or 0) >= roster.quorum(members)


def is_stuck(seen: Observation) -> bool:
    """Whether it cannot be made or changed just now."""
    live = seen.disruption_budget
    off = any(kind == "PodDisruptionBudget" for kind, _ in seen.put_off)
    return off or bool(live and live["metadata"].get("deletionTimestamp"))


def spares_none(seen: Observation) -> bool:
    """Whether a cluster of the declared size needs all its members, so that no drain evicts one."""
    return roster.quorum(seen.cluster.size) == seen.cluster.size
