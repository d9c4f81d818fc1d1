"""The PodDisruptionBudget: how many members must stay Ready during evictions, such as by a
drain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.common import Manifest, metadata


def disruption_budget(cluster: EtcdCluster, *, least: int) -> Manifest:
    """The budget. It counts Ready pods, and only a voter with a quorum is Ready.

    `IfHealthyBudget`: while a quorum serves, a pod that is not Ready may be evicted, so that it
    does not hold up a drain. `AlwaysAllow` would let all pods be evicted at once at a moment when
    none is Ready, as in every election.
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


def least_of(live: Mapping[str, Any]) -> int | None:
    """`minAvailable` of a live budget; None if it is not a number of pods."""
    found = (live.get("spec") or {}).get("minAvailable")
    return found if isinstance(found, int) else None
