"""The NetworkPolicy: who may reach which port of the members.

    2380, peers         members
    2378, start ticket  the operator
    2379, clients       members, the cluster's Jobs, the operator, and peers that the spec names
    2381, metrics       peers that the spec names

If the spec names no clients, all pods of the cluster's namespace may connect. If it names no peers
for metrics, everybody may read them: they contain no data, and Prometheus usually runs in another
namespace. Kubelets are not listed: a policy never blocks a kubelet from the pods of its node.
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
"""The API server sets this label on every namespace, and nobody else can."""

_NEIGHBOURS: Final[tuple[Peer, ...]] = ({"podSelector": {}},)
"""All pods of the cluster's own namespace."""


@dataclass(frozen=True, slots=True)
class OperatorPods:
    """How a policy in any namespace selects the operator's pods."""

    namespace: str
    labels: Mapping[str, str]


def network_policy(cluster: EtcdCluster, operator: OperatorPods) -> Manifest:
    """The policy of the members' pods, by the table above."""
    members = _pods(naming.selector(cluster.name))
    # Members and Jobs: the label that distinguishes them is left out.
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
    """The rule for a port; None if nobody may connect. To Kubernetes an empty or missing list of
    peers means everybody."""
    if peers is not None and not peers:
        return None
    ports = [{"protocol": "TCP", "port": port}]
    return {"ports": ports} | ({"from": [dict(one) for one in peers]} if peers else {})
