"""Looks up the objects that a cluster owns, each under its fixed name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from etcd_operator.kube.api import (
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    Resource,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.objects import reading
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.observed.objects import Foreign


@dataclass(frozen=True, slots=True)
class Children:
    """The objects as the API server has them; None for each that does not exist."""

    stateful_set: Json | None
    headless_service: Json | None
    client_service: Json | None
    secret: Json | None
    disruption_budget: Json | None
    network_policy: Json | None


def known_children(finder: Finder, cluster: EtcdCluster) -> Children:
    """The objects in the store, without any request."""
    where = cluster.namespace
    return Children(
        finder.known(STATEFUL_SETS, where, cluster.name),
        finder.known(SERVICES, where, naming.headless_service(cluster.name)),
        finder.known(SERVICES, where, naming.client_service(cluster.name)),
        finder.known(SECRETS, where, naming.start_secret(cluster.name)),
        finder.known(DISRUPTION_BUDGETS, where, naming.disruption_budget(cluster.name)),
        finder.known(NETWORK_POLICIES, where, naming.network_policy(cluster.name)),
    )


async def find_children(finder: Finder, cluster: EtcdCluster, *, policy: bool) -> Children:
    """The objects in the store, or else from the API server; raises KubeError.

    Objects that only a formed cluster has are not requested before it has formed, as that may take
    long.

    Args:
        policy: whether the cluster should have a network policy.
    """
    where = cluster.namespace
    names = (
        (STATEFUL_SETS, cluster.name),
        (SERVICES, naming.headless_service(cluster.name)),
        (SECRETS, naming.start_secret(cluster.name)),
    )
    (stateful_set, headless, secret), network_policy = await asyncio.gather(
        find_all(finder, where, names), _find_policy(finder, cluster, policy)
    )
    service = (SERVICES, where, naming.client_service(cluster.name))
    disruptions = (DISRUPTION_BUDGETS, where, naming.disruption_budget(cluster.name))
    if secret is not None and _is_latched(secret):
        client, budget = await asyncio.gather(
            finder.find(*service), finder.find_if_allowed(*disruptions)
        )
    else:
        client, budget = finder.known(*service), finder.known(*disruptions)
    return Children(stateful_set, headless, client, secret, budget, network_policy)


async def _find_policy(finder: Finder, cluster: EtcdCluster, wanted: bool) -> Json | None:
    if not wanted:
        return None
    name = naming.network_policy(cluster.name)
    return await finder.find_if_allowed(NETWORK_POLICIES, cluster.namespace, name)


async def find_all(
    finder: Finder, namespace: str, names: Iterable[tuple[Resource, str]]
) -> list[Json | None]:
    """Finds all objects concurrently, and returns them in the order of `names`; raises
    KubeError."""
    return await asyncio.gather(
        *(finder.find(resource, namespace, name) for resource, name in names)
    )


def sort_out(cluster: EtcdCluster, children: Children) -> tuple[Children, tuple[Foreign, ...]]:
    """Separates this cluster's objects from those of another owner under the same names (I10)."""
    foreign: list[Foreign] = []

    def own(kind: str, raw: Json | None) -> Json | None:
        other = reading.foreign(cluster, kind, raw) if raw is not None else None
        if other is None:
            return raw
        foreign.append(other)
        return None

    kept = Children(
        own("StatefulSet", children.stateful_set),
        own("Service", children.headless_service),
        own("Service", children.client_service),
        own("Secret", children.secret),
        own("PodDisruptionBudget", children.disruption_budget),
        own("NetworkPolicy", children.network_policy),
    )
    return kept, tuple(foreign)


def _is_latched(secret: Json) -> bool:
    record = reading.secret(secret).bootstrap
    return record is not None and record.latched
