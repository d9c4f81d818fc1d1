"""The order of passes when all clusters are queued at once.

At the start and at a resync most clusters are settled, and one that someone waits for should not be
queued behind them. The order is guessed from the store alone. Every cluster gets a pass, so a wrong
guess only costs a place in the queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    Key,
)
from etcd_operator.kube.store import Owner, Store
from etcd_stateful import naming, stored_conditions


def everything(store: Store) -> Iterator[Owner]:
    """All custom resources, kind by kind, in the order in which they should be queued."""
    for key in by_need(store):
        yield Owner(ETCD_CLUSTERS, key)
    for resource in (ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES):
        for key in store.keys(resource):
            yield Owner(resource, key)


def by_need(store: Store) -> list[Key]:
    """All clusters, first those that seem to need a change."""
    return sorted(store.keys(ETCD_CLUSTERS), key=lambda key: _seems_at_rest(store, key))


def _seems_at_rest(store: Store, key: Key) -> bool:
    body = store.get(ETCD_CLUSTERS, *key) or {}
    return _was_at_rest(body) and _is_whole(store, key, body["status"])


def _was_at_rest(body: Json) -> bool:
    """Whether nothing was progressing when its status was written, and its spec is unchanged."""
    status = body.get("status") or {}
    if stored_conditions.find(status, "Progressing").get("status") != "False":
        return False  # also one that is no object: it was stored before the CRD had a schema
    return bool(status.get("observedGeneration") == body["metadata"].get("generation"))


def _is_whole(store: Store, key: Key, status: Json) -> bool:
    """Whether its objects exist, with as many Ready pods as it had members."""
    namespace, name = key
    stateful_set = store.get(STATEFUL_SETS, namespace, name) or {}
    replicas = (stateful_set.get("spec") or {}).get("replicas")
    ready = (stateful_set.get("status") or {}).get("readyReplicas")
    needed = (
        (SERVICES, naming.headless_service(name)),
        (SERVICES, naming.client_service(name)),
        (SECRETS, naming.start_secret(name)),
    )
    return replicas == ready == status.get("size") and all(
        store.get(resource, namespace, child) for resource, child in needed
    )
