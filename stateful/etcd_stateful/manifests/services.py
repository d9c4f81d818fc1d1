"""The two Services: the headless one for members, and one for clients."""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.common import Manifest, metadata

_CLIENT = {"name": "client", "port": naming.CLIENT_PORT, "targetPort": naming.CLIENT_PORT}
_PEER = {"name": "peer", "port": naming.PEER_PORT, "targetPort": naming.PEER_PORT}


def headless_service(cluster: EtcdCluster) -> Manifest:
    """Gives each pod a DNS name. Pods that are not ready are published too: members need each other
    to become ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(cluster, naming.headless_service(cluster.name)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": naming.selector(cluster.name),
            "ports": [_CLIENT, _PEER],
        },
    }


def client_service(cluster: EtcdCluster) -> Manifest:
    """The Service for clients. It sends them to ready pods only, so never to a learner."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(cluster, naming.client_service(cluster.name)),
        "spec": {
            "type": "ClusterIP",
            "selector": naming.selector(cluster.name),
            "ports": [_CLIENT],
        },
    }
