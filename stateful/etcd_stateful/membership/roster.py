"""Which member, pod, claim and status belong to each ordinal.

Members are matched to ordinals by the host in their peer URLs, never by name: a member that was
added and has not started has no name, and a started one can have any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from etcd_stateful import naming
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.observed.members import Member, MemberStatus
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records.member import MemberRecord

CAUGHT_UP: Final = 0.9
"""The share of the leader's progress that etcd asks of a learner (`readyPercentThreshold`)."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One ordinal: its member on the member list, its pod, its claim, and the member's status."""

    ordinal: int
    name: str
    member: Member | None
    pod: Pod | None
    claim: Claim | None
    status: MemberStatus | None
    durable: bool
    leads: bool = False
    """It answers, and leads in the latest term that a listed member has heard of. If a leader's
    disk hangs, it does not hear of its successor, and goes on naming itself (3.5.35, 3.7.3)."""

    @property
    def is_voter(self) -> bool:
        return self.member is not None and not self.member.learner

    @property
    def is_learner(self) -> bool:
        return self.member is not None and self.member.learner

    @property
    def answers(self) -> bool:
        """The etcd at this ordinal answers, and it is the listed member."""
        return bool(self.member and self.status and self.status.member_id == self.member.member_id)

    @property
    def hears_leader(self) -> bool:
        """The etcd at this ordinal answers, and knows a leader."""
        return self.status is not None and bool(self.status.leader_id)

    @property
    def takes_traffic(self) -> bool:
        return self.pod is not None and self.pod.takes_traffic

    @property
    def serves(self) -> bool:
        """A voter that has a leader, in a pod that is not being deleted."""
        leaves = self.pod is not None and self.pod.deleting
        return self.is_voter and self.answers and self.hears_leader and not leaves

    @property
    def record(self) -> MemberRecord | None:
        """Which member the volume belongs to, from the claim; with an emptyDir, from the pod."""
        if not self.durable:
            return self.pod.record if self.pod else None
        return self.claim.record if self.claim else None

    @property
    def volume_is_empty(self) -> bool:
        """`start` waits in the pod and says, authenticated, that the volume has no data."""
        return self.pod is not None and self.pod.volume_is_empty

    @property
    def found(self) -> str:
        """What `start` found on the volume; empty if `start` is not waiting in this pod."""
        finding = self.pod.finding if self.pod else None
        return finding.found if finding else ""


def seats(seen: Observation) -> tuple[Seat, ...]:
    """Every ordinal that has a member, a pod or a claim, or should have one; lowest first."""
    return _seats(_ByIdentity(seen))


@dataclass(frozen=True, slots=True, eq=False)
class _ByIdentity:
    """A cache key for an observation. Comparing two by value costs more than computing the
    seats."""

    seen: Observation

    def __hash__(self) -> int:
        return id(self.seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.seen is self.seen


@lru_cache(maxsize=4)
def _seats(key: _ByIdentity) -> tuple[Seat, ...]:
    """Cached: one decision calls this about 25 times, which took half of its time."""
    seen = key.seen
    listed = _by_ordinal(seen)
    known = {pod.ordinal for pod in seen.pods} | {claim.ordinal for claim in seen.claims}
    ordinals = sorted(known | listed.keys() | set(range(seen.cluster.size)))
    every = [
        Seat(
            ordinal=ordinal,
            name=naming.pod(seen.cluster.name, ordinal),
            member=listed.get(ordinal),
            pod=seen.pod(ordinal),
            claim=seen.claim(ordinal),
            status=seen.statuses.get(ordinal),
            durable=seen.cluster.durable,
        )
        for ordinal in ordinals
    ]
    leader = _leader_by(every)
    return tuple(
        replace(one, leads=True) if one.status and one.status.member_id == leader else one
        for one in every
    )


def leader_id(seen: Observation) -> int:
    """The leader of the latest term, by the listed members that answer; 0 if none knows one."""
    return _leader_by(seats(seen))


def _leader_by(every: Sequence[Seat]) -> int:
    said = (one.status for one in every if one.answers and one.status)
    led = ((status.term, status.leader_id) for status in said if status.leader_id)
    return max(led, default=(0, 0))[1]


def _by_ordinal(seen: Observation) -> dict[int, Member]:
    """The members at the ordinals that their peer URLs name. If somebody has added a second member
    at one of them (with another scheme or domain), the pod's own member keeps it, whichever is
    listed first."""
    listed: dict[int, Member] = {}
    for member in seen.members:
        ordinal = ordinal_of(seen, member)
        if ordinal is None:
            continue
        if ordinal not in listed or _id_at(seen, ordinal) == member.member_id:
            listed[ordinal] = member
    return listed


def _id_at(seen: Observation, ordinal: int) -> int:
    """The member that runs at this ordinal, by its etcd's answer or its volume's record, whatever
    the member list says; 0 if unknown."""
    if (status := seen.statuses.get(ordinal)) is not None:
        return status.member_id
    claim, pod = seen.claim(ordinal), seen.pod(ordinal)
    held = pod.record if pod else None
    if seen.cluster.durable:
        held = claim.own_record if claim else None
    return held.member_id if held else 0


def ordinal_of(seen: Observation, member: Member) -> int | None:
    """The ordinal of the pod that a peer URL of the member names; None if it names no pod of
    ours."""
    return _ordinal_in(seen.cluster.name, seen.cluster.namespace, member.peer_urls)


@lru_cache(maxsize=8192)
def _ordinal_in(cluster: str, namespace: str, peer_urls: tuple[str, ...]) -> int | None:
    """Cached: one look at a cluster of seven calls this about 150 times, a fifth of its time.

    The Kubernetes cluster domain at the end of the host may be any. The namespace is compared: a
    member in another namespace can have the same pod name, for instance while somebody moves a
    cluster by adding members.
    """
    for url in peer_urls:
        host = naming.split_url(url)[1].partition(":")[0]
        name, _, place = host.lower().partition(".")
        ordinal = naming.ordinal_of(cluster, name)
        ours = f"{place}.".startswith(f"{naming.headless_service(cluster)}.{namespace}.svc.")
        if ordinal is not None and ordinal < naming.MAX_SIZE and (ours or not place):
            return ordinal
    return None


def member_at(seen: Observation, ordinal: int) -> Member | None:
    return next((seat.member for seat in seats(seen) if seat.ordinal == ordinal), None)


def listed_ordinals(seen: Observation) -> list[int]:
    """The ordinals that members on the member list use: those that peer URLs name, and those where
    a listed member runs although somebody has changed its peer URLs by hand."""
    listed = {member.member_id for member in seen.members}
    return [
        seat.ordinal
        for seat in seats(seen)
        if seat.member is not None or _id_at(seen, seat.ordinal) in listed
    ]


def unknown_members(seen: Observation) -> tuple[Member, ...]:
    """Members that belong to no ordinal, and all but one of those that claim the same ordinal."""
    known = {seat.member.member_id for seat in seats(seen) if seat.member}
    return tuple(member for member in seen.members if member.member_id not in known)


def home_of(seen: Observation, member: Member) -> Seat | None:
    """The seat at which an unknown member runs: one of ours whose peer URLs were changed by
    hand."""
    return next((one for one in seats(seen) if _id_at(seen, one.ordinal) == member.member_id), None)


def voters(seen: Observation) -> list[Seat]:
    """The seats of all voters, lowest ordinal first."""
    return [seat for seat in seats(seen) if seat.is_voter]


def seat_named(seen: Observation, name: str) -> Seat | None:
    """The seat of the pod with this name; None if the cluster has no such ordinal."""
    return next((seat for seat in seats(seen) if seat.name == name), None)


def learner(seen: Observation) -> Seat | None:
    """The one learner; etcd allows no second (I2)."""
    return next((seat for seat in seats(seen) if seat.is_learner), None)


def quorum(size: int) -> int:
    """How many voters of a cluster of this size are a majority."""
    return size // 2 + 1


def is_quorum(some: Sequence[Seat], of: Sequence[Seat]) -> bool:
    return len(some) >= quorum(len(of))


def keeps_quorum_without(seen: Observation, without: Seat) -> bool:
    """Whether the serving voters are still a quorum after this member is removed (I1)."""
    rest = [seat for seat in voters(seen) if seat.ordinal != without.ordinal]
    return bool(rest) and is_quorum([seat for seat in rest if counts(seen, seat)], rest)


def counts(seen: Observation, seat: Seat) -> bool:
    """Whether the member serves, and is of use to a quorum.

    If its disk hangs it is not: it answers from memory and names the leader that it had, and etcd
    itself takes it for healthy. But its probe reads with a quorum, and fails. Under CORRUPT the
    probe fails everywhere, and says nothing.
    """
    pod = seat.pod
    probed = seen.is_corrupt or pod is None or pod.ready or bool(pod.unready)
    return seat.serves and probed


def has_caught_up(seen: Observation, seat: Seat) -> bool:
    """Whether the member, by its own status, has applied nearly as much as the leader."""
    ahead = max((status.applied_index for status in seen.statuses.values()), default=0)
    return bool(seat.answers and seat.status and seat.status.applied_index >= CAUGHT_UP * ahead)


def had_ticket(seen: Observation, seat: Seat) -> bool:
    """Whether the member's one ticket went to an earlier run of `start` than the waiting one
    (I3)."""
    member, pod = seat.member, seat.pod
    if member is None or never_ticketed(seen, member, seat.record):
        return False
    run = recorded(seen).challenge(member.member_id)
    return run is None or not (pod and pod.answer and pod.answer.challenge == run)


def never_ticketed(seen: Observation, member: Member, held: MemberRecord | None) -> bool:
    """Whether it is certain that this member never got a ticket.

    For first members the ledger is complete, unless it is older (and a name proves nothing: etcd
    lists them by name from the beginning). A record rebuilt after the Secret was lost does not know
    older tickets. So for any other member, a name means that it has started once, and a claim that
    records it means that it got its ticket.
    """
    record = recorded(seen)
    if record.challenge(member.member_id) is not None:
        return False
    if any(first.member_id == member.member_id for first in record.members):
        return not is_ledger_older(seen)
    return not member.name and not (held and held.member_id == member.member_id)


def is_ledger_older(seen: Observation) -> bool:
    """Whether a first member has had a ticket that is not in the ledger: the Secret was put back
    from before. Then any of them may have had one."""
    record, first = recorded(seen), {one.member_id for one in recorded(seen).members}
    had = owning_volumes(seen) | {status.member_id for status in seen.statuses.values()}
    return any(record.challenge(member) is None for member in had & first)


def owning_volumes(seen: Observation) -> set[int]:
    """IDs of members that own a volume, by the records on claims and pods, or by what `start` said
    before it let etcd run."""
    held = [claim.record for claim in seen.claims] + [pod.record for pod in seen.pods]
    return {one.member_id for one in held if one} | {pod.ran_as for pod in seen.pods}


def lacks_pod(seen: Observation, seat: Seat) -> bool:
    """Whether the member of this seat has no pod. An ordinal without a member may get none for
    ever, for instance because of a quota, and nothing depends on it."""
    has_member = seat.record is not None if seen.etcd is None else seat.member is not None
    return seat.pod is None and seat.ordinal < seen.replicas and has_member


def lacks_pod_for(seen: Observation, seat: Seat, seconds: float) -> bool:
    """Whether the member of this seat has been without a pod for longer than this."""
    return lacks_pod(seen, seat) and seen.missing.get(seat.name, 0.0) > seconds
