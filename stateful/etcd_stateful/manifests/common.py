"""What every object of a cluster carries."""

from __future__ import annotations

from typing import Any

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster

Manifest = dict[str, Any]


def metadata(cluster: EtcdCluster, name: str) -> Manifest:
    """Name, labels and the owner that garbage collection follows."""
    return {
        "name": name,
        "namespace": cluster.namespace,
        "labels": naming.labels(cluster.name),
        "ownerReferences": [owner_reference(cluster)],
    }


def owner_reference(cluster: EtcdCluster) -> Manifest:
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.CLUSTER_KIND,
        "name": cluster.name,
        "uid": cluster.uid,
        "controller": True,
    }
