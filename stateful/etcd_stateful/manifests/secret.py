"""The Secret with the key of the start tickets and the bootstrap record, and those with managed
certificates."""

from __future__ import annotations

from collections.abc import Mapping

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import Need
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.bootstrap_json import dump_bootstrap

KEY = "key"
BOOTSTRAP = "bootstrap"


def start_secret(cluster: EtcdCluster, record: Bootstrap, key: str) -> Manifest:
    """`key` is base64 of the random key; only the shell can draw one."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": metadata(cluster, naming.start_secret(cluster.name)),
        "data": {KEY: key},
        "stringData": {BOOTSTRAP: dump_bootstrap(record)},
    }


def certificate_secret(cluster: EtcdCluster, need: Need, data: Mapping[str, str]) -> Manifest:
    """`data` is base64 of keys and certificates; only the shell can make them."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls" if need.role == "application" else "Opaque",
        "metadata": metadata(cluster, need.secret),
        "data": dict(data),
    }
