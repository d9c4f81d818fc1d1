"""How a cluster begins: one record of what it is meant to be, one ticket for each first member.

Nothing starts that was not written down before. `new` tickets exist only for ordinals of the record
that never had one, and only until the latch; an attempt that can no longer form a cluster, because
every one of its volumes is still or again empty, is followed by another with its own token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful import identity, naming, records
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership import ledger, origin, remembered, roster
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import (
    CreateSecret,
    Hold,
    PushTicket,
    RecordMember,
    Step,
    WriteBootstrap,
)
from etcd_stateful.observed.members import Member
from etcd_stateful.observed.pods import Pod
from etcd_stateful.records import MemberRecord
from etcd_stateful.ticket import ClusterState, Finding, Ticket
from etcd_stateful.versions import Version, parse_version

GATHERING_SECONDS: Final = 10.0
"""How long first tickets wait for the slowest pod. Members that start together resolve each other's
names at the first try; a name that is asked for too early is denied for as long as DNS caches."""


def secret(seen: Observation) -> Step | None:
    """The Secret with key and record, before anything that needs it."""
    name = naming.start_secret(seen.cluster.name)
    if seen.secret is None:
        return _begin(seen, name)
    record = seen.secret.bootstrap
    if seen.secret.newer:
        return Hold(
            "SecretDamaged",
            f"Secret {name}: {seen.secret.damage}. Install that newer one again, and do not delete "
            "the Secret: what is written there would be lost",
        )
    if seen.secret.damage or record is None:
        return Hold(
            "SecretDamaged",
            f"Secret {name}: {seen.secret.damage or 'no record'}. Put back what it held, or delete "
            "it: the cluster is then taken on as its claims say",
        )
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
    known, version = remembered.cluster_ids(seen), str(running_version(seen))
    if len(known) > 1:
        return Hold(
            "SplitBrain",
            f"Secret {name} is gone, and what is left is of different etcd clusters: "
            f"{remembered.in_words(seen)}. Nothing is touched. Find out which data is right, and "
            "put its cluster ID into status.clusterID; no etcd may answer with another by then",
        )
    if known:
        record = remembered.record(seen, known.pop())
        return CreateSecret(name, record, "a cluster that exists is taken on with a new key")
    if running := next((pod.name for pod in seen.pods if pod.etcd_started), None):
        return Hold(
            "RecordsLost",
            f"etcd has started in pod {running}, and Secret {name}, the records on the claims and "
            "status.clusterID are all gone: nothing says which cluster this is, so nothing is "
            "started. Put etcd's cluster ID into status.clusterID, in hexadecimal",
        )
    cluster, size = seen.cluster, seen.cluster.size
    if cluster.restore is not None:
        return origin.begin(seen, cluster.restore, version)
    peers, links = first_peers(cluster, size), cluster.links
    record = records.first_attempt(cluster.uid, peers, version, links=links)
    return CreateSecret(name, record, f"a cluster of {size} begins")


def running_version(seen: Observation) -> Version:
    """What pods run or would run next; only a version change, step by step, may move it (I9)."""
    record = seen.bootstrap
    noted = parse_version(record.version) if record else None
    live = version_of(seen.stateful_set) if seen.stateful_set else None
    return noted or live or seen.cluster.version


def as_running(seen: Observation) -> EtcdCluster:
    """What is declared, with the version that pods run or would run next."""
    return replace(seen.cluster, version=running_version(seen))


def first_peers(cluster: EtcdCluster, size: int) -> dict[str, str]:
    return {naming.pod(cluster.name, ordinal): cluster.peer_url(ordinal) for ordinal in range(size)}


def one_cluster(seen: Observation) -> Step | None:
    """Holds where two clusters answer: any step would be done to one as if it were both."""
    record = recorded(seen)
    if others := remembered.answering(seen) - {record.cluster_id}:
        ids = ", ".join(identity.to_hex(other) for other in sorted(others))
        names = ", ".join(remembered.pods_that_answer_with(seen, others))
        where = f" in pods {names}" if names else ""
        return Hold(
            "SplitBrain",
            f"etcd answers with cluster ID {ids}{where}, the record says "
            f"{identity.to_hex(record.cluster_id)}. Nothing is touched until they agree",
        )
    return None


def latch(seen: Observation) -> Step | None:
    """Writes down that the cluster has formed, once a linearizable answer proves it."""
    record = recorded(seen)
    if seen.etcd is None or record.latched:
        return None
    reason = "the cluster has formed; clients are let in"
    return WriteBootstrap.of(seen, records.latch(record), reason)


def tickets(seen: Observation) -> Step | None:
    """The next write that brings a waiting pod nearer to its ticket: ledger, claim, push."""
    waiting = [pod for pod in seen.pods if pod.finding and not is_of_before(seen, pod)]
    if not waiting or (not is_latched(seen) and _gathering(seen)):
        return None
    if fresh := {member: run for pod in waiting for member, run in _entitled(seen, pod)}:
        names = ", ".join(pod.name for pod in waiting if _entitled(seen, pod))
        reason = f"tickets are due to {names}"
        kept = ledger.kept(seen)
        forgets = kept != recorded(seen)
        return WriteBootstrap.of(seen, records.issue(kept, fresh), reason, final=forgets)
    steps = [step for pod in waiting if (step := _ticket(seen, pod))]
    # Every claim first: once etcd runs in one pod, each pass waits for what it has to say.
    return min(steps, key=lambda step: isinstance(step, PushTicket), default=None)


def _entitled(seen: Observation, pod: Pod) -> list[tuple[int, str]]:
    """The member whose ticket this run may have, if that member never had one; else nothing."""
    member_id = _member_of(seen, pod)
    if not member_id or not pod.waits_empty or pod.answer is None or not _recordable(seen, pod):
        return []
    if recorded(seen).challenge(member_id) is not None or _was_given(seen, pod):
        return []
    first = recorded(seen).member(pod.name)
    if first and first.member_id == member_id and not _is_as_meant(seen, pod):
        return []
    return [(member_id, pod.answer.challenge)]


def _is_as_meant(seen: Observation, pod: Pod) -> bool:
    """Whether the pod has the version and the links of its attempt. One that has not is made again
    (`roll`): an attempt may be followed by another while pods wait."""
    return pod.spec_hash == as_running(seen).template_hash


def _member_of(seen: Observation, pod: Pod) -> int:
    """The member that the pod should be: of the record before the latch, of the list after it."""
    if not is_latched(seen):
        first = recorded(seen).member(pod.name)
        return first.member_id if first else 0
    member = roster.at(seen, pod.ordinal)
    return member.member_id if member else 0


def _was_given(seen: Observation, pod: Pod) -> bool:
    """A ticket that the ledger does not know of, as the ledger itself was lost."""
    member = roster.at(seen, pod.ordinal) if is_latched(seen) else None
    return bool(member and not roster.never_ticketed(seen, member, _member_record(seen, pod)))


def _recordable(seen: Observation, pod: Pod) -> bool:
    """Whether there is something to write the member record on."""
    if not seen.cluster.durable:
        return True
    claim = seen.claim(pod.ordinal)
    return claim is not None and not claim.deleting and not claim.damage


def _gathering(seen: Observation) -> bool:
    """Whether first tickets should still wait for pods that are on their way.

    Not once one is in the ledger: whoever took its ticket answers no more, and is not missing.
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
    if pod.waits_empty:
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
    initial = _initial_now(seen) if bootstrap.latched else bootstrap.initial_cluster
    return _record_then_push(
        seen,
        pod,
        challenge=challenge,
        member_id=member_id,
        state=state,
        initial_cluster=initial,
    )


def _initial_now(seen: Observation) -> str:
    """The member list in etcd's form; one that was added and has not started has no name yet."""
    return ",".join(
        f"{member.name or _name_of(seen, member)}={url}"
        for member in (seen.etcd.members if seen.etcd else ())
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
    bootstrap = recorded(seen)
    record = MemberRecord(
        cluster_uid=seen.cluster.uid,
        claim_uid=_claim_uid(seen, pod),
        member_id=member_id,
        cluster_id=bootstrap.cluster_id,
        epoch=bootstrap.epoch,
        peer_scheme=seen.cluster.links.levels.peer_scheme,
    )
    if _member_record(seen, pod) != record:
        return _record_step(seen, pod, record)
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


def _record_step(seen: Observation, pod: Pod, record: MemberRecord) -> Step | None:
    member = identity.to_hex(record.member_id)
    if not seen.cluster.durable:
        return RecordMember.of(pod, record, f"pod {pod.name} is recorded as member {member}")
    claim = seen.claim(pod.ordinal)
    if claim is None or claim.deleting:
        return None
    return RecordMember.of(claim, record, f"claim {claim.name} is recorded as member {member}")


def is_of_before(seen: Observation, pod: Pod) -> bool:
    """Made for an epoch that a recovery or a restore has ended: no volume or ticket suits it."""
    return pod.epoch is not None and pod.epoch < recorded(seen).epoch


def may_adopt(seen: Observation, pod: Pod, finding: Finding) -> bool:
    """The human named that cluster, it is the latched one, and the claim agrees with the log."""
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
    if not seen.cluster.durable:
        return pod.record
    claim = seen.claim(pod.ordinal)
    return claim.record if claim else None


def _claim_uid(seen: Observation, pod: Pod) -> str:
    claim = seen.claim(pod.ordinal)
    return claim.uid if claim and seen.cluster.durable else pod.uid
