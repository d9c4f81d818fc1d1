"""Which pods are to be told which member serves in them.

etcd's logs, alarms and etcdctl name a member by its ID alone, so a pod bears it as a label. The
label makes the pod ready sooner as well: a kubelet looks at the readiness of a pod that is altered
at once, and not at the next tick of its probe (1.36.3, `UpdatePodStatus` of its prober).
"""

from __future__ import annotations

from etcd_stateful.identity import to_hex
from etcd_stateful.membership import roster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.pods import Pod


def due(seen: Observation) -> list[tuple[Pod, str]]:
    """Pods whose voter serves and whose label does not say so yet, with what it is to say."""
    if seen.cluster.paused or seen.cluster.deleting:
        return []
    return [
        (seat.pod, name)
        for seat in roster.voters(seen)
        if seat.serves and seat.pod and seat.member
        if seat.pod.labelled != (name := to_hex(seat.member.member_id))
    ]
