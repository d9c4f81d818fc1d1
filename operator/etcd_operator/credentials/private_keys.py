"""Checks whether the private key in a Secret is the certificate's, and of a kind that can be used.

No message quotes a key, nor a parser's message, which may.
"""

from __future__ import annotations

from collections.abc import Mapping

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from etcd_operator.credentials.pem import etcd_needs, private_key
from etcd_operator.credentials.signers import Unusable
from etcd_stateful.certificates import CertificateSpec

SMALLEST_RSA = 1024
LARGEST_RSA = 4096
"""The primes of a key are tested, in the event loop: at 20,000 bits that takes a minute."""

LONGEST_KEY = 16 * 1024
"""Bytes of a private key in PEM form."""

KINDS = f"ECDSA P-256, P-384 or P-521, Ed25519, or RSA of {SMALLEST_RSA} to {LARGEST_RSA} bits"
SERVERS = "take ECDSA P-256 or P-384, or RSA"


def check_key(need: CertificateSpec, data: Mapping[str, bytes], leaf: x509.Certificate) -> None:
    """Raises Unusable if it is not the key of this certificate, or of no use to etcd or us."""
    name = need.files.key
    try:
        _check_size(name, data[name])
        key = serialization.load_pem_private_key(private_key(data[name]), password=None)
    except Unusable:
        raise
    except (KeyError, ValueError, TypeError, UnsupportedAlgorithm):
        # Not chained: the parser's message may quote its input.
        words = f"is not a private key in PEM form without a password{etcd_needs(data[name])}"
        raise Unusable(f"{name} {words}") from None
    if key.public_key() != leaf.public_key():
        raise Unusable(f"{name} is not the key of {need.files.certificate}")
    if not _is_of_a_kind_for_tls(key):
        raise Unusable(f"{name} is of a kind that etcd cannot use; take {KINDS}")
    if need.role == "server" and not _is_of_a_kind_for_grpc(key):
        raise Unusable(f"{name} is of a kind with which the operator could not connect; {SERVERS}")


def _check_size(name: str, pem: bytes) -> None:
    """Raises Unusable for a key that would take long to load, and ValueError and others for none.

    The first look at a key does not test its primes. Nothing is done with it but to read numbers.
    """
    if len(pem) > LONGEST_KEY:
        raise Unusable(f"{name} has {len(pem)} bytes; at most {LONGEST_KEY} are accepted")
    key = serialization.load_pem_private_key(
        private_key(pem), password=None, unsafe_skip_rsa_key_validation=True
    )
    if not isinstance(key, rsa.RSAPrivateKey):
        return
    if key.key_size > LARGEST_RSA:
        raise Unusable(f"{name} is an RSA key of {key.key_size} bits; take {KINDS}")
    numbers = key.private_numbers()
    if numbers.p * numbers.q != numbers.public_numbers.n:
        raise ValueError("its primes are of another key")


def _is_of_a_kind_for_tls(key: object) -> bool:
    """Whether Go's TLS, and so etcd, can use certificates with such a key."""
    match key:
        case ec.EllipticCurvePrivateKey():
            return isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1)
        case rsa.RSAPrivateKey():
            return key.key_size >= SMALLEST_RSA
        case _:
            return isinstance(key, ed25519.Ed25519PrivateKey)


def _is_of_a_kind_for_grpc(key: object) -> bool:
    """Whether gRPC's TLS connects to a server with such a key: it offers no other kinds."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    return isinstance(key, rsa.RSAPrivateKey)
