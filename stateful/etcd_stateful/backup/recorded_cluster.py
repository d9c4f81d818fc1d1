"""The EtcdCluster that was backed up, as the manifest beside the backup records it.

So a restore can recreate a cluster that no longer exists, with its size, version, resources and
options. Fields that were about that one cluster only are left out. If the cluster had no TLS, that
is recorded even if its spec did not say so: with today's default of TLS its clients could not
connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.backup import split_endpoint
from etcd_stateful.api.cluster import EtcdCluster

_OF_ONE_LIFE: Final = ("bootstrap", "paused", "recovery", "retainedClaims")


def record(
    name: str, spec: Mapping[str, Any], cluster: EtcdCluster | None = None
) -> dict[str, Any]:
    """The record in a manifest.

    Args:
        cluster: the parsed spec with the links that the cluster runs with, if they are known.
    """
    kept = reusable(spec)
    if cluster is not None and (bare := _bare(cluster)):
        kept["TLS"] = {**(kept.get("TLS") or {}), **bare}
    return {"name": name, "spec": kept}


def reusable(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec without the fields that are about one cluster only.

    This also applies to a spec from a store, which others may have written: only users of this
    namespace may decide which of its volumes are discarded and which data is kept."""
    return {key: value for key, value in spec.items() if key not in _OF_ONE_LIFE}


def _bare(cluster: EtcdCluster) -> dict[str, str]:
    wanted, links = cluster.requested_links, cluster.links
    both = (("peer", wanted.peer, links.peer), ("client", wanted.client, links.client))
    return {key: "Plaintext" for key, wish, link in both if not (wish or link.is_encrypted)}


def pull_secrets(kept: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The pull secrets of the cluster's pods, whose init container is the operator's image."""
    spec = (kept or {}).get("spec") or {}
    return [dict(one) for one in (spec.get("pod") or {}).get("imagePullSecrets") or ()]


def possible_names(endpoints: Iterable[str], namespace: str) -> list[str]:
    """Names of EtcdClusters to which these endpoints may belong, by Services' and pods' names."""
    found: dict[str, None] = {}
    for endpoint in endpoints:
        host = split_endpoint(endpoint)[1].rpartition(":")[0]
        parts = host.split(".")
        if len(parts) == 2 and naming.ordinal_of(parts[1], parts[0]) is not None:
            found[parts[1]] = None  # a pod: <name>-0.<name>
        if len(parts) == 1 or parts[1] == namespace:
            found[parts[0].removesuffix("-client")] = None
        if len(parts) > 2 and parts[2] == namespace:
            found[parts[1]] = None  # a pod: <name>-0.<name>.<namespace>
    return list(found)
