"""The objects that a cluster owns under the one name that each of them has."""

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
    """As the API server has them, None for what is not there."""

    stateful_set: Json | None
    headless_service: Json | None
    client_service: Json | None
    secret: Json | None
    disruption_budget: Json | None
    network_policy: Json | None


def known_children(finder: Finder, cluster: EtcdCluster) -> Children:
    """What the watches have told, without asking anyone."""
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
    """As the finder has them, or else as the API server has; raises KubeError.

    What only a formed cluster has is not looked for before: that may take long.

    Args:
        policy: whether the cluster is to have a network policy.
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
    """All at once, in their order; raises KubeError."""
    return await asyncio.gather(
        *(finder.find(resource, namespace, name) for resource, name in names)
    )


def sort_out(cluster: EtcdCluster, children: Children) -> tuple[Children, tuple[Foreign, ...]]:
    """What is this cluster's, and what bears such a name and is another owner's (I10)."""
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
