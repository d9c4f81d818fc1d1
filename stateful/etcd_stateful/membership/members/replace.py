"""Replaces a lost member: removes it, deletes its volume if needed, and adds a new one.

    MemberRemove -> (claim deleted -> pod deleted ->) `start` waits on an empty volume
    -> a new member is added there (`grow`)

The others need not all serve, only a quorum: of five members two may be lost, and are replaced one
after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.beginning import leftovers
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.members.loss import is_outvoted, why_lost
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import DeleteClaim, DeletePod, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod

SURPLUS_SECONDS: Final = 10.0
"""How long pods may be missing before it counts as keeping the StatefulSet controller from deleting
others."""


def remove_lost_voter(seen: Observation) -> Step | None:
    """Removes a lost member, if the serving members are a quorum of the rest.

    Members that do not serve go first. Of those that still serve, one whose hash the majority
    contradicts goes first, because each removal could end that majority.
    """
    candidates = removable(seen)
    if not candidates or roster.learner(seen):
        return None
    seat, why = min(
        candidates,
        key=lambda one: (one[0].serves, not is_outvoted(seen, one[0].ordinal), one[0].ordinal),
    )
    return changes.remove(seen, seat, why)


def removable(seen: Observation) -> list[tuple[Seat, str]]:
    """Lost voters that may be removed now, each with why it is lost."""
    lost = [(seat, why) for seat in roster.voters(seen) if (why := why_lost(seen, seat))]
    # A lost member that still serves is kept until the one removed before it has been replaced.
    wanted = [seat for seat in roster.seats(seen) if seat.ordinal < seen.cluster.size]
    vacant = not all(seat.is_voter for seat in wanted)
    return [
        (seat, why)
        for seat, why in lost
        if roster.keeps_quorum_without(seen, seat) and not (vacant and _is_of_use(seen, seat))
    ]


def _is_of_use(seen: Observation, seat: Seat) -> bool:
    """Whether it still serves. Under CORRUPT nobody is served before the members that the majority
    contradicts are removed, and a new member may have to wait for a node."""
    return roster.counts(seen, seat) and not is_outvoted(seen, seat.ordinal)


def delete_remains(seen: Observation) -> Step | None:
    """Deletes what a removed member left at its ordinal: the claim with its data, and the pod."""
    steps = (step for step in _of_remains(seen) if not isinstance(step, Hold))
    return next(steps, None)


def unrecorded_remains(seen: Observation) -> Step | None:
    """Holds for what only the user may delete (I6). Asked after the other ordinals have grown, and
    after all that does not need this one."""
    return next((step for step in _of_remains(seen) if isinstance(step, Hold)), None)


def _of_remains(seen: Observation) -> Iterator[Step]:
    if seen.etcd is None:
        return
    for seat in roster.seats(seen):
        if seat.member is None and (step := _remains(seen, seat)):
            yield step


def _remains(seen: Observation, seat: Seat) -> Step | None:
    pod = seat.pod
    if pod is None:
        return None
    if pod.deleting:
        return _force(seen, pod) if pod.overdue else None
    return _unusable(seen, seat, pod) if pod.ordinal < seen.replicas else _surplus(seen, pod)


def _surplus(seen: Observation, pod: Pod) -> Step | None:
    """Deletes a pod beyond the replicas, if the StatefulSet controller does not: it deletes none
    before it has created all others, and a quota may refuse those because of this one."""
    late = [name for name, seconds in seen.missing.items() if seconds > SURPLUS_SECONDS]
    why = f"its member was removed, and {', '.join(late)} cannot be created"
    return DeletePod.of(seen, pod, f"pod {pod.name} is deleted: {why}") if late else None


def _unusable(seen: Observation, seat: Seat, pod: Pod) -> Step | None:
    """Deletes a pod or a claim with which no new member can start."""
    claim = seat.claim
    if not seat.durable:
        return _delete(seen, pod, "its member was removed") if pod.etcd_started else None
    if claim is None:
        return _delete(seen, pod, "its claim is gone")
    if claim.deleting:
        return _delete(seen, pod, f"claim {claim.name} is being deleted")
    return _unusable_claim(seen, seat, claim, pod)


def _unusable_claim(seen: Observation, seat: Seat, claim: Claim, pod: Pod) -> Step | None:
    """Deletes a claim whose volume no new member can start on. An empty volume is reused."""
    runs = pod.runs_etcd
    broken = pod.node_gone or claim.phase == "Lost" or seat.found == "damaged"
    if not (runs or broken or _is_from_earlier_epoch(seen, claim, pod)):
        return None
    if seen.is_kept(claim):
        return None
    if leftovers.is_removed_members(seen, claim):
        reason = f"claim {claim.name} is deleted: the member that it belongs to was removed"
        return DeleteClaim.of(claim, reason)
    what = "runs etcd" if runs else "cannot use its volume"
    return Hold(
        "ClaimUnrecorded",
        f"pod {pod.name} {what} and is not on the member list, and claim {claim.name} has no "
        "record of the member that it belonged to. If you do not need its data, delete the claim "
        "and the pod",
    )


def _is_from_earlier_epoch(seen: Observation, claim: Claim, pod: Pod) -> bool:
    """Whether the volume is from before a recovery, which did not delete the claim because the
    Secret was lost halfway. Foreign data is left alone: it does not keep other ordinals from
    growing.
    """
    finding = pod.finding
    held, now = claim.own_record, recorded(seen).epoch
    found = finding.epoch if finding and finding.found == "foreign-data" else None
    is_older = held is not None and found is not None and held.epoch == found < now
    return is_older and leftovers.is_removed_members(seen, claim)


def _delete(seen: Observation, pod: Pod, why: str) -> DeletePod | None:
    return DeletePod.of(seen, pod, f"pod {pod.name} is recreated: {why}")


def _force(seen: Observation, pod: Pod) -> DeletePod | None:
    """Force-deletes a pod whose node does not confirm that it stopped. Its member was removed, so
    it can do no harm if it still runs."""
    reason = f"pod {pod.name} is force-deleted: its member was removed, and its node is silent"
    return DeletePod.of(seen, pod, reason, force=True)


def not_replaceable(seen: Observation) -> Step | None:
    """Says why a lost member cannot be removed: without it the others would not be a quorum.

    A lost member that still serves and could be removed next is skipped. It waits until the one
    before it is replaced, and that may need a rolling restart first, to prove the image.
    """
    for seat in roster.voters(seen):
        in_turn = seat.serves and roster.keeps_quorum_without(seen, seat)
        if not in_turn and (why := why_lost(seen, seat)):
            others = [one for one in roster.voters(seen) if one.ordinal != seat.ordinal]
            if not others:
                return Hold(
                    "LastMember",
                    f"{why}, and {seat.name} is the only member, so replacing it would lose the "
                    "data. Take a backup; or set spec.size to 3, and it is replaced once the new "
                    "members have all data",
                )
            down = wording.not_serving(seen, others)
            return Wait(f"{down} to serve, so that {seat.name} can be replaced: {why}", soon=True)
    return None
