"""Whether an EtcdRestore is over, and whether it asks to replace a cluster, by the object itself.

The passes over the cluster ask this as well as those over the EtcdRestore.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful import stored_conditions
from etcd_stateful.api.restore import EtcdRestore, RefusedRestore, parse_restore
from etcd_stateful.backup.plan import DAY

GIVE_UP_SECONDS: Final = DAY
"""How long an EtcdRestore may be blocked for one reason before it fails."""


def is_over(body: Mapping[str, Any]) -> bool:
    """Whether it has succeeded, or has failed with the present spec."""
    said: Mapping[str, Any] = body.get("status") or {}
    if said.get("succeeded") is True:
        return True
    generation = body["metadata"].get("generation")
    return said.get("succeeded") is False and said.get("observedGeneration") == generation


def replacing(body: Mapping[str, Any] | None, waited: float = 0.0) -> EtcdRestore | None:
    """The EtcdRestore, if it asks to replace an existing cluster and is not over; else None.

    Args:
        waited: seconds since `Complete` took its reason.
    """
    if body is None or "deletionTimestamp" in body["metadata"] or is_over(body):
        return None
    if waited >= GIVE_UP_SECONDS and _is_told(body):
        return None
    try:
        restore = parse_restore(body)
    except RefusedRestore:
        return None
    return restore if restore.replaces is not None else None


def _is_told(body: Mapping[str, Any]) -> bool:
    """Whether `Complete` is about the present spec. If that was long ago, the restore is about to
    be given up, which must not depend on which object an operator looks at first."""
    generation = body["metadata"].get("generation")
    told = stored_conditions.find(body.get("status"), "Complete")
    return bool(told) and told.get("observedGeneration") == generation
