"""Who sits where: the members of the linearizable list, by the ordinals in their peer URLs.

By URL and never by name: one that was added and has not started has none, and one that has can call
itself anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.observed.members import Member, MemberStatus
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records.member import MemberRecord

CAUGHT_UP: Final = 0.9
"""etcd's own measure for a learner that may be promoted (`readyPercentThreshold`)."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One ordinal: the member that the list has there, and its pod, claim and own status."""

    ordinal: int
    name: str
    member: Member | None
    pod: Pod | None
    claim: Claim | None
    status: MemberStatus | None
    durable: bool

    @property
    def is_voter(self) -> bool:
        return self.member is not None and not self.member.learner

    @property
    def is_learner(self) -> bool:
        return self.member is not None and self.member.learner

    @property
    def answers(self) -> bool:
        """Its own status is that of the listed member."""
        return bool(self.member and self.status and self.status.member_id == self.member.member_id)

    @property
    def serves(self) -> bool:
        """A voter that hears its leader, in a pod that stays."""
        leaves = self.pod is not None and self.pod.deleting
        heard = self.status is not None and bool(self.status.leader_id)
        return self.is_voter and self.answers and heard and not leaves

    @property
    def leads(self) -> bool:
        return bool(self.answers and self.status and self.status.leader_id == self.status.member_id)

    @property
    def record(self) -> MemberRecord | None:
        """Which member the volume belongs to; with an emptyDir the pod says so."""
        if not self.durable:
            return self.pod.record if self.pod else None
        return self.claim.record if self.claim else None

    @property
    def waits_empty(self) -> bool:
        """`start` says, authenticated, that there is no data on the volume."""
        return self.pod is not None and self.pod.waits_empty

    @property
    def found(self) -> str:
        """What `start` says of the volume; empty where it does not wait in this pod."""
        finding = self.pod.finding if self.pod else None
        return finding.found if finding else ""


def seats(seen: Observation) -> tuple[Seat, ...]:
    """Every ordinal that has a member, a pod or a claim, or should have one; lowest first."""
    return _seats(_This(seen))


@dataclass(frozen=True, slots=True, eq=False)
class _This:
    """An observation as a key, by identity: comparing two would take longer than counting anew."""

    seen: Observation

    def __hash__(self) -> int:
        return id(self.seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _This) and other.seen is self.seen


@lru_cache(maxsize=4)
def _seats(this: _This) -> tuple[Seat, ...]:
    """Cached, as one decision asks some 25 times, which took half of its time."""
    seen = this.seen
    listed = {
        ordinal: member
        for member in (seen.etcd.members if seen.etcd else ())
        if (ordinal := ordinal_of(seen, member)) is not None
    }
    known = {pod.ordinal for pod in seen.pods} | {claim.ordinal for claim in seen.claims}
    every = sorted(known | listed.keys() | set(range(seen.cluster.size)))
    return tuple(
        Seat(
            ordinal=ordinal,
            name=naming.pod(seen.cluster.name, ordinal),
            member=listed.get(ordinal),
            pod=seen.pod(ordinal),
            claim=seen.claim(ordinal),
            status=seen.statuses.get(ordinal),
            durable=seen.cluster.durable,
        )
        for ordinal in every
    )


def ordinal_of(seen: Observation, member: Member) -> int | None:
    """The ordinal whose host a peer URL of the member names; None for a member that is no pod's."""
    return _ordinal_in(seen.cluster.name, seen.cluster.namespace, member.peer_urls)


@lru_cache(maxsize=8192)
def _ordinal_in(cluster: str, namespace: str, peer_urls: tuple[str, ...]) -> int | None:
    """Cached, as one look at a cluster of seven asks some 150 times, which took a fifth of it.

    Whatever domain of the Kubernetes cluster the host ends with; but a pod of another namespace may
    have the same first name, as members do that somebody adds to move a cluster.
    """
    for url in peer_urls:
        host = naming.split_url(url)[1].partition(":")[0]
        name, _, place = host.lower().partition(".")
        ordinal = naming.ordinal_of(cluster, name)
        ours = f"{place}.".startswith(f"{naming.headless_service(cluster)}.{namespace}.svc.")
        if ordinal is not None and ordinal < naming.MAX_SIZE and (ours or not place):
            return ordinal
    return None


def at(seen: Observation, ordinal: int) -> Member | None:
    """The listed member of this ordinal."""
    members = seen.etcd.members if seen.etcd else ()
    return next((member for member in members if ordinal_of(seen, member) == ordinal), None)


def unknown_members(seen: Observation) -> tuple[Member, ...]:
    """Members at no ordinal, and all but the first where two share one."""
    taken: set[int] = set()
    unknown = []
    for member in seen.etcd.members if seen.etcd else ():
        ordinal = ordinal_of(seen, member)
        if ordinal is None or ordinal in taken:
            unknown.append(member)
        else:
            taken.add(ordinal)
    return tuple(unknown)


def voters(seen: Observation) -> list[Seat]:
    """By ordinal, lowest first."""
    return [seat for seat in seats(seen) if seat.is_voter]


def named(seen: Observation, name: str) -> Seat | None:
    """The seat of a pod's or member's name; None for a name that nothing has or should have."""
    return next((seat for seat in seats(seen) if seat.name == name), None)


def learner(seen: Observation) -> Seat | None:
    """The one learner; etcd allows no second (I2)."""
    return next((seat for seat in seats(seen) if seat.is_learner), None)


def quorum(size: int) -> int:
    """How many of so many voters decide."""
    return size // 2 + 1


def is_quorum(some: Sequence[Seat], of: Sequence[Seat]) -> bool:
    return len(some) >= quorum(len(of))


def rest_holds(seen: Observation, without: Seat) -> bool:
    """Whether those that serve are a quorum also once `without` is no member any more (I1)."""
    rest = [seat for seat in voters(seen) if seat.ordinal != without.ordinal]
    return bool(rest) and is_quorum([seat for seat in rest if seat.serves], rest)


def has_caught_up(seen: Observation, seat: Seat) -> bool:
    """Whether the member itself says that it has applied nearly what the leader has."""
    ahead = max((status.applied_index for status in seen.statuses.values()), default=0)
    return bool(seat.answers and seat.status and seat.status.applied_index >= CAUGHT_UP * ahead)


def had_ticket(seen: Observation, seat: Seat) -> bool:
    """Whether the listed member has spent its one ticket on another run than waits now (I3)."""
    member, pod = seat.member, seat.pod
    if member is None or never_ticketed(seen, member, seat.record):
        return False
    run = recorded(seen).challenge(member.member_id)
    return run is None or not (pod and pod.answer and pod.answer.challenge == run)


def never_ticketed(seen: Observation, member: Member, held: MemberRecord | None) -> bool:
    """Whether the listed member can be known to have had no ticket.

    Of first members the ledger tells all; their names are on the list from the beginning, started
    or not. A record that was taken on from elsewhere knows no tickets of before: there a member
    that has a name has started once, and one that the claim names was given its ticket.
    """
    record = recorded(seen)
    if record.challenge(member.member_id) is not None:
        return False
    if any(first.member_id == member.member_id for first in record.members):
        return True
    return not member.name and not (held and held.member_id == member.member_id)


def not_serving(some: Sequence[Seat]) -> str:
    """Names for a wait; one that is about to stop may be all there is to wait for."""
    return in_words([seat for seat in some if not seat.serves]) or "the others"


def stopping(pod: Pod) -> str:
    """Its name, and what to do where its node may never say that it has stopped."""
    if not pod.overdue:
        return pod.name
    return (
        f"{pod.name} (nobody confirms that it has stopped; if its node is off for good, delete the "
        "Node, or the pod by force)"
    )


def in_words(some: Sequence[Seat]) -> str:
    return ", ".join(seat.name for seat in some)
