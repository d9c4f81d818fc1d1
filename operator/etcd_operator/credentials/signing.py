"""Makes keys and certificates as `etcd_stateful.certificates` describes them.

Pure except for the random keys. Each certificate gets a new key, which is never logged.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from etcd_operator.credentials import authorities
from etcd_operator.credentials.pem import certificates
from etcd_operator.credentials.signers import extension
from etcd_stateful.certificates import (
    AUTHORITY_FILES,
    BACKDATED,
    GENERATION_FILE,
    CertificateSpec,
    pinned_file,
    trust_of,
)

LONGEST_SUBJECT: Final = 64
"""The limit for a common name, by RFC 5280."""


_SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
"""The kinds that `checking` accepts. Only others' authorities have keys of the latter two."""


class CannotSign(Exception):
    """The authority's Secret lacks what is needed to sign."""


def make(
    need: CertificateSpec, authority: Mapping[str, bytes], now: float, generation: int = 1
) -> dict[str, bytes]:
    """Makes the content of the Secret; raises CannotSign.

    Args:
        authority: the content of the authority's Secret; unused if an authority is made.
        generation: the number of the authority, if one is made.
    """
    if need.role == "authority":
        return _make_authority(need, now, generation)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _leaf(need, key, authority, now)
    try:
        trusted = authorities.trusted(authority)
    except ValueError:
        raise CannotSign(f"Secret {need.signed_by} holds no authority") from None
    bundle = b"".join(map(_pem, trusted))
    return {
        need.files.authority: bundle,
        need.files.certificate: _pem(certificate),
        need.files.key: _key_pem(key),
        **_pinned(need, authority, trusted, bundle),
    }


def _make_authority(need: CertificateSpec, now: float, generation: int) -> dict[str, bytes]:
    """Each generation has its own subject."""
    key = ec.generate_private_key(ec.SECP256R1())
    number = f"-{generation}" if generation > 1 else ""
    name = _name(need.subject[: LONGEST_SUBJECT - len(number)] + number)
    certificate = (
        _builder(name, name, key, now, now + need.seconds)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return {
        need.files.certificate: _pem(certificate),
        need.files.key: _key_pem(key),
        **({GENERATION_FILE: str(generation).encode()} if generation > 1 else {}),
    }


def _pinned(
    need: CertificateSpec,
    authority: Mapping[str, bytes],
    trusted: list[x509.Certificate],
    bundle: bytes,
) -> dict[str, bytes]:
    """The bundle once more under its pinned name, for pods; only from the first rotation on."""
    rotated = len(trusted) > 1 or authorities.generation(authority) > 1
    if not rotated or not need.is_mounted:
        return {}
    return {pinned_file(need.files.authority, trust_of(map(authorities.digest, trusted))): bundle}


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _leaf(
    need: CertificateSpec,
    key: ec.EllipticCurvePrivateKey,
    authority: Mapping[str, bytes],
    now: float,
) -> x509.Certificate:
    signer, signing_key = _signer(need, authority)
    ends = min(now + need.seconds, signer.not_valid_after_utc.timestamp())
    builder = (
        _builder(_name(need.subject), signer.subject, key, now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_extended(need)), critical=False)
        .add_extension(_identifier(signer), critical=False)
    )
    if names := _alternatives(need):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    hashed = None if isinstance(signing_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(signing_key, hashed)


def _identifier(signer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """By the signer's own identifier. An authority that was put in place of ours may have none."""
    own = extension(signer, x509.SubjectKeyIdentifier)
    if own is None:
        own = x509.SubjectKeyIdentifier.from_public_key(signer.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _signer(
    need: CertificateSpec, authority: Mapping[str, bytes]
) -> tuple[x509.Certificate, _SigningKey]:
    try:
        certificate = certificates(authority[AUTHORITY_FILES.certificate])[0]
        key = serialization.load_pem_private_key(authority[AUTHORITY_FILES.key], password=None)
    except (KeyError, ValueError, TypeError):
        # Not chained: the parser's message may quote its input.
        raise CannotSign(f"Secret {need.signed_by} holds no authority") from None
    if not isinstance(key, _SigningKey):
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
        .not_valid_before(datetime.fromtimestamp(begins, UTC) - timedelta(seconds=BACKDATED))
        .not_valid_after(datetime.fromtimestamp(ends, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternatives(need: CertificateSpec) -> list[x509.GeneralName]:
    addresses = (x509.IPAddress(ipaddress.ip_address(one)) for one in need.addresses)
    return [*(x509.DNSName(name) for name in need.names), *addresses]


def _extended(need: CertificateSpec) -> list[x509.ObjectIdentifier]:
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
