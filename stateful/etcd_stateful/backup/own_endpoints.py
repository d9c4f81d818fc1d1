"""Recognises endpoints of an EtcdBackup that are those of an EtcdCluster in its namespace.

Only the exact names that the cluster's own Services resolve count. A host that merely begins the
same may be any etcd.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from etcd_stateful import naming
from etcd_stateful.api.backup import split_endpoint
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import USUAL_DOMAIN


@dataclass(frozen=True, slots=True)
class Named:
    """What endpoints name of a cluster."""

    services: frozenset[str]
    """The Services that resolve their hosts. Whether they are the cluster's own is still open."""
    ordinals: frozenset[int]
    """The members behind them."""
    schemes: frozenset[str]


def named(cluster: EtcdCluster, endpoints: Iterable[str], ordinals: Iterable[int]) -> Named | None:
    """What the endpoints name of the cluster; None unless each of them is one of its own.

    Args:
        ordinals: those of the cluster's members.
    """
    known, found, schemes = _hosts(cluster, ordinals), list[tuple[str, frozenset[int]]](), set()
    for endpoint in endpoints:
        scheme, address = split_endpoint(endpoint)
        host, _, port = address.rpartition(":")
        if host not in known or port != str(naming.CLIENT_PORT):
            return None
        found.append(known[host])
        schemes.add(scheme or "http")
    behind = frozenset(ordinal for _, members in found for ordinal in members)
    return Named(frozenset(service for service, _ in found), behind, frozenset(schemes))


def _hosts(cluster: EtcdCluster, ordinals: Iterable[int]) -> dict[str, tuple[str, frozenset[int]]]:
    """Each DNS name of the cluster's Services and members: the Service, and who is behind it."""
    every, headless = frozenset(ordinals), naming.headless_service(cluster.name)
    client = naming.client_service(cluster.name)
    names = {client: (client, every), headless: (headless, every)} | {
        f"{naming.pod(cluster.name, one)}.{headless}": (headless, frozenset({one})) for one in every
    }
    space = cluster.namespace
    full = f".{space}.svc{cluster.pod.cluster_domain or USUAL_DOMAIN}"
    ends = ("", f".{space}", f".{space}.svc", full)
    return {f"{name}{end}": behind for name, behind in names.items() for end in ends}
