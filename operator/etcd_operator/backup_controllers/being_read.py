"""Which stored backups the restores of a namespace read, or are about to."""

from __future__ import annotations

from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    SECRETS,
    Json,
    Kubernetes,
    Resource,
)
from etcd_operator.kube.store import Store
from etcd_operator.objects import reading
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.backup import in_use, plan


def known_to_be_read(store: Store, namespace: str) -> frozenset[str]:
    """Names of EtcdBackups and locations, as far as the watches have told."""
    return in_use.read_from(
        _every(store, ETCD_RESTORES, namespace), _every(store, ETCD_CLUSTERS, namespace)
    )


async def read_now(kube: Kubernetes, namespace: str) -> frozenset[str]:
    """The same, from the API server: what is deleted is gone for good."""
    restores = await kube.list(ETCD_RESTORES, namespace)
    clusters = await kube.list(ETCD_CLUSTERS, namespace)
    return in_use.read_from(restores.items, clusters.items)


def _every(store: Store, kind: Resource, namespace: str) -> list[Json]:
    keys = (key for key in store.keys(kind) if key[0] == namespace)
    return [one for key in keys if (one := store.get(kind, *key))]


def locations_read(store: Store, namespace: str) -> frozenset[str]:
    """What `known_to_be_read` names, as locations: of an EtcdBackup that is named, where it has
    stored last, and where it had stored last when a restore under way has looked that up."""
    read = known_to_be_read(store, namespace)
    named = (store.get(ETCD_BACKUPS, namespace, one) for one in read)
    return read | {last_location(one) for one in named if one} | _looked_up(store, namespace)


async def is_being_read(kube: Kubernetes, store: Store, body: Json, backup: EtcdBackup) -> bool:
    """Whether a restore reads what the EtcdBackup has stored, or is about to; raises KubeError. One
    that names it and has not looked it up yet does not count: it takes nothing that is being
    deleted."""
    namespace, told = backup.namespace, body.get("status") or {}
    own = {told.get("location"), told.get("unproven")}

    def are_own(read: frozenset[str]) -> bool:
        return any(one in own or plan.is_where_it_stores(backup, one) for one in read)

    known = known_to_be_read(store, namespace) | _looked_up(store, namespace)
    return are_own(known) or are_own(await read_now(kube, namespace))


def _looked_up(store: Store, namespace: str) -> set[str]:
    """Locations on the records of restores that are under way."""
    found = set()
    for raw in _every(store, SECRETS, namespace):
        if (record := reading.secret(raw).bootstrap) is None:
            continue
        places = (record.chosen if record.restoring else None, record.successor)
        found |= {one.store.place for one in places if one}
    return found


def last_location(backup: Json) -> str:
    """Location of the last backup that succeeded, which with `verify` is the last proven one;
    empty if there is none."""
    return str((backup.get("status") or {}).get("location") or "")
