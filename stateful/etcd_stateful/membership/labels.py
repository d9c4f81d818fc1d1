"""What is written onto pods that serve: the member's ID, and whom etcd was started to trust.

etcd's logs, alarms and etcdctl name a member by its ID alone, so a pod bears it as a label. The
label makes the pod ready sooner as well: a kubelet looks at the readiness of a pod that is altered
at once, and not at the next tick of its probe (1.36.3, `UpdatePodStatus` of its prober).
"""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful.api.tls import Trust
from etcd_stateful.identity import to_hex
from etcd_stateful.membership import roster, trusted
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.pods import Pod


@dataclass(frozen=True, slots=True)
class Note:
    """What a pod bears: its member's ID as etcd names it, and the trust its mounts do not tell."""

    member: str
    trust: Trust


def due(seen: Observation) -> list[tuple[Pod, Note]]:
    """Pods whose voter serves and that do not say so yet, with what they are to say."""
    if seen.cluster.paused or seen.cluster.deleting:
        return []
    return [
        (pod, note)
        for seat in roster.voters(seen)
        if seat.serves and (pod := seat.pod) and seat.member
        if (note := Note(to_hex(seat.member.member_id), trusted.to_note(seen, pod)))
        != Note(pod.labelled, pod.noted_trust)
    ]
