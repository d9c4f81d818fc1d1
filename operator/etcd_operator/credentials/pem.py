"""Finds the blocks of a PEM file that Go's parser finds, and so etcd.

OpenSSL, and the library that is used here, also accept what Go passes over: text before a BEGIN or
after an END on its line, indented lines, a byte order mark. etcd could load no such file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

_LINE: Final = re.compile(rb"^-----(BEGIN|END) ([^\n]*)", re.MULTILINE)
_LINE_ENDS: Final = b"-----"

CERTIFICATE: Final = frozenset({b"CERTIFICATE"})
"""Labels of certificates that Go finds in a file beside its key."""

CERTIFICATES: Final = CERTIFICATE | {b"X509 CERTIFICATE"}
"""Labels of certificates. In a file of authorities, etcd does not look at the label."""


def blocks(pem: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The label of each block, and the whole block."""
    label, begins = b"", -1
    for line in _LINE.finditer(pem):
        text = line[2].rstrip(b" \t\r")
        named = text.removesuffix(_LINE_ENDS) if text.endswith(_LINE_ENDS) else b""
        if line[1] == b"BEGIN":
            label, begins = named, line.start()
            continue
        if named and named == label:
            yield label, pem[begins : line.end()]
        label = b""


def certificates(pem: bytes, labels: frozenset[bytes] = CERTIFICATES) -> list[x509.Certificate]:
    """The certificates in a file. Raises ValueError and nothing else, whatever the bytes are."""
    found = b"\n".join(block for label, block in blocks(pem) if label in labels)
    try:
        return x509.load_pem_x509_certificates(found)
    except (x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from error


def private_key(pem: bytes) -> bytes:
    """The block with the private key; empty if there is none."""
    of_keys = (block for label, block in blocks(pem) if label.endswith(b"PRIVATE KEY"))
    return next(of_keys, b"")


def etcd_needs(pem: bytes) -> str:
    """What etcd needs in the file, which OpenSSL may read as it is; empty if that is not known."""
    if b"-----BEGIN " in pem and not any(blocks(pem)):
        return ": etcd needs each BEGIN and END on a line of its own"
    return ": etcd needs BEGIN CERTIFICATE" if b"-----BEGIN X509 CERTIFICATE" in pem else ""
