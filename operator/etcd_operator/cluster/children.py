"""Looks up the objects that a cluster owns, each under its fixed name."""

from __future__ import annotations

from typing import NamedTuple

from etcd_operator.kube.api import (
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
)
from etcd_operator.kube.finder import Finder, Name
from etcd_operator.objects import reading
from etcd_operator.tasks import together
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.observed.objects import Foreign


class Children(NamedTuple):
    """The objects as the API server has them; None for each that does not exist."""

    stateful_set: Json | None
    headless_service: Json | None
    client_service: Json | None
    secret: Json | None
    disruption_budget: Json | None
    network_policy: Json | None


def _names(cluster: EtcdCluster) -> tuple[Name, ...]:
    """In the order of `Children`."""
    where, name = cluster.namespace, cluster.name
    return (
        (STATEFUL_SETS, where, name),
        (SERVICES, where, naming.headless_service(name)),
        (SERVICES, where, naming.client_service(name)),
        (SECRETS, where, naming.start_secret(name)),
        (DISRUPTION_BUDGETS, where, naming.disruption_budget(name)),
        (NETWORK_POLICIES, where, naming.network_policy(name)),
    )


def known_children(finder: Finder, cluster: EtcdCluster) -> Children:
    """The objects in the store, without any request."""
    return Children(*(finder.known(*name) for name in _names(cluster)))


async def find_children(finder: Finder, cluster: EtcdCluster, *, policy: bool) -> Children:
    """The objects in the store, or else from the API server; raises KubeError.

    Objects that only a formed cluster has are not requested before it has formed, as that may take
    long.

    Args:
        policy: whether the cluster should have a network policy.
    """
    of_set, of_headless, of_client, of_secret, of_budget, of_policy = _names(cluster)
    stateful_set, headless, secret, network_policy = await together(
        finder.find(*of_set),
        finder.find(*of_headless),
        finder.find(*of_secret),
        _find_policy(finder, of_policy, policy),
    )
    if secret is not None and _is_latched(secret):
        client, budget = await together(finder.find(*of_client), finder.find_if_allowed(*of_budget))
    else:
        client, budget = finder.known(*of_client), finder.known(*of_budget)
    return Children(stateful_set, headless, client, secret, budget, network_policy)


async def _find_policy(finder: Finder, name: Name, wanted: bool) -> Json | None:
    return await finder.find_if_allowed(*name) if wanted else None


def sort_out(cluster: EtcdCluster, children: Children) -> tuple[Children, tuple[Foreign, ...]]:
    """Separates this cluster's objects from those of another owner under the same names (I10)."""
    own: list[Json | None] = []
    foreign: list[Foreign] = []
    for (resource, _, _), raw in zip(_names(cluster), children, strict=True):
        other = reading.foreign(cluster, resource.kind, raw) if raw is not None else None
        own.append(None if other else raw)
        foreign += [other] if other else []
    return Children(*own), tuple(foreign)


def _is_latched(secret: Json) -> bool:
    record = reading.secret(secret).bootstrap
    return record is not None and record.latched
