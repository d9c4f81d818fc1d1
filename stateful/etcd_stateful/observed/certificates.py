"""The certificates in a cluster's Secrets, without their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from etcd_stateful.observed.objects import Foreign, Live

Stage = Literal["", "overlap", "swapped"]
"""`overlap`: there is a successor, which signs nothing yet. `swapped`: it has taken over, and what
the one before has signed is still good."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate in a Secret, without its key."""

    resource_version: str
    problem: str = ""
    """Which key of the Secret is wrong, and how; empty for one that is as needed."""
    begins: float = 0.0
    ends: float = 0.0
    """Seconds since 1970. With whoever has signed it, if that ends earlier."""
    until: str = ""
    """`ends`, for people: RFC 3339."""
    turns: float = inf
    """When time alone changes `problem`: one of its files begins or ceases to be good."""
    authority: str = ""
    """Digest of the certificate of whoever signed it."""
    subject: str = ""
    """Its common name, which etcd takes for the name of a user once authentication is on."""
    trusts: tuple[str, ...] = ()
    """Digests of the authorities beside it. Of an authority: of those that should be beside each
    certificate that it has signed."""
    pinned: str = ""
    """The trust that its Secret has a file of its own for, if that is in force."""
    leaf: str = ""
    """Digest of the certificate itself."""
    written: float = 0.0
    """When the operator wrote it into its Secret, where another issued it; 0 where none says so."""
    stage: Stage = ""
    """Of an authority: how far its rotation is."""
    generation: int = 1
    """Of an authority: its number, from 1 on."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What was asked of cert-manager, and what has come of it."""

    certificate: Live | None = None
    found: Certificate | None = None
    """In the Secret that cert-manager writes."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Those that the cluster's links need and that are there."""

    now: float
    """The time they were looked at; seconds since 1970."""

    secrets: Mapping[str, Mapping[str, Certificate]] = field(default_factory=dict)
    """By the Secret's name and by what it is for: a user may serve both links from one Secret."""

    taken: tuple[Foreign, ...] = ()
    """Another owner's Secrets under names that are needed for the TLS that the spec asks for."""

    issued: Mapping[str, Issued] = field(default_factory=dict)
    """By the name that the Certificate and its Secret have."""

    why_not_asked: str = ""
    """Why Certificates of cert-manager cannot be asked for, where any are needed."""
