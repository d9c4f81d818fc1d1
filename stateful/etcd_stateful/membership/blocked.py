"""Pods that may not start, or wait in `start` and cannot get a ticket: what is wrong, and what the
user can do.

Except for `starts`, asked when there is no ticket to hand out.
"""

from __future__ import annotations

from collections.abc import Iterator

from etcd_stateful import naming
from etcd_stateful.membership.beginning.attempts import has_spent_ticket
from etcd_stateful.membership.beginning.tickets import may_adopt
from etcd_stateful.membership.epochs import survivor, volume_jobs
from etcd_stateful.membership.observation import Observation, is_latched, recorded
from etcd_stateful.membership.steps import DeletePod, Hold, Step, Wait
from etcd_stateful.membership.tls import certificates
from etcd_stateful.observed.pods import Pod
from etcd_stateful.start.ticket import Finding


def cannot_form(seen: Observation) -> Step | None:
    """Holds if too many volumes, but not all, were emptied before the operator saw a quorum.

    The others may hold writes of a quorum that it never saw, so no other attempt follows (I11).
    """
    bootstrap = recorded(seen)
    size = len(bootstrap.members)
    spent = [pod.name for pod in seen.pods if has_spent_ticket(seen, pod)]
    left = [pod.name for pod in seen.pods if pod.runs_etcd]
    if bootstrap.latched or not left or size - len(spent) > size // 2:
        return None
    what = "claims and pods" if seen.cluster.durable else "pods"
    return Hold(
        "QuorumLost",
        f"the volumes of {', '.join(spent)} are empty although their start tickets were used, and "
        f"too few members are left to form the cluster. {', '.join(left)} may hold data, so the "
        "operator does not start over by itself: to do so without that data, delete the "
        f"{what} of {', '.join(left)}",
    )


def starts(seen: Observation) -> Hold | None:
    """Holds if no pod may be started or restarted, by certificates that a user provides, or by a
    Job that might work on its volume."""
    return certificates.unusable(seen) or volume_jobs.not_deleted(seen)


def in_start(seen: Observation) -> Step | None:
    """Says why pods cannot get a ticket, and recreates a pod whose claim is being deleted."""
    steps = (
        _claim_missing(seen, pod) or _unusable_volume(seen, pod) for pod in _expected_pods(seen)
    )
    return next((step for step in steps if step), None)


def _expected_pods(seen: Observation) -> Iterator[Pod]:
    return (one for one in seen.pods if not one.deleting and one.ordinal < seen.replicas)


def _unusable_volume(seen: Observation, pod: Pod) -> Step | None:
    finding = pod.finding
    if finding and finding.found == "foreign-data" and not may_adopt(seen, pod, finding):
        return _foreign_data(seen, pod, finding)
    damage = finding.detail if finding and finding.found == "damaged" else pod.damage
    return _damaged(seen, pod, damage) if not pod.tried_again else None


def _damaged(seen: Observation, pod: Pod, damage: str) -> Step | None:
    if not damage or is_latched(seen):
        return None
    what = "its claim and the pod" if seen.cluster.durable else "the pod"
    return Hold(
        "DataDamaged",
        f"the data of pod {pod.name} is damaged ({damage}), and the cluster has not formed. "
        f"Repair the volume; or delete {what} to start over without that data",
    )


def restarted_etcd(seen: Observation) -> Step | None:
    """Asked late: etcd was restarted and may still come up, so it must not hold up anything
    else."""
    again = (pod for pod in _expected_pods(seen) if pod.tried_again)
    return next((step for pod in again if (step := _damaged(seen, pod, pod.damage))), None)


def unreadable_volume(seen: Observation) -> Step | None:
    """Asked after everything that needs the user: a volume may become readable again by itself."""
    for pod in _expected_pods(seen):
        if pod.finding and pod.finding.found == "unreadable":
            spared = seen.etcd is not None and seen.cluster.durable
            way = f". If that cannot be mended, {_giving_up(pod)}" if spared else ""
            return Wait(f"pod {pod.name}: its volume cannot be read: {pod.finding.detail}{way}")
    return None


def _claim_missing(seen: Observation, pod: Pod) -> Step | None:
    """Waits for a missing claim, or recreates the pod if its claim is being deleted. Only for a pod
    that has no data yet."""
    claim = seen.claim(pod.ordinal)
    empty = pod.answer is None or pod.answer.finding.found == "no-data"
    if pod.etcd_started or not empty or not seen.cluster.durable or (claim and not claim.deleting):
        return None
    name = naming.claim_of(pod.name)
    if claim is None:
        gone = f"pod {pod.name}: {pod.trouble}; its claim {name} does not exist"
        return Wait(gone if pod.trouble else f"claim {name} of pod {pod.name} to appear")
    reason = f"pod {pod.name} is recreated: it waits on claim {name}, which is being deleted"
    return DeletePod.of(seen, pod, reason)


def _foreign_data(seen: Observation, pod: Pod, finding: Finding) -> Hold:
    whose = finding.member or "an unknown member"
    uid = finding.cluster_uid
    of = f" of the cluster with UID {uid}" if uid not in {None, "", seen.cluster.uid} else ""
    return Hold(
        "ForeignData",
        f"the volume of pod {pod.name} holds data of {whose}{of}: {finding.detail}. etcd is not "
        f"started on it. {_ways_on(seen, pod, finding)}",
    )


def _ways_on(seen: Observation, pod: Pod, finding: Finding) -> str:
    record = recorded(seen)
    others = finding.cluster_uid not in {None, "", seen.cluster.uid}
    ours = not others and finding.cluster_id in (None, record.cluster_id)
    if ours and record.latched and (finding.epoch or 0) > record.epoch:
        return f"It belongs to a recovery that is no longer on record. {_without_record(seen, pod)}"
    if ours and record.latched and not finding.cluster_uid and seen.etcd is None:
        return survivor.ways_out(seen)  # a recovery's Job may have been at work on it
    adopted = finding.cluster_uid == seen.cluster.retained_claims.adopt
    ahead = finding.cluster_id == record.cluster_id and (finding.epoch or 0) > record.epoch
    if adopted and ahead and seen.etcd is None:
        return _of_unfinished_recovery(seen, pod, finding)
    ways = ["Give the pod its own volume back"]
    if others and not adopted and finding.cluster_id == record.cluster_id:
        ways.append(f'set spec.retainedClaims.adopt to "{finding.cluster_uid}"')
    if seen.etcd is not None and seen.cluster.durable:
        ways.append(_giving_up(pod))
    if not record.latched and seen.etcd is None:
        begin = f"delete claim {naming.claim_of(pod.name)} and the pod, to begin on another volume"
        ways.append(f"if nobody needs that data, {begin}")
    return ", or ".join(ways)


def _without_record(seen: Observation, pod: Pod) -> str:
    """Another recovery, unless the others are a quorum: then it would be declined."""
    if seen.etcd is None:
        return survivor.ways_out(seen)
    return f"A quorum answers: {_giving_up(pod)}"


def _giving_up(pod: Pod) -> str:
    claim = naming.claim_of(pod.name)
    return f"delete claim {claim} with its data, and a new member takes its place"


def _of_unfinished_recovery(seen: Observation, pod: Pod, finding: Finding) -> str:
    """The claim was to be recorded with the epoch of its volume when its cluster was deleted."""
    claim = naming.claim_of(pod.name)
    secret = naming.start_secret(seen.cluster.name)
    return (
        f"A recovery with {pod.name} was not over when its cluster was deleted. To go on with this "
        f"data, and lose what only others have, set annotation {naming.EPOCH} of claim {claim} to "
        f'"{finding.epoch}" and delete Secret {secret}: its record is then rebuilt with that epoch'
    )


def first_quorum(seen: Observation) -> Step | None:
    """Waits for the first linearizable answer, when every pod serves."""
    return None if is_latched(seen) else Wait("a quorum to answer for the first time")
