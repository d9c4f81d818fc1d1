"""How a member comes to lose its data, or its place: by machines, or by a human's hand."""

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
    """The pod stays, and holds it in Terminating until the operator acts."""
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
    """`etcdctl member remove`: its data is worthless, and its ordinal vacant.

    etcd says `unhealthy cluster` while a member that was added before is not connected for 5 s; and
    a leader that is removed may be gone before it has said so.
    """
    member = cluster.client.members().ids[f"{cluster.name}-{ordinal}"]

    def is_removed() -> bool:
        if member in cluster.client.members().ids.values():
            cluster.client.remove(member)
        return member not in cluster.client.members().ids.values()

    eventually("it is removed", is_removed, seconds=15)
