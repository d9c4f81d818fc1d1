"""What is noted on pods: on those that serve the member ID, and what etcd was started to trust.

etcd's logs, alarms and etcdctl name a member only by its ID, so each pod has that ID as a label.
The label also makes the pod ready sooner: when a pod changes, the kubelet runs its readiness probe
at once and not at the next period (1.36.3, `UpdatePodStatus` of its prober).

A kubelet that hears of a pod before the API server's node authorizer does is refused the pod's
claim, and tries again after 10 to 15 s (kubernetes/kubernetes#113429, #135175). A change of the pod
makes it try at once. A pod does not tell whether it has met that, or waits for a volume or an
image, so each that takes long to begin is changed, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful.api.tls import Trust
from etcd_stateful.identity import to_hex
from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.tls import trusted
from etcd_stateful.observed.pods import Pod


@dataclass(frozen=True, slots=True)
class Note:
    """The label with the member ID, and the annotation with what the pod's mounts do not tell."""

    member: str
    trust: Trust
    restarts: int


@dataclass(frozen=True, slots=True)
class Touch:
    """The annotation that wakes the pod's kubelet. It is written once."""


def touches(seen: Observation) -> list[tuple[Pod, Touch]]:
    """Pods that take long to begin on their node."""
    if seen.cluster.left_alone:
        return []
    return [(pod, Touch()) for pod in seen.pods if pod.idle and not pod.deleting]


def due(seen: Observation) -> list[tuple[Pod, Note]]:
    """Pods of serving voters whose note is missing or wrong, each with the note."""
    if seen.cluster.left_alone:
        return []
    return [
        (pod, note)
        for seat in roster.voters(seen)
        if seat.serves and (pod := seat.pod) and seat.member
        if (note := Note(to_hex(seat.member.member_id), trusted.noted(seen, pod), pod.restarts))
        != Note(pod.labelled, pod.noted_trust, pod.restarts)
    ]
