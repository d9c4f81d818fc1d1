"""Keys and certificates, made as `etcd_stateful.certificates` describes them.

Pure but for the random keys. A key is drawn anew for each certificate; nothing of it is logged.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from etcd_stateful.certificates import AUTHORITY_FILES, Need

EARLIER: Final = 300.0
"""Certificates are good from a little before they are made, for clocks that are behind ours."""


class CannotSign(Exception):
    """The authority's Secret does not hold what it takes."""


def make(need: Need, authority: Mapping[str, bytes], now: float) -> dict[str, bytes]:
    """The content of the Secret.

    Args:
        authority: content of the Secret of the authority; not looked at for an authority itself.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    if need.role == "authority":
        certificate = _authority(need, key, now)
        signed_by = certificate
    else:
        certificate, signed_by = _leaf(need, key, authority, now)
    return {
        need.files.authority: signed_by.public_bytes(serialization.Encoding.PEM),
        need.files.certificate: certificate.public_bytes(serialization.Encoding.PEM),
        need.files.key: key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    }


def _authority(need: Need, key: ec.EllipticCurvePrivateKey, now: float) -> x509.Certificate:
    name = _name(need.subject)
    return (
        _builder(name, name, key, now, now + need.seconds)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    need: Need, key: ec.EllipticCurvePrivateKey, authority: Mapping[str, bytes], now: float
) -> tuple[x509.Certificate, x509.Certificate]:
    signer, signing_key = _signer(need, authority)
    ends = min(now + need.seconds, signer.not_valid_after_utc.timestamp())
    above = signer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_name(need.subject), signer.subject, key, now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_extended(need)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(above), critical=False
        )
    )
    if names := _alternatives(need):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signing_key, hashes.SHA256()), signer


def _signer(
    need: Need, authority: Mapping[str, bytes]
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(authority[AUTHORITY_FILES.certificate])
        key = serialization.load_pem_private_key(authority[AUTHORITY_FILES.key], password=None)
    except (KeyError, ValueError, TypeError):
        # Not chained: what the parser says may quote what it was given.
        raise CannotSign(f"Secret {need.signed_by} holds no authority") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CannotSign(f"Secret {need.signed_by} holds a key of another kind")
    return certificate, key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: float,
    ends: float,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(begins, UTC) - timedelta(seconds=EARLIER))
        .not_valid_after(datetime.fromtimestamp(ends, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternatives(need: Need) -> list[x509.GeneralName]:
    addresses = (x509.IPAddress(ipaddress.ip_address(one)) for one in need.addresses)
    return [*(x509.DNSName(name) for name in need.names), *addresses]


def _extended(need: Need) -> list[x509.ObjectIdentifier]:
    serves = [ExtendedKeyUsageOID.SERVER_AUTH] if need.serves else []
    return serves + ([ExtendedKeyUsageOID.CLIENT_AUTH] if need.calls else [])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
