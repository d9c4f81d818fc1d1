"""Larger volumes: the claims ask for what `persistentVolumeClaimSpec` asks for, where that is more.

They ask for it whatever else goes on, as a full disk may be what everything waits for. Claims of
later members come with the size that the StatefulSet was made with, which Kubernetes never changes,
and ask for more once they are bound.

Whether a volume can grow is its StorageClass' to say, and the API server's to tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from etcd_stateful.api.quantity import is_less, parse_quantity
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import ExpandClaim, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim

ROOM: Final = 2
"""Times its size that a database needs while a member fetches a snapshot of it."""


def smaller(seen: Observation) -> tuple[Claim, ...]:
    """The members' claims whose volume has less room than is declared."""
    if not seen.cluster.durable:
        return ()
    declared = seen.cluster.storage
    return tuple(claim for claim in _own(seen) if is_less(claim.capacity, declared))


def unasked(seen: Observation) -> tuple[Claim, ...]:
    """Of these, those that do not ask for it themselves."""
    declared = seen.cluster.storage
    return tuple(claim for claim in smaller(seen) if is_less(claim.requested, declared))


def _own(seen: Observation) -> Iterator[Claim]:
    """The API server takes such an edit of no other: a claim must be bound, and stay."""
    for claim in seen.claims:
        whose = claim.record.cluster_uid if claim.record else claim.cluster_uid
        stays = claim.ordinal < seen.replicas and not claim.deleting
        if whose == seen.cluster.uid and claim.phase == "Bound" and stays:
            yield claim


def least(seen: Observation) -> str:
    """The size of the smallest of the members' volumes; empty where none is known."""
    sizes = {claim.capacity: parse_quantity(claim.capacity) for claim in _own(seen)}
    known = [(size, text) for text, size in sizes.items() if size is not None]
    return min(known)[1] if known else ""


def next_claim(seen: Observation) -> Step | None:
    """The next claim that may ask for more."""
    declared = seen.cluster.storage
    for claim in unasked(seen):
        if not claim.fixed:
            reason = f"claim {claim.name} asks for {declared} instead of {claim.requested}"
            return ExpandClaim.of(claim, declared, reason)
    return None


def lacks_room(seen: Observation, claim: Claim | None) -> bool:
    """Whether a member would fail there for lack of space, until the volume has grown."""
    if claim is None or claim.fixed or claim not in smaller(seen):
        return False
    capacity = parse_quantity(claim.capacity)
    largest = max((status.db_size for status in seen.statuses.values()), default=0)
    return capacity is not None and capacity < ROOM * largest


def outcome(seen: Observation) -> Step | None:
    """What became of it: who cannot grow, and who has not grown yet."""
    small = smaller(seen)
    if fixed := tuple(claim for claim in small if claim.fixed):
        return _fixed(seen, fixed)
    return to_grow(seen, small[0]) if small else None


def to_grow(seen: Observation, claim: Claim) -> Wait:
    return Wait(
        f"the volume of claim {claim.name} to grow from {claim.capacity} to "
        f"{seen.cluster.storage}; kubectl describe pvc {claim.name} says how far it is"
    )


def _fixed(seen: Observation, claims: tuple[Claim, ...]) -> Hold:
    names = ", ".join(f"{one.name} ({one.capacity})" for one in claims)
    return Hold(
        "StorageFixed",
        f"spec.pod.persistentVolumeClaimSpec asks for {seen.cluster.storage}, and {names} cannot "
        f"grow. Put the old size back, {least(seen)}, or allow volume expansion in the "
        f"StorageClass. The API server says: {claims[0].fixed}",
    )
