"""Takes the highest ordinal off the list while there are more members than `spec.size`.

    MoveLeader, if it leads -> MemberRemove -> replicas follow the list -> claim deleted

Its pod and claim are not waited for: once off the list it is no member, and the next may go.
"""

from __future__ import annotations

from etcd_stateful.membership import changes, grow, roster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Step, Wait


def highest(seen: Observation) -> Step | None:
    """Takes the voter of the highest ordinal off the list, if the others keep a quorum (I1)."""
    size, voters = seen.cluster.size, roster.voters(seen)
    if not voters or voters[-1].ordinal < size:
        return None
    top = voters[-1]
    if len(voters) == 1 or (len(voters) <= size and grow.is_possible(seen)):
        return None  # ordinals below are vacant: they are grown first, as long as they can be
    if not roster.rest_holds(seen, top):
        down = roster.not_serving(voters[:-1])
        return Wait(f"{down} to serve, so that {top.name} can go", soon=True)
    return changes.remove(seen, top, f"spec.size is {size}")
