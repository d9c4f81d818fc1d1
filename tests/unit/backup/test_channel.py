"""What the Job of a backup presents to etcd, and whom it believes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from etcd_operator.backup import channel
from etcd_operator.credentials import signing
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.order import Order
from etcd_stateful.certificates import AUTHORITY_FILES, DAY, OPERATOR_FILES, CertificateSpec

AUTHORITY = CertificateSpec("authority", "ca", AUTHORITY_FILES, subject="ca", seconds=DAY)
ORDER = Order(
    "ns/b",
    "uid-b",
    (),
    "spec.etcdEndpoints",
    Store("S3", "bucket", "key"),
    client_secret="etcd-client-tls",
)
CLIENT = CertificateSpec("operator", "o", OPERATOR_FILES, calls=True, subject="root")


def renewed(old: dict[str, bytes]) -> bytes:
    """The same authority with the same name and key, valid for longer."""
    before = x509.load_pem_x509_certificate(old["ca.crt"])
    key = serialization.load_pem_private_key(old["ca.key"], None)
    builder = x509.CertificateBuilder(
        before.issuer,
        before.subject,
        before.public_key(),
        x509.random_serial_number(),
        before.not_valid_before_utc,
        before.not_valid_after_utc.replace(year=before.not_valid_after_utc.year + 9),
        list(before.extensions),
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)  # type: ignore[arg-type]


@pytest.fixture
def believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The authorities that the Job believes, of those in its Secret."""

    def of(*bundle: bytes) -> bytes:
        authority = signing.make(AUTHORITY, {}, time.time())
        for name, content in signing.make(CLIENT, authority, time.time()).items():
            (tmp_path / name).write_bytes(content)
        (tmp_path / "etcd-client-ca.crt").write_bytes(b"".join(bundle))
        seen: list[bytes] = []
        monkeypatch.setattr(grpc, "ssl_channel_credentials", lambda ca, *_: seen.append(ca))
        monkeypatch.setattr(channel, "secured", lambda *_: None)
        channel.open_channel(ORDER, "https://c-client:2379", str(tmp_path))
        return seen[0]

    return of


def test_no_backup_succeeded_once_an_authority_had_expired_that_was_renewed(
    believed: Any,
) -> None:
    """gRPC's TLS tried only the old one, the first of the name. Members and operator went on."""
    old = signing.make(AUTHORITY, {}, time.time() - 2 * DAY)
    new = renewed(old)

    assert believed(old["ca.crt"], new).split() == new.split()


def test_all_that_are_valid_are_believed_in_their_order(believed: Any) -> None:
    every = [signing.make(AUTHORITY, {}, time.time())["ca.crt"] for _ in range(3)]

    assert believed(*every) == b"".join(every)


def test_an_expired_authority_alone_stays_for_the_message_that_it_has_expired(
    believed: Any,
) -> None:
    old = signing.make(AUTHORITY, {}, time.time() - 2 * DAY)["ca.crt"]

    assert believed(old) == old
