"""What Jobs of backups are told in tests with real servers, and what etcd's own tools say."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from etcd_live import Cluster, Member

from etcd_stateful.api.stores import Store
from etcd_stateful.backup.order import Order
from localkube.s3 import S3Server


def endpoint(member: Member) -> str:
    return f"http://{member.url_host}:{member.client_port}"


def etcdctl(cluster: Cluster, *words: str) -> list[str]:
    """The command that asks its first member."""
    return [cluster.tool("etcdctl"), f"--endpoints={endpoint(cluster.first[0])}", *words]


def at_s3(s3: S3Server, bucket: str, key: str = "a/etcd.backup") -> Store:
    return Store("S3", bucket, key, secret="aws", endpoint=s3.endpoint, path_style=True)


def order_for(cluster: Cluster, store: Store, **changes: Any) -> Order:
    endpoints = tuple(endpoint(member) for member in cluster.first)
    return replace(
        Order("ns/b", "uid-b", endpoints, "spec.etcdEndpoints", store, timeout=60), **changes
    )


def restored(cluster: Cluster, file: Path, tmp_path: Path) -> dict[str, Any]:
    """What etcd's own tool of the same version makes of the file; it checks the hash as well."""
    tool = cluster.tool("etcdutl")
    target = tmp_path / "restored"
    subprocess.run([tool, "snapshot", "restore", str(file), f"--data-dir={target}"], check=True,
                   capture_output=True)  # fmt: skip
    status = subprocess.run([tool, "snapshot", "status", str(file), "-w", "json"], check=True,
                            capture_output=True)  # fmt: skip
    return json.loads(status.stdout)


def lasting(store: Store) -> dict[int | str, tuple[str, str]]:
    """What is said of a failure that does not go away: the reason, and how the message begins."""
    return {
        403: ("StoreRefused", f"spec.s3.path: {store.bucket!r} refuses access ("),
        500: ("StoreUnreachable", "spec.s3.path: the store failed: "),
        503: ("StoreUnreachable", "spec.s3.path: the store failed: "),
        507: ("StoreRefused", "spec.s3.path: the store is full ("),
        "reset": ("StoreUnreachable", f"spec.s3.endpoint: {store.endpoint} cannot be reached: "),
        "slow": ("StoreUnreachable", f"spec.s3.endpoint: {store.endpoint} cannot be reached: "),
    }


def certificates(folder: Path, host: str) -> None:
    """An authority, and one certificate for both ends, in the keys of coreos's Secret."""
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    ca = ("-keyout", "ca.key", "-out", "etcd-client-ca.crt", "-subj", "/CN=ca")
    names = ("-addext", f"subjectAltName=IP:{host}", "-subj", "/CN=root")
    by = ("-CA", "etcd-client-ca.crt", "-CAkey", "ca.key")
    pair = ("-keyout", "etcd-client.key", "-out", "etcd-client.crt", *names, *by)
    for words in (ca, pair):
        command = ("openssl", "req", "-x509", *key, *words)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def encrypt(member: Member, certificates: Path) -> None:
    """Makes the member serve with the certificate, and require one of clients."""
    url = f"https://{member.url_host}:{member.client_port}"
    member.flags |= {
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "cert-file": str(certificates / "etcd-client.crt"),
        "key-file": str(certificates / "etcd-client.key"),
        "trusted-ca-file": str(certificates / "etcd-client-ca.crt"),
        "client-cert-auth": "true",
    }
