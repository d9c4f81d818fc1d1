"""The condition DrainsBlocked: a drain cannot evict any member."""

from __future__ import annotations

from etcd_stateful.membership import budget
from etcd_stateful.membership.observation import is_latched
from etcd_stateful.status.outcome import Condition, Outcome


def drains_blocked(outcome: Outcome) -> Condition | None:
    """Present only at sizes 1 and 2: their quorum is all members, so every eviction is refused."""
    seen = outcome.observation
    if seen is None or not is_latched(seen) or not budget.blocks_all_evictions(seen):
        return None
    ways = "Set spec.size to 3 or more"
    if seen.cluster.durable:
        ways += (
            "; or delete the pod by hand when clients can do without it for a while: it comes back "
            "with its data"
        )
    size = seen.cluster.size
    which = "the only member is" if size == 1 else f"all {size} members are"
    words = f"{which} needed for a quorum, so the drain of a node that runs one waits. {ways}"
    return Condition("DrainsBlocked", "True", "NoMemberToSpare", words)
