"""The EtcdCluster that an EtcdBackup backs up, as the watches show it."""

from __future__ import annotations

from dataclasses import replace

from etcd_operator.kube.api import ETCD_CLUSTERS, PODS, STATEFUL_SETS, Json
from etcd_operator.kube.store import Store
from etcd_stateful import identity, naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, parse_cluster
from etcd_stateful.backup import recorded_cluster
from etcd_stateful.backup.observed import Target
from etcd_stateful.certificates import operator_secret
from etcd_stateful.manifests.start_settings import levels_in
from etcd_stateful.manifests.statefulset import links_of


def target_of(store: Store, backup: EtcdBackup) -> Target | None:
    """How to reach the cluster that `spec.clusterRef` names.

    None if no cluster is named, if it does not exist, or if its spec is refused.
    """
    if not backup.cluster:
        return None
    body = store.get(ETCD_CLUSTERS, backup.namespace, backup.cluster)
    if body is None:
        return None
    cluster = _parsed(store, body)
    if cluster is None:
        return None
    endpoints = _endpoints(store, cluster, body)
    encrypted = any(one.startswith("https:") for one in endpoints)
    secret = operator_secret(cluster) if encrypted else ""
    return Target(endpoints, _cluster_id(body), secret)


def recorded_of(store: Store, backup: EtcdBackup) -> Json | None:
    """The EtcdCluster that is backed up, for the manifest beside the backup."""
    names = (
        [backup.cluster]
        if backup.cluster
        else recorded_cluster.possible_names(backup.endpoints, backup.namespace)
    )
    for name in names:
        if body := store.get(ETCD_CLUSTERS, backup.namespace, name):
            return recorded_cluster.record(name, body["spec"], _parsed(store, body))
    return None


def _endpoints(store: Store, cluster: EtcdCluster, body: Json) -> tuple[str, ...]:
    """The endpoint of each member: behind the Service, the Job could not choose a member."""
    listed = (body.get("status") or {}).get("members") or {}
    names = {*listed.get("ready", ()), *listed.get("unready", ())}
    found = {naming.ordinal_of(cluster.name, name) for name in names}
    ordinals = {one for one in found if one is not None} or set(range(cluster.size))
    return tuple(_endpoint(store, cluster, ordinal) for ordinal in sorted(ordinals))


def _endpoint(store: Store, cluster: EtcdCluster, ordinal: int) -> str:
    """With TLS if its pod has it: while TLS is turned on or off, not every pod does."""
    name = naming.pod(cluster.name, ordinal)
    raw = store.get(PODS, cluster.namespace, name) or {}
    levels = levels_in(raw.get("spec") or {}) or cluster.links.levels
    encrypted = cluster.links.client.is_encrypted and "https" in levels.client_schemes
    host = cluster.host(ordinal)
    return f"{'https' if encrypted else 'http'}://{host}:{naming.CLIENT_PORT}"


def _parsed(store: Store, body: Json) -> EtcdCluster | None:
    """The cluster with the links that it runs with; the spec may say others by now."""
    try:
        cluster = parse_cluster(body)
    except RefusedCluster:
        return None
    live = store.get(STATEFUL_SETS, cluster.namespace, cluster.name)
    try:
        return replace(cluster, links=links_of(live)) if live else cluster
    except (ValueError, KeyError, TypeError):
        return cluster


def _cluster_id(body: Json) -> int:
    try:
        return identity.from_hex(str((body.get("status") or {}).get("clusterID") or ""))
    except ValueError:
        return 0
