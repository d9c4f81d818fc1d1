"""Larger volumes: the claims ask for what `persistentVolumeClaimSpec` asks for, where that is more.

They ask for it whatever else goes on, as a full disk may be what everything waits for. Claims of
later members come with the size that the StatefulSet was made with, which Kubernetes never changes,
and ask for more once they are bound.

Whether a volume can grow is its StorageClass' to say, and the API server's to tell.

A size that a volume never came to have may be taken back: the claim then asks for what is declared,
and for no less than its volume has. From Kubernetes 1.32 on, and only for more than that
(RecoverVolumeExpansionFailure); so this, too, is the API server's to tell. What a person has had a
claim ask for stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from etcd_stateful.api.quantity import is_less, parse_quantity, same_quantity
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


def taken_back(seen: Observation) -> tuple[Claim, ...]:
    """The claims that ask for more than `back_to` says, as the operator had them do."""
    if not seen.cluster.durable:
        return ()
    ours = (claim for claim in _own(seen) if same_quantity(claim.requested, claim.raised))
    return tuple(claim for claim in ours if is_less(back_to(seen, claim), claim.requested))


def back_to(seen: Observation, claim: Claim) -> str:
    """What is declared, or what its volume has where that is more; empty where one is not known."""
    declared = seen.cluster.storage
    if parse_quantity(declared) is None:
        return ""
    return claim.capacity if not is_less(claim.capacity, declared) else declared


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
    """The next claim that may ask for another size."""
    declared = seen.cluster.storage
    for claim in unasked(seen):
        if not claim.fixed:
            reason = f"claim {claim.name} asks for {declared} instead of {claim.requested}"
            return ExpandClaim.of(claim, declared, reason)
    for claim in taken_back(seen):
        if not claim.fixed:
            less = back_to(seen, claim)
            reason = f"claim {claim.name} asks for {less} again instead of {claim.requested}"
            return ExpandClaim.of(claim, less, reason, less=True)
    return None


def lacks_room(seen: Observation, claim: Claim | None) -> bool:
    """Whether a member would fail there for lack of space, until the volume has grown."""
    if claim is None or claim not in smaller(seen) or (claim.fixed and claim in unasked(seen)):
        return False
    capacity = parse_quantity(claim.capacity)
    largest = max((status.db_size for status in seen.statuses.values()), default=0)
    return capacity is not None and capacity < ROOM * largest


def outcome(seen: Observation) -> Step | None:
    """What became of it: who cannot grow, and who has not grown yet."""
    if fixed := tuple(claim for claim in unasked(seen) if claim.fixed):
        return _fixed(seen, fixed)
    small = smaller(seen)
    if not small:
        return None
    wait, kept = to_grow(seen, small[0]), still_asked(seen)
    return replace(wait, reason=f"{wait.reason}; {kept}") if kept else wait


def still_asked(seen: Observation) -> str:
    """What claims go on asking for although it was taken back, in words; empty where nothing is."""
    kept = tuple(claim for claim in taken_back(seen) if claim.fixed)
    if not kept:
        return ""
    names = ", ".join(f"{claim.name} ({claim.requested})" for claim in kept)
    return (
        f"the size that was taken back is still asked for by {names}, and a volume that grows to "
        "it after all keeps it. From Kubernetes 1.32 on they ask for less if a size just above "
        f"that of the volumes is declared. The API server says: {kept[0].fixed}"
    )


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
