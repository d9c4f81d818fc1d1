"""The trial restore of a backup, into a scratch etcd that only its own pod can reach.

If the backup has users, its etcd answers only them. So the scratch etcd serves loopback with TLS,
and the Job authenticates as root by a client certificate.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.certificates import (
    AUTHORITY_FILES,
    DAY,
    OPERATOR_FILES,
    SERVER_FILES,
    CertificateSpec,
)
from etcd_stateful.versions import Minor, minor_of, reported_version

FOLDER: Final = "/var/etcd-trial"
SNAPSHOT: Final = "snapshot.db"
MANIFEST: Final = "manifest.json"
DATA: Final = "data"
TLS: Final = "tls"

PORT: Final = 2379
PEER_PORT: Final = 2380
LOOPBACK: Final = "127.0.0.1"

_FIRST_WITH_ETCDUTL: Final = Minor(3, 5)


def why_not(version: str) -> str:
    """Why a backup of that etcd cannot be restored on trial; empty if it can."""
    found = reported_version(version)
    if found is None or minor_of(found) < _FIRST_WITH_ETCDUTL:
        return f"spec.verify: etcd {version} has no etcdutl to restore it with: use Hash"
    return ""


def etcdutl() -> list[str]:
    """The command that restores the snapshot."""
    return [
        "/usr/local/bin/etcdutl",
        "snapshot",
        "restore",
        f"{FOLDER}/{SNAPSHOT}",
        f"--data-dir={FOLDER}/{DATA}",
    ]


def etcd() -> list[str]:
    """The command of the scratch etcd. It listens on loopback only."""
    client, peer = f"https://{LOOPBACK}:{PORT}", f"http://{LOOPBACK}:{PEER_PORT}"
    tls = f"{FOLDER}/{TLS}"
    return [
        "/usr/local/bin/etcd",
        f"--data-dir={FOLDER}/{DATA}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--cert-file={tls}/{SERVER_FILES.certificate}",
        f"--key-file={tls}/{SERVER_FILES.key}",
        f"--trusted-ca-file={tls}/{SERVER_FILES.authority}",
        "--client-cert-auth",
    ]


AUTHORITY: Final = CertificateSpec("authority", "", AUTHORITY_FILES, subject="trial", seconds=DAY)
LEAVES: Final = (
    CertificateSpec(
        "server",
        "",
        SERVER_FILES,
        (),
        (LOOPBACK,),
        serves=True,
        calls=True,
        subject="trial",
        seconds=DAY,
    ),
    CertificateSpec("operator", "", OPERATOR_FILES, calls=True, subject="root", seconds=DAY),
)
"""Certificates of the scratch etcd and of the Job that queries it. They never leave the pod."""
