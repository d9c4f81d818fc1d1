"""Pods that the StatefulSet controller could create by now, but does not.

After a failure the controller backs off, from 5 ms doubling up to 1000 s (client-go's rate
limiter); each event of another pod counts as one more retry. The cause may go away without an
event that the controller sees: it watches neither claims (kubernetes/kubernetes#74374) nor quotas.
A write to the StatefulSet makes it retry at once.
"""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.membership import put_off
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Step, TouchStatefulSet


def touch(seen: Observation) -> Step | None:
    """Touches the StatefulSet once pods have been missing for too long (`seen.stalled`)."""
    if not seen.stalled or seen.stateful_set is None:
        return None
    metadata = seen.stateful_set["metadata"]
    name, pods = metadata["name"], ", ".join(missing(seen))
    reason = f"StatefulSet {name} is touched, so that its controller retries creating {pods}"
    step = TouchStatefulSet(name, metadata["uid"], reason)
    return None if put_off.last_failure(seen, step) else step


def missing(seen: Observation) -> tuple[str, ...]:
    """Pods that are missing without a known cause. The shell tracks for how long."""
    if seen.stateful_set is None or not seen.is_settled_revision:
        return ()
    return tuple(
        naming.pod(seen.cluster.name, ordinal)
        for ordinal in range(seen.replicas)
        if seen.pod(ordinal) is None and not _is_claim_deleting(seen, ordinal)
    )


def _is_claim_deleting(seen: Observation, ordinal: int) -> bool:
    """The controller creates no pod while the pod's claim is being deleted."""
    claim = seen.claim(ordinal)
    return claim is not None and claim.deleting
