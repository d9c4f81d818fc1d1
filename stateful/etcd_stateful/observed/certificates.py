"""The certificates in a cluster's Secrets, without their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from etcd_stateful.observed.objects import Foreign, Live

Stage = Literal["", "overlap", "swapped"]
"""`overlap`: there is a successor, which signs nothing yet. `swapped`: the successor signs, and
certificates of the old authority are still trusted."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate in a Secret, without its key."""

    resource_version: str
    problem: str = ""
    """Which key of the Secret is wrong, and how; empty if the certificate is usable."""
    begins: float = 0.0
    ends: float = 0.0
    """Validity, in seconds since 1970. It ends with that of the signing authority, if earlier."""
    until: str = ""
    """`ends` as RFC 3339."""
    changes_at: float = inf
    """When `problem` changes by the passage of time: a certificate becomes valid or expires."""
    authority: str = ""
    """Digest of the certificate of the authority that signed it."""
    subject: str = ""
    """Its common name, which etcd takes as the user name while authentication is on."""
    signers: tuple[str, ...] = ()
    """Names, by subject and key, of the authorities beside it that have signed it or one of its
    intermediates: whoever trusts one of these trusts it."""
    authorities: tuple[str, ...] = ()
    """The same of all authorities beside it."""
    trusts: tuple[str, ...] = ()
    """Digests of the authorities beside it. For an authority: of those that should be beside each
    certificate that it has signed."""
    pinned: str = ""
    """The digest of `trusts`, if the Secret has a bundle file that is named after it."""
    kept: tuple[tuple[str, ...], ...] = ()
    """The authorities in each bundle file that is named after them, also in those that only pods
    from before a rotation mount."""
    leaf: str = ""
    """Digest of the certificate itself."""
    written: float = 0.0
    """When the operator copied an issuer's certificate into the Secret; 0 if it did not."""
    stage: Stage = ""
    """For an authority: how far its rotation is."""
    generation: int = 1
    """For an authority: its number, starting at 1."""
    successors_problem: str = ""
    """For an authority: why its successor could not sign now; empty if it could, or there is
    none."""


def usable(found: Certificate | None) -> Certificate | None:
    """The certificate, if there is one and nothing is wrong with it."""
    return found if found and not found.problem else None


@dataclass(frozen=True, slots=True)
class Issued:
    """A Certificate of cert-manager, and what was issued for it."""

    certificate: Live | None = None
    found: Certificate | None = None
    """The certificate in the Secret that cert-manager writes."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates that the cluster's links need, as far as they exist."""

    now: float
    """When they were read, in seconds since 1970."""

    secrets: Mapping[str, Mapping[str, Certificate]] = field(default_factory=dict)
    """By Secret and by role: a user may provide one Secret for both links."""

    taken: tuple[Foreign, ...] = ()
    """Secrets of other owners that have names which the requested TLS needs."""

    issued: Mapping[str, Issued] = field(default_factory=dict)
    """By the name of the Certificate, which is also that of its Secret."""

    why_not_asked: str = ""
    """Why Certificates cannot be created, if any are needed: for instance no cert-manager."""
