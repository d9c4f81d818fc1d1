"""The Secret of a managed authority during its rotation, and how each step changes it.

Pure: bytes go in and come out. The authority that signs is always under the same two keys. Its
successor or its predecessor is beside it, under other keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from etcd_operator.credentials.pem import certificates
from etcd_stateful.certificates import (
    AUTHORITY_FILES,
    GENERATION_FILE,
    PREDECESSOR_FILE,
    SUCCESSOR_FILES,
)
from etcd_stateful.membership.steps import RotationStep
from etcd_stateful.observed.certificates import Stage

OF_ROTATION: Final = (
    SUCCESSOR_FILES.certificate,
    SUCCESSOR_FILES.key,
    PREDECESSOR_FILE,
    GENERATION_FILE,
)
"""Keys of the Secret that a rotation adds."""

Changes = dict[str, bytes | None]
"""By key of the Secret; None for a key to remove."""


def trusted(data: Mapping[str, bytes]) -> list[x509.Certificate]:
    """The authorities to trust, oldest first; raises ValueError if one cannot be parsed."""
    names = (PREDECESSOR_FILE, AUTHORITY_FILES.certificate, SUCCESSOR_FILES.certificate)
    return [certificates(data[name])[0] for name in names if name in data]


def digest(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


def signer(data: Mapping[str, bytes]) -> str:
    """The digest of the authority that signs."""
    return digest(certificates(data[AUTHORITY_FILES.certificate])[0])


def stage(data: Mapping[str, bytes]) -> Stage:
    if SUCCESSOR_FILES.certificate in data or SUCCESSOR_FILES.key in data:
        return "overlap"
    return "swapped" if PREDECESSOR_FILE in data else ""


def generation(data: Mapping[str, bytes]) -> int:
    """The number of the authority, 1 if none is given; raises ValueError if it is invalid."""
    text = data.get(GENERATION_FILE, b"1")
    if not text.isdigit() or len(text) > 9 or not int(text):
        raise ValueError("not a generation")
    return int(text)


def rotated(
    kind: RotationStep, data: Mapping[str, bytes], generation: int, made: Mapping[str, bytes]
) -> Changes:
    """What a step of a rotation changes in the Secret.

    Args:
        generation: of the authority that signs afterwards.
        made: for the step `begin`, the content of the Secret of a new authority.
    """
    now, following = AUTHORITY_FILES, SUCCESSOR_FILES
    match kind:
        case "begin":
            certificate, key = made[now.certificate], made[now.key]
            return {following.certificate: certificate, following.key: key}
        case "take over":
            return {
                PREDECESSOR_FILE: data[now.certificate],
                now.certificate: data[following.certificate],
                now.key: data[following.key],
                GENERATION_FILE: str(generation).encode(),
                following.certificate: None,
                following.key: None,
            }
        case "end":
            return {PREDECESSOR_FILE: None}
