"""What the Job of a backup presents to etcd, and whom it believes."""

from __future__ import annotations

import time
from concurrent import futures
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest
from aetcd import rpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from etcd_operator.backup import channel, source
from etcd_operator.backup.source import Source
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
        next(channel.open_channels(ORDER, "https://c-client:2379", str(tmp_path)))
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


def signed(subject: str, key: Any, issuer: str, by: Any) -> bytes:
    """A certificate that does not name the key of its signer."""
    name, of = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (subject, issuer)
    )
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        of,
        name,
        key.public_key(),
        x509.random_serial_number(),
        now - timedelta(hours=1),
        now + timedelta(days=1),
    )
    address = x509.IPAddress(ip_address("127.0.0.1"))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    is_ca = x509.BasicConstraints(ca=subject == issuer, path_length=None)
    made = builder.add_extension(is_ca, critical=True).sign(by, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def pem(key: Any) -> bytes:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_backup_did_not_connect_with_the_second_of_two_authorities_of_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """gRPC's TLS tries only the first, unless the members' certificate names the key of its signer.
    etcd and the operator had no trouble with them."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(4)]
    bundle = [signed("ca", key, "ca", key) for key in keys[:3]]
    serves, cert = pem(keys[3]), signed("etcd", keys[3], "ca", keys[place])
    content = zip(OPERATOR_FILES, (cert, serves, b"".join(bundle)), strict=True)
    for name, data in content:
        (tmp_path / name).write_bytes(data)

    def status(_: bytes, __: Any) -> bytes:
        header = rpc.ResponseHeader(cluster_id=1, member_id=2, revision=7)
        return bytes(rpc.StatusResponse(header=header, leader=9).SerializeToString())

    server = grpc.server(futures.ThreadPoolExecutor(1))
    methods = {"Status": grpc.unary_unary_rpc_method_handler(status)}
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("etcdserverpb.Maintenance", methods)]
    )
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(serves, cert)]))
    server.start()
    monkeypatch.setattr(
        source, "open_channels", partial(channel.open_channels, folder=str(tmp_path))
    )
    try:
        async with Source(replace(ORDER, endpoints=(f"https://127.0.0.1:{port}",))) as found:
            [member] = await found.members()
    finally:
        server.stop(None)

    assert member.answer.revision == 7
