"""The Secret with the ticket key and the bootstrap record, and the Secrets with certificates."""

from __future__ import annotations

from collections.abc import Mapping

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.certificates import CertificateSpec
from etcd_stateful.manifests.common import Manifest, metadata
from etcd_stateful.records.bootstrap import Bootstrap
from etcd_stateful.records.bootstrap_json import dump_bootstrap

KEY = "key"
BOOTSTRAP = "bootstrap"


def start_secret(cluster: EtcdCluster, record: Bootstrap, key: str) -> Manifest:
    """The Secret for start tickets. `key` is the random key in base64, which the shell
    generates."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": metadata(cluster, naming.start_secret(cluster.name)),
        "data": {KEY: key},
        "stringData": {BOOTSTRAP: dump_bootstrap(record)},
    }


def certificate_secret(
    cluster: EtcdCluster, need: CertificateSpec, data: Mapping[str, str]
) -> Manifest:
    """A Secret with certificates. `data` is in base64, and the shell generates it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls" if need.role == "application" else "Opaque",
        "metadata": metadata(cluster, need.secret),
        "data": dict(data),
    }
