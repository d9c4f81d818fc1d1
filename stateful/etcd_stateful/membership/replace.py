"""Replaces a lost member: off the list first, its volume made anew if need be, then added again.

    MemberRemove -> (claim deleted -> pod deleted ->) `start` waits empty -> grown into as a new one

Quorum gates repair, not unanimity: of five members two may be lost, and go one after the other.
"""

from __future__ import annotations

from etcd_stateful.membership import changes, leftovers, roster
from etcd_stateful.membership.loss import is_outvoted, why_lost
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import DeleteClaim, DeletePod, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod


def lost_voter(seen: Observation) -> Step | None:
    """Takes one off the list, if those that serve are a quorum of the rest. Of those that still
    serve one that most differ from goes first, while there are most: the others bear witness."""
    able = removable(seen)
    if not able or roster.learner(seen):
        return None
    seat, why = min(
        able,
        key=lambda one: (one[0].serves, not is_outvoted(seen, one[0].ordinal), one[0].ordinal),
    )
    return changes.remove(seen, seat, why)


def removable(seen: Observation) -> list[tuple[Seat, str]]:
    """Lost voters that may go now, each with why it is lost."""
    lost = [(seat, why) for seat in roster.voters(seen) if (why := why_lost(seen, seat))]
    # One that still serves waits until the one before has been replaced.
    wanted = [seat for seat in roster.seats(seen) if seat.ordinal < seen.cluster.size]
    vacant = not all(seat.is_voter for seat in wanted)
    return [
        (seat, why)
        for seat, why in lost
        if roster.rest_holds(seen, seat) and not (seat.serves and vacant)
    ]


def remains(seen: Observation) -> Step | None:
    """What a removed member left at its ordinal: a claim with its data, a pod that runs on it."""
    if seen.etcd is None:
        return None
    steps = (_remains(seen, seat) for seat in roster.seats(seen) if seat.member is None)
    return next((step for step in steps if step), None)


def _remains(seen: Observation, seat: Seat) -> Step | None:
    pod = seat.pod
    if pod is None:
        return None
    if pod.deleting:
        return _force(pod) if pod.overdue else None
    # Those beyond the replicas are deleted by the StatefulSet's controller.
    return _again(seen, seat, pod) if pod.ordinal < seen.replicas else None


def _again(seen: Observation, seat: Seat, pod: Pod) -> Step | None:
    """Where no new member can start on what the pod has."""
    claim = seat.claim
    if not seat.durable:
        return _delete(pod, "its member was removed") if pod.etcd_started else None
    if claim is None:
        return _delete(pod, "its claim is gone")
    if claim.deleting:
        return _delete(pod, f"claim {claim.name} is being deleted")
    return _useless_claim(seen, seat, claim, pod)


def _useless_claim(seen: Observation, seat: Seat, claim: Claim, pod: Pod) -> Step | None:
    """A claim whose volume no new member can start on; an empty one is taken as it is."""
    runs = pod.runs_etcd
    spoilt = pod.node_gone or claim.phase == "Lost" or seat.found == "damaged"
    if not (runs or spoilt or _is_of_before(seen, claim, pod)):
        return None
    if leftovers.is_removed_members(seen, claim):
        reason = f"claim {claim.name} is deleted: the member that it belongs to was removed"
        return DeleteClaim.of(claim, reason)
    what = "runs etcd" if runs else "cannot use its volume"
    return Hold(
        "ClaimUnrecorded",
        f"pod {pod.name} {what} and is on no member list, and nothing on claim {claim.name} says "
        "which member it belonged to. If its data is not needed, delete the claim and the pod",
    )


def _is_of_before(seen: Observation, claim: Claim, pod: Pod) -> bool:
    """What a recovery would have deleted, had the Secret not been lost in the middle of it. Of any
    other cluster it is not in the way: others are grown beside it."""
    finding = pod.finding
    held, now = claim.own_record, recorded(seen).epoch
    found = finding.epoch if finding and finding.found == "foreign-data" else None
    is_meant = held is not None and found is not None and held.epoch == found < now
    return is_meant and leftovers.is_removed_members(seen, claim)


def _delete(pod: Pod, why: str) -> DeletePod:
    return DeletePod.of(pod, f"pod {pod.name} is made again: {why}")


def _force(pod: Pod) -> DeletePod:
    """Its node does not confirm that it stopped; it is no member any more, so it can do no harm."""
    reason = f"pod {pod.name} is given up: its member was removed, and its node does not answer"
    return DeletePod.by_force(pod, reason)


def not_replaceable(seen: Observation) -> Step | None:
    """Members that are lost, and must stay: without them the others would be no quorum.

    One that still serves and only waits for its turn holds nothing up: whoever is to be added
    before it may wait for an image that a restart has to try out first.
    """
    for seat in roster.voters(seen):
        in_turn = seat.serves and roster.rest_holds(seen, seat)
        if not in_turn and (why := why_lost(seen, seat)):
            others = [one for one in roster.voters(seen) if one.ordinal != seat.ordinal]
            if not others:
                return Hold(
                    "LastMember",
                    f"{why}, and {seat.name} is the only member: its data ends with it. Take a "
                    "backup, or set spec.size to 3 and it is replaced once the others have it all",
                )
            down = roster.not_serving(others)
            return Wait(f"{down} to serve, so that {seat.name} can be replaced: {why}", soon=True)
    return None
