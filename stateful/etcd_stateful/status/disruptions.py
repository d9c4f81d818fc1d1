"""The condition DrainsBlocked: a drain cannot evict any member."""

from __future__ import annotations

from etcd_stateful.membership import roster
from etcd_stateful.membership.members import budget
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.rolling import roll
from etcd_stateful.status.outcome import Condition, Outcome


def drains_blocked(outcome: Outcome) -> Condition | None:
    """Present only while a quorum takes all voters, so that every eviction is refused: with one or
    two members, or while a learner joins three. Without a member list it stays what it was."""
    seen = outcome.observation
    if seen is None or not is_latched(seen):
        return None
    if seen.etcd is None:
        return outcome.kept("DrainsBlocked")
    if not budget.blocks_all_evictions(seen):
        return None
    voters = len(roster.voters(seen))
    which = "the only voter is" if voters == 1 else f"all {voters} voters are"
    words = f"{which} needed for a quorum, so the drain of a node that runs one waits"
    return Condition("DrainsBlocked", "True", "NoMemberToSpare", f"{words}. {_ways(seen)}")


def _ways(seen: Observation) -> str:
    size = seen.cluster.size
    ways = f"That ends when {size} members serve, as spec.size asks"
    if size < roll.SPARING:
        ways = "Set spec.size to 3 or more"
    if not seen.cluster.durable:
        return ways
    return (
        f"{ways}; or delete the pod by hand when clients can do without it for a while: it comes "
        "back with its data"
    )
