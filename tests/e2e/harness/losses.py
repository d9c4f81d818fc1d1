"""Ways for a member to lose its data, or to be removed from the cluster."""

from __future__ import annotations

from harness.api import CLAIMS, PODS
from harness.clusters import Cluster
from harness.damage import break_log_head, volume_of
from harness.node import empty
from harness.waiting import eventually


def kill_pod(cluster: Cluster, ordinal: int) -> None:
    name = f"{cluster.name}-{ordinal}"
    cluster.kube.delete(PODS, cluster.namespace, name, gracePeriodSeconds=0)


def delete_claim(cluster: Cluster, ordinal: int) -> None:
    """The claim stays in Terminating as long as its pod runs, until the operator acts."""
    cluster.kube.delete(CLAIMS, cluster.namespace, f"data-{cluster.name}-{ordinal}")


def delete_claim_and_pod(cluster: Cluster, ordinal: int) -> None:
    delete_claim(cluster, ordinal)
    kill_pod(cluster, ordinal)


def empty_volume(cluster: Cluster, ordinal: int) -> None:
    empty(volume_of(cluster, ordinal))
    kill_pod(cluster, ordinal)


def damage_log(cluster: Cluster, ordinal: int) -> None:
    break_log_head(volume_of(cluster, ordinal))
    kill_pod(cluster, ordinal)


def remove_by_hand(cluster: Cluster, ordinal: int) -> None:
    """As `etcdctl member remove`: its data becomes useless, and its ordinal has no member.

    It is tried again, because etcd refuses it as `unhealthy cluster` until a member that was just
    added has been connected for 5 s, and a leader may stop before it has confirmed its own removal.
    """
    member = cluster.client.members().ids[f"{cluster.name}-{ordinal}"]

    def is_removed() -> bool:
        if member in cluster.client.members().ids.values():
            cluster.client.remove(member)
        return member not in cluster.client.members().ids.values()

    eventually("it is removed", is_removed, seconds=15)
