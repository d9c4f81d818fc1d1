"""`spec.TLS.rotation`: a human's word on when managed authorities are replaced, and how gently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etcd_stateful.api.reading import Problem, Reader
from etcd_stateful.api.tls import Wishes

DEFAULT_OVERLAP: Final = 86400
LONGEST_OVERLAP: Final = 30 * 86400
MOST_GENERATIONS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Rotation:
    """`peer` and `client` are the least generation that the link's authority is to have. A cluster
    that is created with one begins to count there."""

    peer: int = 0
    client: int = 0
    overlap: float = DEFAULT_OVERLAP
    """Seconds that clients get for each of two things: to trust the successor before anyone shows
    a certificate of it, and to show one themselves before the authority of before is dropped."""


BY_AGE: Final = Rotation()


def read_rotation(rotation: Reader) -> Rotation:
    """`spec.TLS.rotation`; without it authorities are replaced by their age."""
    return Rotation(
        rotation.number("peer", 0, 0, MOST_GENERATIONS),
        rotation.number("client", 0, 0, MOST_GENERATIONS),
        rotation.number("overlapSeconds", DEFAULT_OVERLAP, 0, LONGEST_OVERLAP),
    )


def without_effect(rotation: Rotation, wishes: Wishes) -> tuple[Problem, ...]:
    """What asks for the rotation of an authority that the spec does not want."""
    asked = (("peer", rotation.peer, wishes.peer), ("client", rotation.client, wishes.client))
    words = "is for managed certificates, and TLS asks for others, or none, on this link"
    return tuple(
        Problem(f"spec.TLS.rotation.{key}", words)
        for key, generation, wish in asked
        if generation and wish and wish.mode != "Managed"
    )
