"""The Secret with the key of the start tickets and the bootstrap record."""

from __future__ import annotations

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.membership.records import Bootstrap, dump_bootstrap

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
