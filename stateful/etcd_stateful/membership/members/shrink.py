"""Removes the member of the highest ordinal while there are more members than `spec.size`.

    MoveLeader, if it leads -> MemberRemove -> replicas follow the list -> claim deleted

The next removal does not wait for the pod and claim of the last: that member is off the list.
"""

from __future__ import annotations

from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.members import changes, grow
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Step, Wait
from etcd_stateful.membership.upkeep import alarms


def remove_highest(seen: Observation) -> Step | None:
    """Removes the voter of the highest ordinal, if the others keep a quorum (I1)."""
    size, voters = seen.cluster.size, roster.voters(seen)
    if not voters or voters[-1].ordinal < size or alarms.is_undecided(seen):
        return None
    top = voters[-1]
    if len(voters) == 1 or (len(voters) <= size and grow.is_possible(seen)):
        return None  # lower ordinals have no member: grow those first, if possible
    if not roster.keeps_quorum_without(seen, top):
        down = wording.not_serving(seen, voters[:-1])
        return Wait(f"{down} to serve, so that {top.name} can be removed", soon=True)
    return changes.remove(seen, top, f"spec.size is {size}")
