"""Pods that the StatefulSet's controller could make by now, and does not.

It tries again what failed after a pause that doubles each time, from 5 ms to 1000 s (client-go's
rate limiter), and every event of another pod is one more try. What it was refused for may end
without any event that it hears: it does not watch claims (kubernetes/kubernetes#74374), nor quotas.
A write to the StatefulSet makes it try at once, however long its pause.
"""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.membership import children
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import Step, TouchStatefulSet


def wake(seen: Observation) -> Step | None:
    """Touches the StatefulSet, once its controller has been late for a while (`seen.stalled`)."""
    if not seen.stalled or seen.stateful_set is None or not children.may_touch(seen):
        return None
    metadata = seen.stateful_set["metadata"]
    name, pods = metadata["name"], ", ".join(missing(seen))
    reason = f"StatefulSet {name} is touched, so that its controller tries again to make {pods}"
    return TouchStatefulSet(name, metadata["uid"], reason)


def missing(seen: Observation) -> tuple[str, ...]:
    """Names of the pods that nothing known stands in the way of; for how long, the shell knows."""
    if seen.stateful_set is None or not seen.is_settled_revision:
        return ()
    return tuple(
        naming.pod(seen.cluster.name, ordinal)
        for ordinal in range(seen.replicas)
        if seen.pod(ordinal) is None and not _claim_ends(seen, ordinal)
    )


def _claim_ends(seen: Observation, ordinal: int) -> bool:
    """The controller makes no pod for a claim that is being deleted."""
    claim = seen.claim(ordinal)
    return claim is not None and claim.deleting
