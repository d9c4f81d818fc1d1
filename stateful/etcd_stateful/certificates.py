"""Which certificates a cluster's links need: in which Secrets, with which names, signed by whom.

User-provided and managed ones alike; the former are checked against this, the latter made from it.

The names are those that etcd checks. A member dials its peers by the hosts in their URLs; the one
that is dialled looks for a name of the certificate that leads to the caller's address, first by
reverse DNS, which answers with the cluster domain. Wildcards it takes by reverse DNS only, so the
managed ones name each ordinal. Certificates of clients carry no names: etcd would hold those
against the client's address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from etcd_stateful import naming
from etcd_stateful.api.auth import ROOT
from etcd_stateful.api.cluster import EtcdCluster

Role = Literal["authority", "peer", "server", "operator", "application"]

DAY: Final = 86400.0
AUTHORITY_SECONDS: Final = 3650 * DAY
LEAF_SECONDS: Final = 365 * DAY
"""Renewed at two thirds of it, so an operator may be away for four months."""

ISSUED_SECONDS: Final = 90 * DAY
"""Asked of an issuer, who may give less. As cert-manager's own default."""

USUAL_DOMAIN: Final = ".cluster.local"


class Files(NamedTuple):
    """Keys of a Secret."""

    certificate: str
    key: str
    authority: str


PEER_FILES: Final = Files("peer.crt", "peer.key", "peer-ca.crt")
SERVER_FILES: Final = Files("server.crt", "server.key", "server-ca.crt")
OPERATOR_FILES: Final = Files("etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt")
APPLICATION_FILES: Final = Files("tls.crt", "tls.key", "ca.crt")
AUTHORITY_FILES: Final = Files("ca.crt", "ca.key", "ca.crt")
SUCCESSOR_FILES: Final = Files("next-ca.crt", "next-ca.key", "next-ca.crt")
"""In the same Secret while an authority is rotated: the one that is to take its place."""

PREDECESSOR_FILE: Final = "old-ca.crt"
"""And the one whose place it has taken, without a key."""

GENERATION_FILE: Final = "generation"
"""The number of the authority; the first, 1, does without."""

EARLIER: Final = 300.0
"""Certificates are good from a little before they are made, for clocks that are behind ours."""


@dataclass(frozen=True, slots=True)
class Need:
    """One Secret with a certificate."""

    role: Role
    secret: str
    files: Files
    names: tuple[str, ...] = ()
    """DNS names that it must be good for."""

    addresses: tuple[str, ...] = ()
    """IP addresses likewise."""

    serves: bool = False
    calls: bool = False
    """Whether it is shown by who is called, and by who calls: the two extended key usages."""

    signed_by: str = ""
    """The Secret with the authority, of a managed one."""

    field: str = ""
    """Where the spec names the Secret, of a user-provided one."""

    subject: str = ""
    """Common name."""

    seconds: float = LEAF_SECONDS


def managed(cluster: EtcdCluster) -> tuple[Need, ...]:
    """What the operator makes, in that order: an authority before what it signs."""
    found: list[Need] = []
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


def issued(cluster: EtcdCluster) -> tuple[Need, ...]:
    """What an issuer of cert-manager makes: the same, without authorities of ours."""
    found = [_peer(cluster)] if cluster.links.peer.mode == "Issued" else []
    if cluster.links.client.mode == "Issued":
        found += [_server(cluster), _operator(cluster), _application(cluster)]
    return tuple(replace(one, signed_by="", seconds=ISSUED_SECONDS) for one in found)


def as_issued(need: Need) -> Need:
    """The same certificate in the Secret that cert-manager writes."""
    return replace(need, secret=naming.issued(need.secret), files=APPLICATION_FILES)


def provided(cluster: EtcdCluster, members: int) -> tuple[Need, ...]:
    """What the user has made, as it has to be for so many ordinals."""
    found: list[Need] = []
    static = "spec.TLS.static"
    if cluster.links.peer.mode == "Static":
        names, field = _hosts(cluster, members), f"{static}.member.peerSecret"
        secret = cluster.links.peer.secret
        found.append(Need("peer", secret, PEER_FILES, names, serves=True, calls=True, field=field))
    if cluster.links.client.mode == "Static":
        link, service = cluster.links.client, naming.client_service(cluster.name)
        names = (*_hosts(cluster, members), f"{service}.{cluster.namespace}.svc")
        field = f"{static}.member.serverSecret"
        found += [
            Need("server", link.secret, SERVER_FILES, names, serves=True, field=field),
            Need(
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
    """What its own clients show: the operator, and the Jobs of its backups."""
    return cluster.links.client.operator or naming.operator_certificate(cluster.name)


def renewed_at(begins: float, ends: float) -> float:
    """Two thirds into a certificate's life; seconds since 1970, as its arguments."""
    return begins + (ends - begins) * 2 / 3


def issued_at(begins: float) -> float:
    """When the operator has made the certificate that begins then."""
    return begins + EARLIER


def trust_of(authorities: Iterable[str]) -> str:
    """A name for trusting just these, given by their digests."""
    return hashlib.sha256(",".join(sorted(authorities)).encode()).hexdigest()[:16]


def pinned_file(bundle: str, trust: str) -> str:
    """Key of the Secret whose content never changes: what pods mount from the first rotation on.

    A kubelet that has not heard of it yet does not start the pod. So a pod's spec proves what its
    etcd trusts, also after a restart of the container.
    """
    return f"{bundle.removesuffix('.crt')}-{trust}.crt"


def pinned_in(bundle: str, key: str) -> str:
    """The trust whose file it is; empty for any other."""
    found = key.removeprefix(f"{bundle.removesuffix('.crt')}-").removesuffix(".crt")
    return found if key == pinned_file(bundle, found) else ""


def _authority(cluster: EtcdCluster, secret: str, link: str) -> Need:
    subject = f"{cluster.name}-{link}-ca"
    return Need("authority", secret, AUTHORITY_FILES, subject=subject, seconds=AUTHORITY_SECONDS)


def _peer(cluster: EtcdCluster) -> Need:
    return Need(
        "peer",
        naming.peer_certificate(cluster.name),
        PEER_FILES,
        _every_host(cluster),
        serves=True,
        calls=True,
        signed_by=naming.peer_authority(cluster.name),
        subject=f"{cluster.name}-peer",
    )


def _server(cluster: EtcdCluster) -> Need:
    """For calls too, and for loopback: etcd's JSON gateway asks etcd as a client does, with it."""
    services = (naming.client_service(cluster.name), naming.headless_service(cluster.name))
    short = tuple(
        f"{service}{rest}" for service in services for rest in ("", f".{cluster.namespace}")
    )
    full = tuple(
        f"{service}.{cluster.namespace}.svc{domain}"
        for service in services
        for domain in _domains(cluster)
    )
    return Need(
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


def _operator(cluster: EtcdCluster) -> Need:
    """With etcd's authentication on, whoever shows it is the user that it names."""
    return Need(
        "operator",
        naming.operator_certificate(cluster.name),
        OPERATOR_FILES,
        calls=True,
        signed_by=naming.client_authority(cluster.name),
        subject=ROOT,
    )


def _application(cluster: EtcdCluster) -> Need:
    return Need(
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
    """Of all ordinals there may ever be: growing must not wait for a certificate."""
    return tuple(
        naming.host(cluster.name, cluster.namespace, ordinal, domain)
        for ordinal in range(naming.MAX_SIZE)
        for domain in _domains(cluster)
    )


def _domains(cluster: EtcdCluster) -> tuple[str, str]:
    return "", cluster.pod.cluster_domain or USUAL_DOMAIN
