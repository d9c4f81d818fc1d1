"""The NetworkPolicy: who may reach which port of the members.

    2380, peers         members
    2378, start ticket  the operator
    2379, clients       members, the cluster's Jobs, the operator, and whom the spec names
    2381, metrics       whom the spec names

Where the spec does not name clients, they are the pods of the cluster's own namespace. Where it
does not say who reads metrics, everybody may: they hold no data, and who collects them is seldom
near. Kubelets are no peers; a policy never keeps them from their own pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.access import Peer
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.common import Manifest, metadata

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""A label that the API server itself puts on every namespace; nobody else can claim it."""

_NEIGHBOURS: Final[tuple[Peer, ...]] = ({"podSelector": {}},)
"""All pods of the cluster's own namespace."""


@dataclass(frozen=True, slots=True)
class OperatorPods:
    """How the operator's pods are told from all others, from any namespace."""

    namespace: str
    labels: Mapping[str, str]


def network_policy(cluster: EtcdCluster, operator: OperatorPods) -> Manifest:
    """The policy of the members' pods, by the table above."""
    members = _pods(naming.selector(cluster.name))
    # Members too; what tells them from Jobs is the name, which is left out.
    own = _pods(naming.ours(cluster.name))
    it = _pods(operator.labels) | {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: operator.namespace}}
    }
    said = cluster.access.clients
    clients = _NEIGHBOURS if said is None else said
    rules = (
        _rule(naming.PEER_PORT, [members]),
        _rule(naming.START_PORT, [it]),
        _rule(naming.CLIENT_PORT, [own, it, *clients]),
        _rule(naming.METRICS_PORT, cluster.access.metrics),
    )
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(cluster, naming.network_policy(cluster.name)),
        "spec": {
            "podSelector": {"matchLabels": naming.selector(cluster.name)},
            "policyTypes": ["Ingress"],
            "ingress": [rule for rule in rules if rule],
        },
    }


def _pods(labels: Mapping[str, str]) -> Manifest:
    return {"podSelector": {"matchLabels": dict(labels)}}


def _rule(port: int, peers: Sequence[Peer] | None) -> Manifest | None:
    """None for nobody: to Kubernetes an empty list of peers is everybody, and so is none at all."""
    if peers is not None and not peers:
        return None
    ports = [{"protocol": "TCP", "port": port}]
    return {"ports": ports} | ({"from": [dict(one) for one in peers]} if peers else {})
