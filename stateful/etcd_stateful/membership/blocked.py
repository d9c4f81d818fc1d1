"""Pods that wait in `start` and can get no ticket, in words: what is wrong and what a human can do.

Asked when there is no ticket to hand out. Nothing here writes.
"""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.membership.bootstrap import (
    has_spent_ticket,
    is_latched,
    may_adopt,
    recorded,
)
from etcd_stateful.membership.observation import Observation, Pod
from etcd_stateful.membership.steps import Hold, Step, Wait
from etcd_stateful.ticket import Finding


def cannot_form(seen: Observation) -> Step | None:
    """Too many volumes were emptied before the first quorum was seen, and not all.

    What is left may hold writes of a quorum that was never seen, so no attempt follows (I11).
    """
    bootstrap = recorded(seen)
    size = len(bootstrap.members)
    spent = [pod.name for pod in seen.pods if has_spent_ticket(seen, pod)]
    left = [pod.name for pod in seen.pods if pod.etcd_started and not pod.in_start]
    if bootstrap.latched or not left or size - len(spent) > size // 2:
        return None
    what = "claims and pods" if seen.cluster.durable else "pods"
    return Hold(
        "QuorumLost",
        f"the volumes of {', '.join(spent)} are empty although they had their tickets, and too few "
        f"are left to form the cluster. {', '.join(left)} may hold data, so nothing begins anew by "
        f"itself: to begin without that data, delete the {what} of {', '.join(left)}",
    )


def starts(seen: Observation) -> Step | None:
    """Pods that wait in `start` and can get no ticket, in words."""
    for pod in seen.pods:
        waits = pod.in_start and not pod.deleting and pod.ordinal < seen.replicas
        if pod.answer is None or not waits:
            continue
        finding = pod.answer.finding
        if finding.found == "unreadable":
            return Wait(f"pod {pod.name}: its volume cannot be read: {finding.detail}")
        if finding.found == "foreign-data" and not may_adopt(seen, pod, finding):
            return _foreign_data(seen, pod, finding)
        if finding.found == "no-data" and (step := _empty(seen, pod)):
            return step
    return None


def _empty(seen: Observation, pod: Pod) -> Step | None:
    return _claim_missing(seen, pod) or (_lost_data(seen, pod) if is_latched(seen) else None)


def _claim_missing(seen: Observation, pod: Pod) -> Step | None:
    claim = seen.claim(pod.ordinal)
    if not seen.cluster.durable or (claim and not claim.deleting):
        return None
    name = naming.claim(seen.cluster.name, pod.ordinal)
    if claim is None:
        return Wait(f"claim {name} of pod {pod.name} to be seen")
    return Hold(
        "ClaimDeleted",
        f"claim {name} is being deleted and pod {pod.name} still holds it: delete the pod, and the "
        "StatefulSet makes both anew",
    )


def _foreign_data(seen: Observation, pod: Pod, finding: Finding) -> Hold:
    whose = finding.member or "an unknown member"
    of = f" of the cluster with UID {finding.cluster_uid}" if finding.cluster_uid else ""
    ways = "Give the pod its own volume back"
    others = finding.cluster_uid not in {None, "", seen.cluster.uid}
    if others and finding.cluster_id == recorded(seen).cluster_id:
        ways += f', or set spec.retainedClaims.adopt to "{finding.cluster_uid}"'
    return Hold(
        "ForeignData",
        f"the volume of pod {pod.name} holds data of {whose}{of}: {finding.detail}. It is not "
        f"started. {ways}",
    )


def _lost_data(seen: Observation, pod: Pod) -> Step:
    first = recorded(seen).member(pod.name)
    unused = first is not None and recorded(seen).challenge(first.member_id) is None
    if unused and seen.etcd is None:
        return Wait(f"a quorum to answer, so that pod {pod.name} can join it")
    if seen.etcd is None:
        return Hold(
            "QuorumLost",
            f"the volume of pod {pod.name} is empty and no quorum answers. Nothing is replaced "
            "without a quorum; bring the other members back",
        )
    return Hold(
        "MemberLost",
        f"the volume of pod {pod.name} is empty, and its member "
        f"{'is not on the member list' if unused else 'had its ticket before'}: it is not "
        "started. This version of the operator cannot replace a member yet",
    )


def unformed(seen: Observation) -> Step | None:
    return None if is_latched(seen) else Wait("a quorum to answer for the first time")
