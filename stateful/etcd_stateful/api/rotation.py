"""`spec.TLS.rotation`: requests to rotate managed authorities, and how long clients have for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etcd_stateful.api.reading import Problem, Reader
from etcd_stateful.api.tls import LinkName, RequestedLinks

DEFAULT_OVERLAP: Final = 86400
LONGEST_OVERLAP: Final = 30 * 86400
MOST_GENERATIONS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Rotation:
    """`peer` and `client` are the lowest generation that the authority of that link should have. A
    new cluster begins to count there."""

    peer: int = 0
    client: int = 0
    overlap: float = DEFAULT_OVERLAP
    """Seconds that clients have for each of two steps: to trust the new authority before members
    use its certificates, and to use one of its certificates before the old authority is dropped."""

    def of(self, link: LinkName) -> int:
        return self.peer if link == "peer" else self.client


BY_AGE: Final = Rotation()


def read_rotation(rotation: Reader) -> Rotation:
    """Reads `spec.TLS.rotation`; without it authorities are rotated by their age alone."""
    return Rotation(
        rotation.number("peer", 0, 0, MOST_GENERATIONS),
        rotation.number("client", 0, 0, MOST_GENERATIONS),
        rotation.number("overlapSeconds", DEFAULT_OVERLAP, 0, LONGEST_OVERLAP),
    )


def without_effect(rotation: Rotation, links: RequestedLinks) -> tuple[Problem, ...]:
    """Rotations that are requested for links without a managed authority."""
    asked = (("peer", rotation.peer, links.peer), ("client", rotation.client, links.client))
    words = "has no effect: spec.TLS does not ask for managed certificates on this link"
    return tuple(
        Problem(f"spec.TLS.rotation.{key}", words)
        for key, generation, wish in asked
        if generation and wish and wish.mode != "Managed"
    )
