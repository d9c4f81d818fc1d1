"""The metadata that all owned objects have in common."""

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
        "ownerReferences": [owner_reference(naming.CLUSTER_KIND, cluster.name, cluster.uid)],
    }


def without_empty(spec: Manifest) -> Manifest:
    """The fields that are set: an empty one is left out, but false is a value."""
    return {key: value for key, value in spec.items() if value or value is False}


def owner_reference(kind: str, name: str, uid: str) -> Manifest:
    """An owner reference to one of our custom resources."""
    return {
        "apiVersion": naming.API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }
