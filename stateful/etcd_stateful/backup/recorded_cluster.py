"""The EtcdCluster that a backup is of, as the manifest beside the backup keeps it.

So a restore can make a cluster that is no longer there: with its size, version, resources and
options, without what was said about that one cluster's life. Where it had no TLS that is said, also
for a spec that was silent: its clients could not talk to what today's default would make of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from etcd_stateful.api.backup import split_endpoint
from etcd_stateful.api.cluster import EtcdCluster

_OF_ONE_LIFE: Final = ("bootstrap", "paused", "recovery", "retainedClaims")


def record(
    name: str, spec: Mapping[str, Any], cluster: EtcdCluster | None = None
) -> dict[str, Any]:
    """With `cluster`, the parsed spec and the links that it runs with, where they are known."""
    kept = lasting(spec)
    if cluster is not None and (bare := _bare(cluster)):
        kept["TLS"] = {**(kept.get("TLS") or {}), **bare}
    return {"name": name, "spec": kept}


def lasting(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Also of a spec that comes from a store, where others may have written it: whose volumes are
    discarded, or whose data goes on, is said by nobody but a human, and here."""
    return {key: value for key, value in spec.items() if key not in _OF_ONE_LIFE}


def _bare(cluster: EtcdCluster) -> dict[str, str]:
    wished, links = cluster.wished_links, cluster.links
    both = (("peer", wished.peer, links.peer), ("client", wished.client, links.client))
    return {key: "Plaintext" for key, wish, link in both if not (wish or link.is_encrypted)}


def pull_secrets(kept: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """With which the cluster's own pods pull their images, the operator's among them."""
    spec = (kept or {}).get("spec") or {}
    return [dict(one) for one in (spec.get("pod") or {}).get("imagePullSecrets") or ()]


def possible_names(endpoints: Iterable[str], namespace: str) -> list[str]:
    """Names of the EtcdCluster that these endpoints may be of: its Service's, or its pods'."""
    found: dict[str, None] = {}
    for endpoint in endpoints:
        host = split_endpoint(endpoint)[1].rpartition(":")[0]
        parts = host.split(".")
        if len(parts) == 1 or parts[1] == namespace:
            found[parts[0].removesuffix("-client")] = None
        elif len(parts) > 2 and parts[2] == namespace:
            found[parts[1]] = None  # a pod: <name>-0.<name>.<namespace>
    return list(found)
