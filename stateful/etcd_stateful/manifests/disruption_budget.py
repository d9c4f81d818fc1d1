"""The PodDisruptionBudget: how many members must stay when others, such as a drain, evict pods."""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.common import Manifest, metadata


def disruption_budget(cluster: EtcdCluster, *, least: int) -> Manifest:
    """Counts pods that are Ready, and only a voter that hears a quorum is.

    `IfHealthyBudget`: while a quorum serves, one that does not may be evicted and holds up no
    drain. `AlwaysAllow` would let all be evicted at once in the moment in which none is Ready, as
    in every election.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(cluster, naming.disruption_budget(cluster.name)),
        "spec": {
            "minAvailable": least,
            "selector": {"matchLabels": naming.selector(cluster.name)},
            "unhealthyPodEvictionPolicy": "IfHealthyBudget",
        },
    }


def least_of(live: Manifest) -> int | None:
    """What a live budget asks for; None where it is no number of pods."""
    found = (live.get("spec") or {}).get("minAvailable")
    return found if isinstance(found, int) else None
