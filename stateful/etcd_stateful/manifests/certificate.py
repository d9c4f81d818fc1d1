"""A Certificate of cert-manager, which requests a certificate from the issuer that the spec names.

It has its own Secret, never one that pods mount, because the operator checks the certificate before
it is used. The Secret's labels make it visible to the operator's watch. cert-manager renews it,
after two thirds of the lifetime that the issuer grants, which may be less than requested.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.issuer import Issuer
from etcd_stateful.certificates import CertificateSpec
from etcd_stateful.manifests.common import Manifest, metadata

CERTIFICATE: Final = "Certificate"
API_VERSION: Final = "cert-manager.io/v1"

_HOUR: Final = 3600


def certificate(cluster: EtcdCluster, need: CertificateSpec, issuer: Issuer) -> Manifest:
    name = naming.issued(need.secret)
    usages = (("server auth", need.serves), ("client auth", need.calls))
    names = {"dnsNames": list(need.names), "ipAddresses": list(need.addresses)}
    return {
        "apiVersion": API_VERSION,
        "kind": CERTIFICATE,
        "metadata": metadata(cluster, name),
        "spec": {
            "secretName": name,
            "secretTemplate": {"labels": naming.labels(cluster.name)},
            "commonName": need.subject,
            **{key: listed for key, listed in names.items() if listed},
            "isCA": False,
            "usages": ["digital signature", *(usage for usage, wanted in usages if wanted)],
            "duration": f"{int(need.seconds // _HOUR)}h0m0s",
            "privateKey": {
                "algorithm": "ECDSA",
                "size": 256,
                "encoding": "PKCS8",
                "rotationPolicy": "Always",
            },
            "revisionHistoryLimit": 1,
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
        },
    }
