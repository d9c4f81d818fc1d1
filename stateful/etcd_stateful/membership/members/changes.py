"""Membership changes, and which member to ask for them: the leader, by its address and IDs.

Any member accepts such a request, and judges it by which peers it has itself been connected to long
enough. The leader is asked first, because a follower hangs if it has lost the leader. But etcd has
a bug (issue 14523): if a message to a peer's old address times out after the peer has restarted,
the member regards this peer as inactive until one of the two restarts. So the other serving members
are named too, and are asked if the leader refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from etcd_stateful.identity import to_hex
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.members.loss import why_lost
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import (
    Leader,
    MemberRemove,
    MoveLeader,
    Step,
    Voter,
    Wait,
)
from etcd_stateful.membership.tls import links

_NO_LEADER: Final = Wait("the leader to answer", soon=True)


def leader(seen: Observation) -> Leader | None:
    """The leader; None if it does not answer."""
    voters = roster.voters(seen)
    found = next((voter(seen, seat) for seat in voters if seat.leads), None)
    if found is None:
        return None
    serving = (voter(seen, seat) for seat in voters if seat.serves and not seat.leads)
    others = tuple(filter(None, serving))
    return Leader(found.address, found.member_id, found.cluster_id, found.host, others)


def voter(seen: Observation, seat: Seat) -> Voter | None:
    """The member of this seat as a request's target; None if it does not answer."""
    if seat.pod is None or seat.status is None:
        return None
    host = _host(seen, seat.ordinal)
    return Voter(seat.pod.address, seat.status.member_id, seat.status.cluster_id, host)


def _host(seen: Observation, ordinal: int) -> str:
    """The host name to verify in the member's certificate; empty if it serves no TLS."""
    pod = seen.pod(ordinal)
    encrypted = pod is not None and "https" in links.levels_of(seen, pod).client_schemes
    return seen.cluster.host(ordinal) if encrypted else ""


def request(seen: Observation, change: Callable[[Leader], Step]) -> Step:
    """The change as a request to the leader; a wait if no leader answers."""
    asked = leader(seen)
    return _to_answer(seen) if asked is None else change(asked)


def _to_answer(seen: Observation) -> Wait:
    """Waits for the leader. If only the operator does not reach it, the others tell which it is."""
    leads = roster.leader_id(seen)
    for seat in roster.voters(seen):
        if seat.member and seat.member.member_id == leads:
            why = wording.why_silent(seat.pod) if seat.pod else ""
            return replace(_NO_LEADER, reason=f"the leader, {seat.name}, to answer{why}")
    return _NO_LEADER


def remove(seen: Observation, seat: Seat, why: str) -> Step:
    """Removes the member. If it is the leader, leadership moves first, if there is a candidate."""
    if seat.member is None:
        return _to_answer(seen)
    if seat.leads and (step := hand_over(seen, seat, f"{seat.name} is to be removed")):
        return step
    member = seat.member.member_id
    words = f"{seat.name} ({to_hex(member)}) is removed: {why}"
    return request(seen, lambda asked: MemberRemove(asked, member, words))


def hand_over(seen: Observation, seat: Seat, why: str) -> MoveLeader | None:
    """Moves leadership to a member that is not about to be removed or restarted.

    Of several, it goes to the one that has applied most.
    """
    others = (one for one in roster.voters(seen) if one.ordinal != seat.ordinal)
    candidates = [one for one in others if roster.counts(seen, one) and not why_lost(seen, one)]
    best = max(candidates, key=lambda one: _preference(seen, one), default=None)
    asked = leader(seen)
    if asked is None or best is None or best.member is None:
        return None
    return MoveLeader(asked, best.member.member_id, f"{best.name} is to lead: {why}")


def _preference(seen: Observation, seat: Seat) -> tuple[bool, bool, int, int]:
    """The highest is preferred as leader; of two equal ones, that of the lower ordinal."""
    stays = seat.ordinal < seen.cluster.size
    is_newest = seat.name not in seen.outdated
    applied = seat.status.applied_index if seat.status else 0
    return stays, is_newest, applied, -seat.ordinal
