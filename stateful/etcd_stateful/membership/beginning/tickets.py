"""Start tickets: one for each member ID, for the one run of `start` that the ledger names (I3).

    ledger (WriteBootstrap) -> the member's claim (RecordMember) -> the pod (PushTicket)

A `new` ticket is only for a first member that never had one, and only until the latch (I4). If the
operator dies between two of these writes, its successor continues with the next one.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful import identity, naming
from etcd_stateful.membership import put_off, roster
from etcd_stateful.membership.beginning import ledger
from etcd_stateful.membership.beginning.bootstrap import is_of_past_epoch
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.rolling import version_first
from etcd_stateful.membership.steps import PushTicket, RecordMember, Step, WriteBootstrap
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.objects import Claim
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.member import MemberRecord, member_record
from etcd_stateful.start.ticket import ClusterState, Finding, Ticket

GATHERING_SECONDS: Final = 10.0
"""How long the first tickets wait for the slowest pod. Members that start together resolve each
other's names at once; a name that is looked up too early stays unknown for as long as DNS caches
the negative answer."""


def hand_out(seen: Observation) -> Step | None:
    """The next write that brings a waiting pod nearer to its ticket."""
    waiting = [pod for pod in seen.pods if pod.finding and not is_of_past_epoch(seen, pod)]
    if not waiting or (not is_latched(seen) and _awaits_first_pods(seen)):
        return None
    if fresh := {member: run for pod in waiting for member, run in _entitled(seen, pod)}:
        names = ", ".join(pod.name for pod in waiting if _entitled(seen, pod))
        reason = f"start tickets are entered in the ledger for {names}"
        kept = ledger.pruned(seen)
        forgets = kept != recorded(seen)
        return WriteBootstrap.of(seen, records.issue(kept, fresh), reason, final=forgets)
    due = [step for pod in waiting if (step := _ticket(seen, pod))]
    # A pod may just have refused its ticket, for instance because its volume cannot be written, or
    # the API server the record. That must keep neither other pods from theirs, nor anything else.
    steps = [step for step in due if not put_off.last_failure(seen, step)]
    # All claims first: once etcd runs in one pod, every pass takes longer, as it queries that etcd.
    return min(steps, key=lambda step: isinstance(step, PushTicket), default=None)


def _entitled(seen: Observation, pod: Pod) -> list[tuple[int, str]]:
    """The pod's member ID and this run of `start`, if the member never had a ticket; else empty."""
    member_id = _member_of(seen, pod)
    if not member_id or not pod.volume_is_empty or pod.answer is None or not _recordable(seen, pod):
        return []
    if recorded(seen).challenge(member_id) is not None or _had_lost_ticket(seen, pod):
        return []
    first = recorded(seen).member(pod.name)
    if first and first.member_id == member_id and not _matches_attempt(seen, pod):
        return []
    return [(member_id, pod.answer.challenge)]


def _matches_attempt(seen: Observation, pod: Pod) -> bool:
    """Whether the pod has the version and the links of the present attempt, which may have begun
    while the pod was waiting. Otherwise `roll` recreates the pod."""
    return pod.spec_hash == version_first.template_hash(seen)


def _member_of(seen: Observation, pod: Pod) -> int:
    """The ID of the pod's member: from the record before the latch, from the list after it."""
    if not is_latched(seen):
        first = recorded(seen).member(pod.name)
        return first.member_id if first else 0
    member = roster.member_at(seen, pod.ordinal)
    return member.member_id if member else 0


def _had_lost_ticket(seen: Observation, pod: Pod) -> bool:
    """Whether the member may have had a ticket that is missing from the ledger, because the Secret
    was lost and rebuilt, or put back from before."""
    if not is_latched(seen):
        return roster.is_ledger_older(seen)
    member = roster.member_at(seen, pod.ordinal)
    return bool(member and not roster.never_ticketed(seen, member, _member_record(seen, pod)))


def _recordable(seen: Observation, pod: Pod) -> bool:
    """Whether there is a claim or pod that the member record can be written on."""
    if not seen.cluster.durable:
        return True
    claim = seen.claim(pod.ordinal)
    return claim is not None and not claim.deleting and not claim.damage


def _awaits_first_pods(seen: Observation) -> bool:
    """Whether the first tickets should wait for pods that have yet to start.

    Not once a ticket is in the ledger: a pod that took its ticket no longer answers, and it would
    look like a missing one.
    """
    record = recorded(seen)
    if any(record.challenge(first.member_id) is not None for first in record.members):
        return False
    expected = [seen.pod(ordinal) for ordinal in range(len(record.members))]
    if any(pod and pod.age > GATHERING_SECONDS for pod in expected):
        return False
    return any(pod is None or (pod.answer is None and not pod.is_stuck) for pod in expected)


def _ticket(seen: Observation, pod: Pod) -> Step | None:
    answer = pod.answer
    if answer is None:
        return None
    if pod.volume_is_empty:
        return _ticket_for_empty(seen, pod, answer.challenge)
    if not may_adopt(seen, pod, answer.finding):
        return None
    record = _member_record(seen, pod)
    return _record_then_push(
        seen,
        pod,
        challenge=answer.challenge,
        member_id=record.member_id if record else 0,
        state="adopt",
        initial_cluster="",
    )


def _ticket_for_empty(seen: Observation, pod: Pod, challenge: str) -> Step | None:
    """The member's one ticket, to the one run that the ledger names."""
    bootstrap, member_id = recorded(seen), _member_of(seen, pod)
    if not member_id or bootstrap.challenge(member_id) != challenge or not _recordable(seen, pod):
        return None
    state: ClusterState = "existing" if bootstrap.latched else "new"
    initial = _listed_cluster(seen) if bootstrap.latched else bootstrap.initial_cluster
    return _record_then_push(
        seen,
        pod,
        challenge=challenge,
        member_id=member_id,
        state=state,
        initial_cluster=initial,
    )


def _listed_cluster(seen: Observation) -> str:
    """The member list as `initial-cluster`. A member that has not started has no name on the list,
    so it gets the name of its pod."""
    return ",".join(
        f"{member.name or _name_of(seen, member)}={url}"
        for member in seen.members
        for url in member.peer_urls
    )


def _name_of(seen: Observation, member: Member) -> str:
    ordinal = roster.ordinal_of(seen, member)
    return naming.pod(seen.cluster.name, ordinal) if ordinal is not None else "unknown"


def _record_then_push(
    seen: Observation,
    pod: Pod,
    *,
    challenge: str,
    member_id: int,
    state: ClusterState,
    initial_cluster: str,
) -> Step | None:
    bootstrap, holder = recorded(seen), _holder(seen, pod)
    if holder is None:
        return None
    record = member_record(bootstrap, member_id, holder.uid)
    if holder.record != record:
        return _record_step(holder, record)
    ticket = Ticket(
        challenge=challenge,
        cluster_uid=seen.cluster.uid,
        epoch=bootstrap.epoch,
        member=pod.name,
        member_id=member_id,
        cluster_id=bootstrap.cluster_id,
        state=state,
        initial_cluster=initial_cluster,
        token=bootstrap.token,
    )
    return PushTicket(pod.name, pod.uid, pod.address, ticket, f"{pod.name} may start ({state})")


def _record_step(holder: Claim | Pod, record: MemberRecord) -> Step | None:
    if holder.deleting:
        return None
    kind = "pod" if isinstance(holder, Pod) else "claim"
    words = f"{kind} {holder.name} is recorded as member {identity.to_hex(record.member_id)}"
    return RecordMember.of(holder, record, words)


def may_adopt(seen: Observation, pod: Pod, finding: Finding) -> bool:
    """Whether `spec.retainedClaims.adopt` names the cluster that the data belongs to, that is the
    latched one, and the claim's record agrees with the log."""
    held = _member_record(seen, pod)
    return bool(
        finding.found == "foreign-data"
        and finding.cluster_uid
        and finding.cluster_uid == seen.cluster.retained_claims.adopt
        and is_latched(seen)
        and finding.cluster_id == recorded(seen).cluster_id
        and finding.member == pod.name
        and held
        and held.member_id == finding.member_id
        and held.epoch == finding.epoch == recorded(seen).epoch
    )


def _member_record(seen: Observation, pod: Pod) -> MemberRecord | None:
    holder = _holder(seen, pod)
    return holder.record if holder else None


def _holder(seen: Observation, pod: Pod) -> Claim | Pod | None:
    """What the member record is written on: the claim, or with an emptyDir the pod. None if there
    is no claim."""
    return seen.claim(pod.ordinal) if seen.cluster.durable else pod
