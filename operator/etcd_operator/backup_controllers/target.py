"""The EtcdCluster that an EtcdBackup backs up, as the watches show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from etcd_operator.kube.api import ETCD_CLUSTERS, PODS, SERVICES, STATEFUL_SETS, Json
from etcd_operator.kube.store import Store
from etcd_operator.objects import reading
from etcd_stateful import naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, parse_cluster, stand_in
from etcd_stateful.backup import own_endpoints, recorded_cluster
from etcd_stateful.backup.observed import Target
from etcd_stateful.certificates import operator_secret
from etcd_stateful.manifests.start_settings import levels_in
from etcd_stateful.manifests.statefulset import links_of


def target_of(store: Store, backup: EtcdBackup) -> Target | None:
    """How to reach the cluster that `spec.clusterRef` names, or that `spec.etcdEndpoints` name
    without a Secret of their own.

    None if no cluster is named, or if it does not exist. One whose spec is refused after an edit
    serves as before, so its backups go on.
    """
    if backup.client_tls_secret and not backup.cluster:
        return None
    for name in _names(backup):
        body = store.get(ETCD_CLUSTERS, backup.namespace, name)
        if body is None or (cluster := _parsed(body) or stand_in(body)) is None:
            continue
        cluster = _as_it_runs(store, cluster)
        members = _members(store, cluster, body)
        if chosen := members if backup.cluster else _chosen(store, backup, cluster, members):
            endpoints = tuple(chosen.values())
            secret = operator_secret(cluster) if _are_encrypted(endpoints) else ""
            cluster_id = reading.last_cluster_id(body) or 0
            # Its status may not be writable; the client Service exists from the latch on.
            service = store.get(SERVICES, cluster.namespace, naming.client_service(cluster.name))
            formed = bool(cluster_id) or service is not None
            return Target(endpoints, cluster_id, secret, formed)
    return None


def _names(backup: EtcdBackup) -> list[str]:
    """Names of EtcdClusters that may be meant."""
    if backup.cluster:
        return [backup.cluster]
    return recorded_cluster.possible_names(backup.endpoints, backup.namespace)


def _chosen(
    store: Store, backup: EtcdBackup, cluster: EtcdCluster, members: dict[int, str]
) -> dict[int, str]:
    """The members that `spec.etcdEndpoints` name; none unless all of it is of this cluster, with
    the scheme that it has."""
    found = own_endpoints.named(cluster, backup.endpoints, members)
    scheme = "https" if _are_encrypted(members.values()) else "http"
    if found is None or found.schemes != {scheme}:
        return {}
    # A cluster whose names are taken exists beside the etcd to which these Services lead.
    if any(_is_foreign(store, cluster, service) for service in found.services):
        return {}
    return {ordinal: one for ordinal, one in members.items() if ordinal in found.ordinals}


def _are_encrypted(endpoints: Iterable[str]) -> bool:
    return any(one.startswith("https:") for one in endpoints)


def _is_foreign(store: Store, cluster: EtcdCluster, service: str) -> bool:
    found = store.get(SERVICES, cluster.namespace, service)
    return found is not None and reading.foreign(cluster, "Service", found) is not None


def recorded_of(store: Store, backup: EtcdBackup) -> Json | None:
    """The EtcdCluster that is backed up, for the manifest beside the backup."""
    for name in _names(backup):
        if body := store.get(ETCD_CLUSTERS, backup.namespace, name):
            # A refused spec that says nothing of TLS is recorded with what the cluster has.
            is_silent = not body["spec"].get("TLS")
            cluster = _parsed(body) or (stand_in(body) if is_silent else None)
            running = _as_it_runs(store, cluster) if cluster else None
            return recorded_cluster.record(name, body["spec"], running)
    return None


def _members(store: Store, cluster: EtcdCluster, body: Json) -> dict[int, str]:
    """The endpoint of each member, by its ordinal. Behind the Service, the Job could not choose."""
    listed = (body.get("status") or {}).get("members") or {}
    names = {*listed.get("ready", ()), *listed.get("unready", ())}
    found = {naming.ordinal_of(cluster.name, name) for name in names}
    ordinals = {one for one in found if one is not None} or set(range(cluster.size))
    return {ordinal: _endpoint(store, cluster, ordinal) for ordinal in sorted(ordinals)}


def _endpoint(store: Store, cluster: EtcdCluster, ordinal: int) -> str:
    """With TLS if its pod has it: while TLS is turned on or off, not every pod does."""
    name = naming.pod(cluster.name, ordinal)
    raw = store.get(PODS, cluster.namespace, name) or {}
    levels = levels_in(raw.get("spec") or {}) or cluster.links.levels
    encrypted = cluster.links.client.is_encrypted and "https" in levels.client_schemes
    host = cluster.host(ordinal)
    return f"{'https' if encrypted else 'http'}://{host}:{naming.CLIENT_PORT}"


def _parsed(body: Json) -> EtcdCluster | None:
    try:
        return parse_cluster(body)
    except RefusedCluster:
        return None


def _as_it_runs(store: Store, cluster: EtcdCluster) -> EtcdCluster:
    """The cluster with the links that it runs with; the spec may say others by now."""
    live = store.get(STATEFUL_SETS, cluster.namespace, cluster.name)
    try:
        return replace(cluster, links=links_of(live)) if live else cluster
    except (ValueError, KeyError, TypeError):
        return cluster
