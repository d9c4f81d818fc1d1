"""Rolling restart: pods made from a template that the spec has left behind are made again.

The StatefulSet never restarts a pod by itself (OnDelete); a pod that is deleted comes back with the
newest template. Those that do not serve go first, also without a quorum: the cure may be in the new
spec. Then one at a time while all others serve, the leader last and after it has handed over (I8).
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.membership import changes, going_back, retries, roster, version_first
from etcd_stateful.membership.bootstrap import is_of_before
from etcd_stateful.membership.observation import Observation, is_latched
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import DeletePod, Hold, Step, Wait
from etcd_stateful.observed.pods import Pod

SPARING: Final = 3
"""The least number of members that can do without one."""

CRASH_SECONDS: Final = 30.0
"""How long a pod may keep failing before it is made again, so that `start` looks at its volume."""


def unready(seen: Observation) -> Step | None:
    """An outdated pod that is silent; one with an emptyDir only before it has data.

    One whose etcd answers stays, leader or not: without a quorum it may be the last good one. And
    an operator that is cut off hears nobody: of those whose etcd may run, the next goes only when
    the one before is back (I8).
    """
    for seat in roster.seats(seen):
        pod = seat.pod
        if pod is None or pod.ready or seat.status is not None:
            continue
        if not (_is_outdated(seen, pod) or _lacks_start(seen, pod)):
            continue
        if pod.etcd_started and is_latched(seen) and _another_is_away(seen, seat):
            continue
        if pod.etcd_started and is_latched(seen) and going_back.lowers_blindly(seen, pod.made_for):
            continue  # the older etcd might find data that it cannot read (I9)
        if seat.is_voter and not pod.is_stuck and _may_hang_by(seen, seat):
            continue  # it may be silent for this moment alone
        if _may_go(seat, pod) and (seat.durable or not pod.etcd_started):
            return _restart(pod, "it does not serve, and its template is not the newest")
    return None


def _may_hang_by(seen: Observation, seat: Seat) -> bool:
    """Whether the quorum that answers may need this member (I1). It stays on the list, and so do
    those that are none of ours, which nobody asks. With two members it always does."""
    others = [one for one in roster.voters(seen) if one.ordinal != seat.ordinal and one.serves]
    strange = [member for member in roster.unknown_members(seen) if not member.learner]
    listed = len(roster.voters(seen)) + len(strange)
    return len(others) < (roster.quorum(listed) if listed >= SPARING else 1)


def _another_is_away(seen: Observation, seat: Seat) -> bool:
    """Whether a pod has been restarted a moment ago, by whomever, and is not up again.

    One that fails, or whose node does not let go of it, is down by itself.
    """
    others = [seen.pod(one) for one in range(seen.replicas) if one != seat.ordinal]
    return any(pod is None or _is_on_its_way(pod) for pod in others)


def _is_on_its_way(pod: Pod) -> bool:
    if pod.deleting:
        return not pod.overdue
    is_up = pod.etcd_started or pod.answer is not None
    return not is_up and not pod.is_stuck and pod.age < CRASH_SECONDS


def next_pod(seen: Observation) -> Step | None:
    """Asked when all members serve."""
    outdated = [
        seat
        for seat in roster.voters(seen)
        if seat.pod and _is_outdated(seen, seat.pod) and _may_go(seat, seat.pod)
    ]
    if seen.etcd is None or not outdated:
        return None
    return _in_turn(seen, max(outdated, key=lambda seat: (not seat.leads, seat.ordinal)))


def _in_turn(seen: Observation, seat: Seat) -> Step | None:
    voters = roster.voters(seen)
    others = [one for one in voters if one.serves and one.ordinal != seat.ordinal]
    few = seen.cluster.size < SPARING
    if not seat.durable and few:
        return Hold(
            "RestartNeedsMembers",
            f"pod {seat.name} is to be restarted for a change of the spec, and its data is in an "
            "emptyDir: with fewer than three members it would be lost. Set spec.size to 3",
        )
    if not few and not roster.is_quorum(others, voters):
        return Wait(f"a quorum to serve without {seat.name}", soon=True)
    if seat.leads and (step := changes.hand_over(seen, seat, f"{seat.name} is to be restarted")):
        return step
    outage = "; with fewer than three members nobody is served meanwhile" if few else ""
    return _restart(seat.pod, f"its template is not the newest{outage}") if seat.pod else None


def crashing(seen: Observation) -> Step | None:
    """Made again, so that `start` looks at the volume: a container that restarts skips it."""
    if not seen.cluster.durable or (is_latched(seen) and seen.etcd is None):
        return None
    for seat in roster.seats(seen):
        pod = seat.pod
        meant = seat.is_voter or not is_latched(seen)
        if meant and pod and _keeps_failing(seen, pod) and _may_go(seat, pod):
            return _restart(pod, "etcd keeps failing in it")
    return None


def _keeps_failing(seen: Observation, pod: Pod) -> bool:
    """For a cause that is not known yet: etcd itself says that the data is damaged."""
    patience = max(CRASH_SECONDS, retries.apart(seen, "Degraded"))
    return pod.crashing and not pod.damage and pod.age > patience


def is_over(seen: Observation) -> bool:
    """Whether every pod has the template that the spec asks for, as far as its controller tells."""
    return seen.is_settled_revision and not any(_is_outdated(seen, pod) for pod in seen.pods)


def not_looked_at(seen: Observation) -> Step | None:
    """Asked last: which pods an edit has left behind is known once the controller has seen it."""
    if seen.stateful_set is None or seen.is_settled_revision:
        return None
    return Wait(f"the controller of StatefulSet {seen.cluster.name} to look at its newest template")


def _is_outdated(seen: Observation, pod: Pod) -> bool:
    """Of an older revision, and of another spec or epoch: an operator that merely renders
    differently than the one before must not restart a whole fleet."""
    if pod.name not in seen.outdated:
        return False
    edited = pod.spec_hash != version_first.template_hash(seen)
    return edited or is_of_before(seen, pod)


def _lacks_start(seen: Observation, pod: Pod) -> bool:
    """Its operator's image cannot be had, and the newest template may name one that can. Once for
    each template, as a pod of the newest is left waiting. One that has a record had its ticket."""
    return pod.start_missing and pod.name in seen.outdated and pod.record is None


def _may_go(seat: Seat, pod: Pod) -> bool:
    """Not one that is on its way out, or would come back bound to a claim that is."""
    return not pod.deleting and not (seat.claim and seat.claim.deleting)


def _restart(pod: Pod, why: str) -> DeletePod:
    return DeletePod.of(pod, f"pod {pod.name} is restarted: {why}")
