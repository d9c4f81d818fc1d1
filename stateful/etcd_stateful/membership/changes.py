"""Changes of the membership, and whom to ask for them: the leader, by its address and IDs.

etcd lets any member take them, and each goes by its own view of whom it has been connected to for
long enough. The leader's is the one that counts first: a follower may hang over a leader that is
lost. But one message to a dead address that times out after the restarted peer is back leaves that
peer inactive in a member's eyes until one of them restarts (etcd issue 14523), so those that serve
beside the leader are named as well.
"""

from __future__ import annotations

from collections.abc import Callable

from etcd_stateful.identity import to_hex
from etcd_stateful.membership import links, roster
from etcd_stateful.membership.loss import why_lost
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import (
    EtcdChange,
    Leader,
    MemberRemove,
    MoveLeader,
    Voter,
    Wait,
)

NO_LEADER = Wait("the leader to answer", soon=True)


def leader(seen: Observation) -> Leader | None:
    """The leader of the latest term, where it answers."""
    voters = roster.voters(seen)
    terms = [
        (seat.status.term, seat.pod.address, seat.ordinal, seat.status)
        for seat in voters
        if seat.leads and seat.status and seat.pod
    ]
    if not terms:
        return None
    _, address, ordinal, status = max(terms, key=lambda one: one[0])
    others = (voter(seen, seat) for seat in voters if seat.serves and seat.ordinal != ordinal)
    host = _host(seen, ordinal)
    return Leader(address, status.member_id, status.cluster_id, host, tuple(filter(None, others)))


def voter(seen: Observation, seat: Seat) -> Voter | None:
    """The member of this seat, where it answers."""
    if seat.pod is None or seat.status is None:
        return None
    host = _host(seen, seat.ordinal)
    return Voter(seat.pod.address, seat.status.member_id, seat.status.cluster_id, host)


def _host(seen: Observation, ordinal: int) -> str:
    """Empty for a member that serves no TLS."""
    pod = seen.pod(ordinal)
    encrypted = pod is not None and "https" in links.levels_of(seen, pod).client_schemes
    return seen.cluster.host(ordinal) if encrypted else ""


def ask(seen: Observation, change: Callable[[Leader], EtcdChange]) -> EtcdChange | Wait:
    """The change, asked of the leader once it answers."""
    asked = leader(seen)
    return NO_LEADER if asked is None else change(asked)


def remove(seen: Observation, seat: Seat, why: str) -> EtcdChange | Wait:
    """The member off the list; one that leads hands over first, where there is somebody to."""
    if seat.member is None:
        return NO_LEADER
    if seat.leads and (step := hand_over(seen, seat, f"{seat.name} is to be removed")):
        return step
    member = seat.member.member_id
    words = f"{seat.name} ({to_hex(member)}) is removed: {why}"
    return ask(seen, lambda asked: MemberRemove(asked, member, words))


def hand_over(seen: Observation, seat: Seat, why: str) -> MoveLeader | None:
    """Leadership to one that stays and has the newest template, and of these the furthest on."""
    others = (one for one in roster.voters(seen) if one.ordinal != seat.ordinal)
    heirs = [one for one in others if one.serves and not why_lost(seen, one)]
    heir = max(heirs, key=lambda one: _fitness(seen, one), default=None)
    asked = leader(seen)
    if asked is None or heir is None or heir.member is None:
        return None
    return MoveLeader(asked, heir.member.member_id, f"{heir.name} is to lead: {why}")


def _fitness(seen: Observation, seat: Seat) -> tuple[bool, bool, int, int]:
    """The higher, the better to lead; of two alike, the one of the lower ordinal."""
    stays = seat.ordinal < seen.cluster.size
    is_newest = seat.name not in seen.outdated
    applied = seat.status.applied_index if seat.status else 0
    return stays, is_newest, applied, -seat.ordinal
