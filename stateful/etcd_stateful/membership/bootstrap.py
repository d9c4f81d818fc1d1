"""How a cluster begins: one record of what it is meant to be, one ticket for each first member.

Nothing starts that was not written down before. `new` tickets exist only for ordinals of the record
that never had one, and only until the latch; an attempt that can no longer form a cluster, because
every one of its volumes is still or again empty, is followed by another with its own token.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful import naming
from etcd_stateful.manifests.statefulset import FIRST_EPOCH
from etcd_stateful.membership import identity, records
from etcd_stateful.membership.observation import Observation, Pod
from etcd_stateful.membership.records import Bootstrap, FirstMember, MemberRecord
from etcd_stateful.membership.steps import (
    CreateSecret,
    Hold,
    PushTicket,
    RecordMember,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.ticket import ClusterState, Finding, Ticket

GATHERING_SECONDS: Final = 10.0
"""How long first tickets wait for the slowest pod. Members that start together resolve each other's
names at the first try; a name that is asked for too early is denied for as long as DNS caches."""


def is_latched(seen: Observation) -> bool:
    return bool(seen.secret and seen.secret.bootstrap and seen.secret.bootstrap.latched)


def secret(seen: Observation) -> Step | None:
    """The Secret with key and record, before anything that needs it."""
    name = naming.start_secret(seen.cluster.name)
    if seen.secret is None:
        return _begin(seen, name)
    record = seen.secret.bootstrap
    if seen.secret.damage or record is None:
        return Hold("SecretDamaged", f"Secret {name}: {seen.secret.damage or 'no record'}")
    if record.cluster_uid != seen.cluster.uid:
        return Hold(
            "SecretOfAnotherCluster",
            f"Secret {name} was written for a cluster with UID {record.cluster_uid}; delete it",
        )
    return None


def _begin(seen: Observation, name: str) -> Step:
    """A record from what is left of an older one, or a first attempt where nothing is.

    A lost Secret never leads to an empty cluster (I11): what the claims or the status remember of a
    cluster ID counts as formed.
    """
    known = _remembered(seen)
    if len(known) > 1:
        ids = ", ".join(identity.to_hex(cluster) for cluster in sorted(known))
        return Hold("SplitBrain", f"the claims belong to different etcd clusters: {ids}")
    if known:
        record = records.adopted(seen.cluster.uid, known.pop())
        return CreateSecret(name, record, "a cluster that exists is taken on with a new key")
    record = records.first_attempt(seen.cluster.uid, _first_peers(seen))
    return CreateSecret(name, record, f"a cluster of {len(record.members)} begins")


def _remembered(seen: Observation) -> set[int]:
    held = {claim.record.cluster_id for claim in seen.claims if claim.record}
    held |= {pod.record.cluster_id for pod in seen.pods if pod.record}
    held |= {seen.etcd.cluster_id} if seen.etcd else set()
    return held or ({seen.last_cluster_id} if seen.last_cluster_id is not None else set())


def _first_peers(seen: Observation) -> dict[str, str]:
    cluster = seen.cluster
    return {
        naming.pod(cluster.name, ordinal): cluster.peer_url(ordinal)
        for ordinal in range(cluster.size)
    }


def latch(seen: Observation) -> Step | None:
    """Writes down that the cluster has formed, once a linearizable answer proves it."""
    record = _record(seen)
    if seen.etcd is None:
        return None
    if seen.etcd.cluster_id != record.cluster_id:
        return Hold(
            "SplitBrain",
            f"etcd answers with cluster ID {identity.to_hex(seen.etcd.cluster_id)}, the record "
            f"says {identity.to_hex(record.cluster_id)}. Nothing is touched",
        )
    if record.latched:
        return None
    return _write(seen, records.latch(record), "the cluster has formed; clients are let in")


def tickets(seen: Observation) -> Step | None:
    """The next write that brings a waiting pod nearer to its ticket: ledger, claim, push."""
    waiting = [pod for pod in seen.pods if pod.answer and pod.in_start and not pod.deleting]
    if not waiting or (not is_latched(seen) and _gathering(seen)):
        return None
    if fresh := {first.member_id: run for pod in waiting for first, run in _entitled(seen, pod)}:
        names = ", ".join(pod.name for pod in waiting if _entitled(seen, pod))
        return _write(seen, records.issue(_record(seen), fresh), f"tickets are due to {names}")
    return next((step for pod in waiting if (step := _ticket(seen, pod))), None)


def _entitled(seen: Observation, pod: Pod) -> list[tuple[FirstMember, str]]:
    """The first member whose ticket this run may have, if that member never had one."""
    first = _record(seen).member(pod.name)
    if first is None or not _waits_empty(pod) or pod.answer is None:
        return []
    if _record(seen).challenge(first.member_id) is not None or not _startable(seen, pod, first):
        return []
    return [(first, pod.answer.challenge)]


def _startable(seen: Observation, pod: Pod, first: FirstMember) -> bool:
    """Whether a ticket could be written now: a claim to record, and after the latch a place."""
    if seen.cluster.durable:
        claim = seen.claim(pod.ordinal)
        if claim is None or claim.deleting or claim.damage:
            return False
    return not is_latched(seen) or _is_listed(seen, first)


def _is_listed(seen: Observation, first: FirstMember) -> bool:
    listed = seen.etcd.members if seen.etcd else ()
    return any(member.member_id == first.member_id for member in listed)


def _gathering(seen: Observation) -> bool:
    """Whether first tickets should still wait for pods that are on their way."""
    if any(pod.etcd_started for pod in seen.pods):
        return False
    expected = [seen.pod(ordinal) for ordinal in range(len(_record(seen).members))]
    if any(pod and pod.age > GATHERING_SECONDS for pod in expected):
        return False
    return any(pod is None or (pod.answer is None and not pod.trouble) for pod in expected)


def _ticket(seen: Observation, pod: Pod) -> Step | None:
    answer = pod.answer
    if answer is None:
        return None
    if _waits_empty(pod):
        return _ticket_for_empty(seen, pod, answer.challenge)
    if not _may_adopt(seen, pod, answer.finding):
        return None
    record = _member_record(seen, pod)
    return _record_then_push(
        seen, pod, answer.challenge, record.member_id if record else 0, "adopt", ""
    )


def _ticket_for_empty(seen: Observation, pod: Pod, challenge: str) -> Step | None:
    """The member's one ticket, to the one run that the ledger names."""
    bootstrap = _record(seen)
    first = bootstrap.member(pod.name)
    if first is None or bootstrap.challenge(first.member_id) != challenge:
        return None
    if not _startable(seen, pod, first):
        return None
    state: ClusterState = "existing" if bootstrap.latched else "new"
    initial = _initial_now(seen) if bootstrap.latched else bootstrap.initial_cluster
    return _record_then_push(seen, pod, challenge, first.member_id, state, initial)


def _initial_now(seen: Observation) -> str:
    """The member list in etcd's form; first members that never started have no name on it yet."""
    names = {member.member_id: member.name for member in _record(seen).members}
    return ",".join(
        f"{member.name or names.get(member.member_id, '')}={url}"
        for member in (seen.etcd.members if seen.etcd else ())
        for url in member.peer_urls
    )


def _record_then_push(
    seen: Observation,
    pod: Pod,
    challenge: str,
    member_id: int,
    state: ClusterState,
    initial_cluster: str,
) -> Step | None:
    bootstrap = _record(seen)
    record = MemberRecord(
        cluster_uid=seen.cluster.uid,
        claim_uid=_claim_uid(seen, pod),
        member_id=member_id,
        cluster_id=bootstrap.cluster_id,
    )
    if _member_record(seen, pod) != record:
        return _record_step(seen, pod, record)
    ticket = Ticket(
        challenge=challenge,
        cluster_uid=seen.cluster.uid,
        epoch=FIRST_EPOCH,
        member=pod.name,
        member_id=member_id,
        cluster_id=bootstrap.cluster_id,
        state=state,
        initial_cluster=initial_cluster,
        token=bootstrap.token,
    )
    return PushTicket(pod.name, pod.uid, pod.address, ticket, f"{pod.name} may start ({state})")


def _record_step(seen: Observation, pod: Pod, record: MemberRecord) -> Step | None:
    member = identity.to_hex(record.member_id)
    if not seen.cluster.durable:
        return RecordMember(
            "Pod",
            pod.name,
            pod.uid,
            pod.resource_version,
            record,
            f"pod {pod.name} is recorded as member {member}",
        )
    claim = seen.claim(pod.ordinal)
    if claim is None or claim.deleting:
        return None
    return RecordMember(
        "PersistentVolumeClaim",
        claim.name,
        claim.uid,
        claim.resource_version,
        record,
        f"claim {claim.name} is recorded as member {member}",
    )


def another_attempt(seen: Observation) -> Step | None:
    """A new attempt once every ordinal waits with an empty volume and one cannot be served."""
    bootstrap = _record(seen)
    if bootstrap.latched or not bootstrap.members:
        return None
    pods = [seen.pod(ordinal) for ordinal in range(len(bootstrap.members))]
    if not all(pod and _waits_empty(pod) for pod in pods) or seen.etcd is not None:
        return None
    following = records.next_attempt(bootstrap, _first_peers(seen))
    return _write(seen, following, f"attempt {bootstrap.attempt} left only empty volumes")


def _waits_empty(pod: Pod) -> bool:
    return bool(
        pod.in_start and not pod.deleting and pod.answer and pod.answer.finding.found == "no-data"
    )


def blocked_starts(seen: Observation) -> Step | None:
    """Pods that wait in `start` and can get no ticket, in words."""
    for pod in seen.pods:
        if pod.answer is None or not pod.in_start or pod.deleting:
            continue
        finding = pod.answer.finding
        if finding.found == "unreadable":
            return Wait(f"pod {pod.name}: its volume cannot be read: {finding.detail}")
        if finding.found == "foreign-data" and not _may_adopt(seen, pod, finding):
            return _foreign_data(pod, finding)
        if finding.found == "no-data" and is_latched(seen):
            return _lost_data(seen, pod)
    return None


def _foreign_data(pod: Pod, finding: Finding) -> Hold:
    whose = finding.member or "an unknown member"
    of = f" of the cluster with UID {finding.cluster_uid}" if finding.cluster_uid else ""
    return Hold(
        "ForeignData",
        f"the volume of pod {pod.name} holds data of {whose}{of}: {finding.detail}. It is not "
        "started. Give the pod its own volume back, or set spec.retainedClaims.adopt to that UID "
        "if all of that cluster's volumes are here",
    )


def _lost_data(seen: Observation, pod: Pod) -> Step:
    if seen.etcd is None:
        return Hold(
            "QuorumLost",
            f"the volume of pod {pod.name} is empty and no quorum answers. Nothing is replaced "
            "without a quorum; bring the other members back",
        )
    return Hold(
        "MemberLost",
        f"the volume of pod {pod.name} is empty although its member has had data: it is not "
        "started. This version of the operator cannot replace a member yet",
    )


def formed(seen: Observation) -> Step | None:
    return None if is_latched(seen) else Wait("a quorum to answer for the first time")


def _may_adopt(seen: Observation, pod: Pod, finding: Finding) -> bool:
    """The human named that cluster, it is the latched one, and the claim agrees with the log."""
    held = _member_record(seen, pod)
    return bool(
        finding.found == "foreign-data"
        and finding.cluster_uid
        and finding.cluster_uid == seen.cluster.retained_claims.adopt
        and is_latched(seen)
        and finding.cluster_id == _record(seen).cluster_id
        and finding.member == pod.name
        and held
        and held.member_id == finding.member_id
    )


def _member_record(seen: Observation, pod: Pod) -> MemberRecord | None:
    if not seen.cluster.durable:
        return pod.record
    claim = seen.claim(pod.ordinal)
    return claim.record if claim else None


def _claim_uid(seen: Observation, pod: Pod) -> str:
    claim = seen.claim(pod.ordinal)
    return claim.uid if claim and seen.cluster.durable else pod.uid


def _write(seen: Observation, record: Bootstrap, reason: str) -> Step:
    version = seen.secret.resource_version if seen.secret else ""
    return WriteBootstrap(naming.start_secret(seen.cluster.name), version, record, reason)


def _record(seen: Observation) -> Bootstrap:
    """The bootstrap record; `secret` has made sure that there is one."""
    if seen.secret is None or seen.secret.bootstrap is None:
        raise LookupError("the bootstrap record is asked for before the Secret is there")
    return seen.secret.bootstrap
