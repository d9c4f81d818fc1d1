"""Section 2 (etcd) of the CIS Kubernetes Benchmark, on a cluster whose spec does not mention TLS.

It checks the configuration on the members' volumes, and probes their ports.
"""

from __future__ import annotations

import base64
import socket
import ssl
from typing import Any

import pytest
import yaml
from harness.api import KUBECONFIG, SECRETS
from harness.clusters import Cluster
from harness.damage import volume_of
from harness.place import Place

CLIENTS, PEERS = "client-transport-security", "peer-transport-security"


def configuration(cluster: Cluster, ordinal: int) -> dict[str, Any]:
    return dict(yaml.safe_load((volume_of(cluster, ordinal) / "etcd.yaml").read_text()))


def test_a_cluster_with_defaults_passes_the_cis_benchmark(place: Place, local_node: None):
    cluster = place.declare(size=3).comes_up()

    for ordinal in range(3):
        told = configuration(cluster, ordinal)
        clients, peers = told[CLIENTS], told[PEERS]
        assert clients["cert-file"], "2.1"
        assert clients["key-file"], "2.1"
        assert clients["client-cert-auth"] is True, "2.2"
        assert not clients.get("auto-tls"), "2.3"
        assert peers["cert-file"], "2.4"
        assert peers["key-file"], "2.4"
        assert peers["client-cert-auth"] is True, "2.5"
        assert not peers.get("auto-tls"), "2.6"
        assert peers["trusted-ca-file"] != clients["trusted-ca-file"], "2.7"
        for port in (2379, 2380):
            with pytest.raises(OSError, match=r"(?i)certificate required"):
                ask_without_a_certificate(cluster, ordinal, port)
    assert len({*authorities(cluster), kubernetes_authority()}) == 3, "2.7"


def ask_without_a_certificate(cluster: Cluster, ordinal: int, port: int) -> bytes:
    where = cluster.reach.pod(cluster.namespace, f"{cluster.name}-{ordinal}", port)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(where, 30) as raw, context.wrap_socket(raw) as secured:
        secured.sendall(b"GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n")
        return secured.recv(1)


def authorities(cluster: Cluster) -> list[bytes]:
    """That vouch for members, and for clients."""
    secrets = [cluster.get(SECRETS, f"{cluster.name}-{link}-ca") for link in ("peer", "client")]
    return [base64.b64decode(one["data"]["ca.crt"]) for one in secrets if one]


def kubernetes_authority() -> bytes:
    cluster = yaml.safe_load(KUBECONFIG.read_text())["clusters"][0]["cluster"]
    return base64.b64decode(cluster["certificate-authority-data"])
