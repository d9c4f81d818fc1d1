"""Who has signed a certificate, and whether Go's TLS, and so etcd, would accept that."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtensionOID

from etcd_operator.credentials.pem import CERTIFICATES, blocks
from etcd_stateful.certificates import CertificateSpec

LARGEST_RSA_OF_AUTHORITY = 8192
"""Go's TLS verifies no signature with a larger key."""

LARGEST_EXPONENT = 2**31 - 1
"""Go parses no RSA key with a larger one. Signatures would also take a hundred times as long to
compare, in the event loop."""

CURVES = (ec.SECP224R1, ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
"""Go parses no certificate with a key of another curve."""

HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
"""Go verifies signatures over these alone."""

CRITICAL = (
    ExtensionOID.KEY_USAGE,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.NAME_CONSTRAINTS,
    ExtensionOID.CRL_DISTRIBUTION_POINTS,
    ExtensionOID.CERTIFICATE_POLICIES,
    ExtensionOID.POLICY_MAPPINGS,
    ExtensionOID.POLICY_CONSTRAINTS,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.INHIBIT_ANY_POLICY,
)
"""Go accepts no certificate with another extension that is critical."""

CONSTRAINED = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
"""The names that Go compares with name constraints. Constraints of others count as not known."""

MOST_COMPARISONS = 100_000
"""Of a certificate's names with the name constraints of a signer. Go compares more, but the check
would hold up every cluster."""


Kind = TypeVar("Kind", bound=x509.ExtensionType)


class Unusable(ValueError):
    """Why the certificate cannot be used. The message begins with the key of the Secret."""


def signers_of(
    need: CertificateSpec,
    leaf: x509.Certificate,
    chain: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
) -> list[x509.Certificate]:
    """The signers of the leaf, through the intermediates that follow it, up to an authority."""
    path = [leaf]
    for _ in range(len(chain) + 1):
        if found := _signer(path[-1], authorities):
            return [*path[1:], found]
        if (link := _signer(path[-1], chain)) is None:
            break
        path.append(link)
    files = need.files
    raise Unusable(f"{files.authority} has not signed {files.certificate}")


def _signer(
    certificate: x509.Certificate, among: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """The signer that is valid for the longest. If an authority was renewed with the same key, its
    old certificate may be beside the new one, and handshakes accept either."""
    found = (one for one in among if _has_signed(one, certificate))
    return max(found, key=lambda one: one.not_valid_after_utc, default=None)


def signers_among(
    authorities: Sequence[x509.Certificate], signed: Sequence[x509.Certificate]
) -> list[x509.Certificate]:
    """Those of the authorities that have signed one of these certificates."""
    return [one for one in authorities if any(_has_signed(one, below) for below in signed)]


def name_of(authority: x509.Certificate) -> str:
    """A name for it, which it keeps when it is renewed with the same key."""
    try:
        key = authority.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    except (ValueError, UnsupportedAlgorithm):  # of a kind that is not known here
        key = authority.public_bytes(serialization.Encoding.DER)
    return hashlib.sha256(authority.subject.public_bytes() + key).hexdigest()[:16]


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        if not _may_be_an_authoritys(authority.public_key()):
            return False
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _may_be_an_authoritys(key: object) -> bool:
    """Whether Go's TLS, and so etcd, verifies signatures with such a key."""
    if isinstance(key, rsa.RSAPublicKey):
        is_small = key.key_size <= LARGEST_RSA_OF_AUTHORITY
        return is_small and key.public_numbers().e <= LARGEST_EXPONENT
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, CURVES)
    return isinstance(key, ed25519.Ed25519PublicKey)


def extension(certificate: x509.Certificate, kind: type[Kind]) -> Kind | None:
    """The certificate's extension of this kind; None if it has none."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def check_signer(name: str, certificate: x509.Certificate, below: int) -> None:
    """Raises Unusable if it may not sign what it has signed.

    Args:
        below: how many authorities are between it and the leaf.
    """
    basic = extension(certificate, x509.BasicConstraints)
    if basic is None or not basic.ca:
        raise Unusable(f"{name} is not the certificate of an authority")
    if basic.path_length is not None and basic.path_length < below:
        raise Unusable(f"{name} may not sign other authorities, by its path length")
    usage = extension(certificate, x509.KeyUsage)
    if usage is not None and not usage.key_cert_sign:  # without one it is good for all
        raise Unusable(f"{name} lacks the key usage keyCertSign")


def check_constraints(name: str, certificate: x509.Certificate, leaf: x509.Certificate) -> None:
    """Raises Unusable if the signer's name constraints exclude a name of the leaf."""
    found = extension(certificate, x509.NameConstraints)
    names = extension(leaf, x509.SubjectAlternativeName)
    if found is None or names is None:
        return
    permitted, excluded = found.permitted_subtrees or (), found.excluded_subtrees or ()
    if len(names) * (len(permitted) + len(excluded)) > MOST_COMPARISONS:
        raise Unusable(f"{name} has too many name constraints")
    for one in names:
        same = [tree for tree in permitted if isinstance(tree, type(one))]
        is_permitted = not same or any(_is_within(one, tree) for tree in same)
        if not is_permitted or any(_is_within(one, tree) for tree in excluded):
            raise Unusable(f"{name} may not sign for {one.value}, by its name constraints")


def _is_within(name: x509.GeneralName, tree: x509.GeneralName) -> bool:
    match name, tree:
        case x509.DNSName(value=domain), x509.DNSName(value=ends):
            domain, ends = domain.lower(), ends.lower()
            if not ends or domain == ends:
                return True
            return domain.endswith(ends if ends.startswith(".") else f".{ends}")
        case x509.IPAddress(value=address), x509.IPAddress(value=network):
            nets = (ipaddress.IPv4Network, ipaddress.IPv6Network)
            return isinstance(network, nets) and address in network
        case _:
            return False


def check_signature(name: str, certificate: x509.Certificate) -> None:
    """Raises Unusable if Go's TLS does not verify signatures of this kind."""
    try:
        hashed = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        raise Unusable(f"{name} is signed in a way that etcd does not accept") from None
    if hashed is not None and not isinstance(hashed, HASHES):
        words = f"is signed with {hashed.name}, which etcd does not accept: take SHA-256"
        raise Unusable(f"{name} {words}")


def check_critical(name: str, certificate: x509.Certificate) -> None:
    """Raises Unusable for a critical extension that Go's TLS does not know."""
    for one in certificate.extensions:
        if one.critical and not _is_known(one):
            words = f"has the critical extension {one.oid.dotted_string}, which etcd does not know"
            raise Unusable(f"{name} {words}")


def _is_known(extension: x509.Extension[x509.ExtensionType]) -> bool:
    if not isinstance(value := extension.value, x509.NameConstraints):
        return extension.oid in CRITICAL
    trees = (*(value.permitted_subtrees or ()), *(value.excluded_subtrees or ()))
    return all(isinstance(one, CONSTRAINED) for one in trees)


def check_bundle(name: str, pem: bytes, authorities: Sequence[x509.Certificate]) -> None:
    """Raises Unusable for a file of authorities with which etcd does not start: it parses each
    block as a certificate, and ends if it cannot (`NewCertPool` in its `tlsutil`)."""
    ends = "with which etcd does not start: take that out"
    for label, _ in blocks(pem):
        if label not in CERTIFICATES:
            shown = label[:40].decode(errors="replace")
            raise Unusable(f"{name} also holds {shown}, {ends}")
    for one in authorities:
        try:
            key = one.public_key()
        except (ValueError, UnsupportedAlgorithm):
            continue  # Go parses certificates with keys of kinds that it does not know
        if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, CURVES):
            kind = key.curve.name
            raise Unusable(f"{name} holds an authority with a key of kind {kind}, {ends}")
