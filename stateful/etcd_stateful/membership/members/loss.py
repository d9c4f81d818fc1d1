"""When a member counts as lost: only on proof that its data is gone or unusable for good.

A member that crashes, is down or silent, has an unreadable volume or is on an unreachable node is
not lost: it may recover by itself, or somebody may repair it.
"""

from __future__ import annotations

from collections import Counter

from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.roster import Seat, had_ticket, never_ticketed, voters
from etcd_stateful.observed.members import Member


def why_lost(seen: Observation, seat: Seat) -> str:
    """Why the member of this seat is lost for good; empty if it is not."""
    if seat.member is None:
        return ""
    return (
        _no_data(seen, seat)
        or _no_claim(seat)
        or _other_data(seen, seat, seat.member)
        or _damaged(seen, seat)
    )


def _no_data(seen: Observation, seat: Seat) -> str:
    if seat.volume_is_empty and had_ticket(seen, seat):
        return f"the volume of pod {seat.name} is empty"
    if seat.found == "damaged" and seat.pod and seat.pod.answer:
        return f"the log of pod {seat.name} is damaged: {seat.pod.answer.finding.detail}"
    return ""


def _no_claim(seat: Seat) -> str:
    claim, pod = seat.claim, seat.pod
    if not seat.durable:
        return ""
    if claim is None:
        # A running pod would go on until it stops. A recreated one reports an empty volume itself.
        return f"the claim of pod {seat.name} is gone" if pod and pod.etcd_started else ""
    if claim.deleting:
        return f"claim {claim.name} is being deleted"
    if claim.phase == "Lost":
        return f"claim {claim.name} has lost its volume"
    if pod and pod.node_gone:
        return f"the node that the volume of pod {seat.name} lies on is gone"
    return ""


def _other_data(seen: Observation, seat: Seat, member: Member) -> str:
    """Why the pod does not run on its own member's data; empty if it does. A volume that was away
    may come back with a removed member's data, after that member was replaced. `start` knows the
    log; without its word, the claim tells."""
    pod, held = seat.pod, seat.record
    if pod is None or not pod.runs_etcd or seat.answers:
        return ""
    unused = never_ticketed(seen, member, held)
    runs = pod.ran_as or (held.member_id if held else 0)
    if unused or runs not in (0, member.member_id):
        return f"pod {seat.name} runs on the data of another member"
    return ""


def _damaged(seen: Observation, seat: Seat) -> str:
    if seat.pod and seat.pod.damage and not seat.pod.tried_again:
        return f"etcd in pod {seat.name} refuses its data: {seat.pod.damage}"
    if seen.is_corrupt and is_outvoted(seen, seat.ordinal):
        return f"the data of pod {seat.name} differs from what most members have"
    return ""


def is_outvoted(seen: Observation, ordinal: int) -> bool:
    """Whether a majority of all voters has one hash, and this one another.

    The alarm alone proves nothing: etcd may name the wrong member.
    """
    listed, hashes = [one for one in seen.members if not one.learner], hashes_of_voters(seen)
    if ordinal not in hashes:
        return False
    (hashed, votes), *_ = Counter(hashes.values()).most_common(1)
    return votes > len(listed) // 2 and hashes[ordinal] != hashed


def hashes_of_voters(seen: Observation) -> dict[int, int]:
    """By ordinal, the hashes that count: not that of a removed member, which may answer for a while
    and has no vote."""
    answering = (seat.ordinal for seat in voters(seen) if seat.answers)
    return {ordinal: seen.hashes[ordinal] for ordinal in answering if ordinal in seen.hashes}
