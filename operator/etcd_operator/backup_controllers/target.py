"""The EtcdCluster that an EtcdBackup backs up, as the watches show it."""

from __future__ import annotations

from dataclasses import replace

from etcd_operator.kube.api import ETCD_CLUSTERS, PODS, SERVICES, STATEFUL_SETS, Json
from etcd_operator.kube.store import Store
from etcd_stateful import identity, naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.api.cluster import EtcdCluster, RefusedCluster, parse_cluster
from etcd_stateful.backup import own_endpoints, recorded_cluster
from etcd_stateful.backup.observed import Target
from etcd_stateful.certificates import operator_secret
from etcd_stateful.manifests.start_settings import levels_in
from etcd_stateful.manifests.statefulset import links_of


def target_of(store: Store, backup: EtcdBackup) -> Target | None:
    """How to reach the cluster that `spec.clusterRef` names, or that `spec.etcdEndpoints` name
    without a Secret of their own.

    None if no cluster is named, if it does not exist, or if its spec is refused.
    """
    if backup.client_tls_secret and not backup.cluster:
        return None
    for name in _names(backup):
        body = store.get(ETCD_CLUSTERS, backup.namespace, name)
        cluster = _parsed(store, body) if body else None
        if body is None or cluster is None:
            continue
        members = _members(store, cluster, body)
        chosen = members if backup.cluster else _chosen(store, backup, cluster, body, members)
        if chosen:
            return _target(cluster, body, tuple(chosen.values()))
    return None


def _names(backup: EtcdBackup) -> list[str]:
    """Names of EtcdClusters that may be meant."""
    if backup.cluster:
        return [backup.cluster]
    return recorded_cluster.possible_names(backup.endpoints, backup.namespace)


def _target(cluster: EtcdCluster, body: Json, endpoints: tuple[str, ...]) -> Target:
    encrypted = any(one.startswith("https:") for one in endpoints)
    secret = operator_secret(cluster) if encrypted else ""
    return Target(endpoints, _cluster_id(body), secret)


def _chosen(
    store: Store, backup: EtcdBackup, cluster: EtcdCluster, body: Json, members: dict[int, str]
) -> dict[int, str]:
    """The members that `spec.etcdEndpoints` name; none unless all of it is of this cluster, with
    the scheme that it has."""
    found = own_endpoints.named(cluster, backup.endpoints, members)
    encrypted = any(one.startswith("https:") for one in members.values())
    if found is None or found.schemes != {"https" if encrypted else "http"}:
        return {}
    # A cluster whose names are taken exists beside the etcd to which these Services lead.
    if not all(_is_own(store, body, service) for service in found.services):
        return {}
    return {ordinal: one for ordinal, one in members.items() if ordinal in found.ordinals}


def _is_own(store: Store, body: Json, service: str) -> bool:
    found = store.get(SERVICES, body["metadata"]["namespace"], service) or {}
    owners = (found.get("metadata") or {}).get("ownerReferences") or ()
    return any(one.get("uid") == body["metadata"]["uid"] for one in owners)


def recorded_of(store: Store, backup: EtcdBackup) -> Json | None:
    """The EtcdCluster that is backed up, for the manifest beside the backup."""
    for name in _names(backup):
        if body := store.get(ETCD_CLUSTERS, backup.namespace, name):
            return recorded_cluster.record(name, body["spec"], _parsed(store, body))
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
