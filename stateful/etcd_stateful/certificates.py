"""Which certificates a cluster's links need: in which Secrets, with which names, signed by whom.

The operator makes managed certificates from this, and checks user-provided ones against it.

The DNS names are those that etcd checks. A member dials its peers by the hosts in their URLs. The
peer that accepts the connection looks for a name in the certificate that resolves to the caller's
address; it starts with reverse DNS, which answers with the cluster domain. It accepts wildcards by
reverse DNS only, so managed certificates name each ordinal. Client certificates need no names: etcd
compares those of its peers only (`NewTLSListener`, 3.5.35 to 3.7.3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from etcd_stateful import naming
from etcd_stateful.api.auth import ROOT
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.api.tls import LinkName

Role = Literal["authority", "peer", "server", "operator", "application"]

DAY: Final = 86400.0
AUTHORITY_SECONDS: Final = 3650 * DAY
LEAF_SECONDS: Final = 365 * DAY
"""A leaf is renewed after two thirds of this, so the operator may be down for four months."""

ISSUED_SECONDS: Final = 90 * DAY
"""Requested from an issuer, which may grant less. cert-manager's own default."""

USUAL_DOMAIN: Final = ".cluster.local"


class Files(NamedTuple):
    """Keys of a Secret that hold one certificate."""

    certificate: str
    key: str
    authority: str


PEER_FILES: Final = Files("peer.crt", "peer.key", "peer-ca.crt")
SERVER_FILES: Final = Files("server.crt", "server.key", "server-ca.crt")
OPERATOR_FILES: Final = Files("etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt")
APPLICATION_FILES: Final = Files("tls.crt", "tls.key", "ca.crt")
AUTHORITY_FILES: Final = Files("ca.crt", "ca.key", "ca.crt")
SUCCESSOR_FILES: Final = Files("next-ca.crt", "next-ca.key", "next-ca.crt")
"""The next authority, in the same Secret while a rotation is under way."""

PREDECESSOR_FILE: Final = "old-ca.crt"
"""The previous authority, in the same Secret, without its key."""

GENERATION_FILE: Final = "generation"
"""The number of the authority. The first one, 1, is not written down."""

BACKDATED: Final = 300.0
"""A certificate is valid from this long before it is made, for clocks that are behind ours."""


@dataclass(frozen=True, slots=True)
class CertificateSpec:
    """One certificate that the cluster needs, and the Secret that holds it."""

    role: Role
    secret: str
    files: Files
    names: tuple[str, ...] = ()
    """DNS names that the certificate must be valid for."""

    addresses: tuple[str, ...] = ()
    """IP addresses that the certificate must be valid for."""

    serves: bool = False
    """Extended key usage `serverAuth`."""

    calls: bool = False
    """Extended key usage `clientAuth`."""

    signed_by: str = ""
    """For a managed certificate: the Secret with its authority."""

    field: str = ""
    """For a user-provided certificate: the field of the spec that names the Secret."""

    subject: str = ""
    """Common name."""

    seconds: float = LEAF_SECONDS
    link: LinkName = "client"
    """The link that it is for."""

    @property
    def is_mounted(self) -> bool:
        """Whether members' pods mount its Secret."""
        return self.role in ("peer", "server")


def managed(cluster: EtcdCluster) -> tuple[CertificateSpec, ...]:
    """Certificates that the operator makes, in this order: an authority before what it signs."""
    found: list[CertificateSpec] = []
    if cluster.links.peer.mode == "Managed":
        found += [_authority(cluster, naming.peer_authority(cluster.name), "peer"), _peer(cluster)]
    if cluster.links.client.mode == "Managed":
        found += [
            _authority(cluster, naming.client_authority(cluster.name), "client"),
            _server(cluster),
            _operator(cluster),
            _application(cluster),
        ]
    return tuple(found)


def issued(cluster: EtcdCluster) -> tuple[CertificateSpec, ...]:
    """Certificates that a cert-manager issuer makes: the managed ones without our authorities."""
    found = [_peer(cluster)] if cluster.links.peer.mode == "Issued" else []
    if cluster.links.client.mode == "Issued":
        found += [_server(cluster), _operator(cluster), _application(cluster)]
    return tuple(replace(one, signed_by="", seconds=ISSUED_SECONDS) for one in found)


def as_issued(need: CertificateSpec) -> CertificateSpec:
    """The same certificate in the Secret that cert-manager writes."""
    return replace(need, secret=naming.issued(need.secret), files=APPLICATION_FILES)


def provided(cluster: EtcdCluster, members: int) -> tuple[CertificateSpec, ...]:
    """Certificates that the user provides, with the names that this many ordinals need."""
    found: list[CertificateSpec] = []
    static = "spec.TLS.static"
    if cluster.links.peer.mode == "Static":
        names, field = _hosts(cluster, members), f"{static}.member.peerSecret"
        secret = cluster.links.peer.secret
        found.append(
            CertificateSpec(
                "peer",
                secret,
                PEER_FILES,
                names,
                serves=True,
                calls=True,
                field=field,
                link="peer",
            )
        )
    if cluster.links.client.mode == "Static":
        link, service = cluster.links.client, naming.client_service(cluster.name)
        names = (*_hosts(cluster, members), f"{service}.{cluster.namespace}.svc")
        field = f"{static}.member.serverSecret"
        found += [
            CertificateSpec("server", link.secret, SERVER_FILES, names, serves=True, field=field),
            CertificateSpec(
                "operator",
                link.operator,
                OPERATOR_FILES,
                calls=True,
                field=f"{static}.operatorSecret",
            ),
        ]
    return tuple(found)


def peer_secret(cluster: EtcdCluster) -> str:
    return cluster.links.peer.secret or naming.peer_certificate(cluster.name)


def server_secret(cluster: EtcdCluster) -> str:
    return cluster.links.client.secret or naming.server_certificate(cluster.name)


def operator_secret(cluster: EtcdCluster) -> str:
    """Secret with the client certificate of the operator and of its backup Jobs."""
    return cluster.links.client.operator or naming.operator_certificate(cluster.name)


def renewed_at(begins: float, ends: float) -> float:
    """Two thirds into a certificate's life, in seconds since 1970."""
    return begins + (ends - begins) * 2 / 3


def issued_at(begins: float) -> float:
    """When the operator made the certificate that is valid from `begins`."""
    return begins + BACKDATED


def trust_of(authorities: Iterable[str]) -> str:
    """A name for the set of authorities that is trusted, given by their digests."""
    return hashlib.sha256(",".join(sorted(authorities)).encode()).hexdigest()[:16]


def pinned_file(bundle: str, trust: str) -> str:
    """Key of the Secret that pods mount from the first rotation on. Its content never changes.

    A kubelet that has not seen the key yet does not start the pod. So a pod's spec proves what its
    etcd trusts, even after the container has restarted.
    """
    return f"{bundle.removesuffix('.crt')}-{trust}.crt"


def pinned_in(bundle: str, key: str) -> str:
    """The trust in the name of a pinned file; empty for any other key."""
    found = key.removeprefix(f"{bundle.removesuffix('.crt')}-").removesuffix(".crt")
    return found if key == pinned_file(bundle, found) else ""


def _authority(cluster: EtcdCluster, secret: str, link: LinkName) -> CertificateSpec:
    subject = f"{cluster.name}-{link}-ca"
    return CertificateSpec(
        "authority", secret, AUTHORITY_FILES, subject=subject, seconds=AUTHORITY_SECONDS, link=link
    )


def _peer(cluster: EtcdCluster) -> CertificateSpec:
    return CertificateSpec(
        "peer",
        naming.peer_certificate(cluster.name),
        PEER_FILES,
        _every_host(cluster),
        serves=True,
        calls=True,
        signed_by=naming.peer_authority(cluster.name),
        subject=f"{cluster.name}-peer",
        link="peer",
    )


def _server(cluster: EtcdCluster) -> CertificateSpec:
    """etcd's JSON gateway uses the server certificate to call etcd on loopback as a client."""
    services = (naming.client_service(cluster.name), naming.headless_service(cluster.name))
    short = tuple(
        f"{service}{rest}" for service in services for rest in ("", f".{cluster.namespace}")
    )
    full = tuple(
        f"{service}.{cluster.namespace}.svc{domain}"
        for service in services
        for domain in _domains(cluster)
    )
    return CertificateSpec(
        "server",
        naming.server_certificate(cluster.name),
        SERVER_FILES,
        (*_every_host(cluster), *short, *full, "localhost"),
        ("127.0.0.1", "::1"),
        serves=True,
        calls=True,
        signed_by=naming.client_authority(cluster.name),
        subject=f"{cluster.name}-server",
    )


def _operator(cluster: EtcdCluster) -> CertificateSpec:
    """While etcd's authentication is on, etcd takes the common name for the user."""
    return CertificateSpec(
        "operator",
        naming.operator_certificate(cluster.name),
        OPERATOR_FILES,
        calls=True,
        signed_by=naming.client_authority(cluster.name),
        subject=ROOT,
    )


def _application(cluster: EtcdCluster) -> CertificateSpec:
    return CertificateSpec(
        "application",
        naming.client_certificate(cluster.name),
        APPLICATION_FILES,
        calls=True,
        signed_by=naming.client_authority(cluster.name),
        subject=f"{cluster.name}-client",
    )


def _hosts(cluster: EtcdCluster, members: int) -> tuple[str, ...]:
    return tuple(cluster.host(ordinal) for ordinal in range(members))


def _every_host(cluster: EtcdCluster) -> tuple[str, ...]:
    """Hosts of all ordinals up to the largest size, so that a scale-up waits for no certificate."""
    return tuple(
        naming.host(cluster.name, cluster.namespace, ordinal, domain)
        for ordinal in range(naming.MAX_SIZE)
        for domain in _domains(cluster)
    )


def _domains(cluster: EtcdCluster) -> tuple[str, str]:
    return "", cluster.pod.cluster_domain or USUAL_DOMAIN
