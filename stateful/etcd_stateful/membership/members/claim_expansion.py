"""Volume expansion: claims of smaller volumes request the size in `persistentVolumeClaimSpec`.

They request it at once, whatever else is going on, because everything else may be waiting for a
full disk. A StatefulSet's claim template cannot be changed, so the claims of later members are
created with the original size. They too request more, once they are bound.

Whether a volume can be expanded depends on its StorageClass. If not, the API server refuses the
edit.

A size that the volume never reached can be lowered again, to the declared size but not below the
volume's capacity. Kubernetes allows that from 1.32 on (RecoverVolumeExpansionFailure), and only to
more than the capacity; here too the API server's answer decides. A size that somebody else
requested on a claim stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from etcd_stateful import naming
from etcd_stateful.api.quantity import is_less, parse_quantity, same_quantity
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.steps import ExpandClaim, Hold, Step, Wait
from etcd_stateful.observed.objects import Claim, Live
from etcd_stateful.observed.put_off import SIZE, of_size

ROOM: Final = 2
"""A volume needs room for this many times the database while a member receives a snapshot of it."""


def undersized(seen: Observation) -> tuple[Claim, ...]:
    """The members' claims whose volume is smaller than declared."""
    if not seen.cluster.durable:
        return ()
    declared = seen.cluster.storage
    return tuple(claim for claim in _resizable(seen) if is_less(claim.capacity, declared))


def unrequested(seen: Observation) -> tuple[Claim, ...]:
    """Those of `undersized` whose request is below the declared size as well."""
    declared = seen.cluster.storage
    return tuple(claim for claim in undersized(seen) if is_less(claim.requested, declared))


def to_lower(seen: Observation) -> tuple[Claim, ...]:
    """The claims that the operator made request more than they should by now (`lowered_size`)."""
    if not seen.cluster.durable:
        return ()
    ours = (claim for claim in _resizable(seen) if same_quantity(claim.requested, claim.raised))
    return tuple(claim for claim in ours if is_less(lowered_size(seen, claim), claim.requested))


def lowered_size(seen: Observation, claim: Claim) -> str:
    """The size to lower the request to: the declared size, or the volume's capacity if that is
    larger. Empty if one of the two is unknown."""
    declared = seen.cluster.storage
    if parse_quantity(declared) is None:
        return ""
    return claim.capacity if not is_less(claim.capacity, declared) else declared


def _resizable(seen: Observation) -> Iterator[Claim]:
    """The cluster's own claims whose size may be changed: the API server accepts that for bound
    claims only."""
    for claim in seen.claims:
        whose = claim.record.cluster_uid if claim.record else claim.cluster_uid
        used = claim.ordinal < seen.replicas or _is_used_by_job(seen, claim)
        bound = claim.phase == "Bound" and not claim.deleting
        if whose == seen.cluster.uid and bound and used:
            yield claim


def _is_used_by_job(seen: Observation, claim: Claim) -> bool:
    """Whether it is the survivor's, or the first of a cluster that starts from a backup. There are
    no replicas then, and the volume may have turned out to be too small."""
    record, name = seen.bootstrap, naming.pod(seen.cluster.name, claim.ordinal)
    if record is None:
        return False
    return name == record.survivor or (record.restoring and claim.ordinal == 0)


def smallest_volume(seen: Observation) -> str:
    """The capacity of the smallest of the members' volumes; empty if none is known."""
    sizes = {claim.capacity: parse_quantity(claim.capacity) for claim in _resizable(seen)}
    known = [(size, text) for text, size in sizes.items() if size is not None]
    return min(known)[1] if known else ""


def next_claim(seen: Observation) -> Step | None:
    """Changes the requested size of the next claim that needs it."""
    declared = seen.cluster.storage
    for claim in unrequested(seen):
        if not (claim.fixed or _is_put_off(seen, claim, declared)):
            reason = f"claim {claim.name} requests {declared} instead of {claim.requested}"
            return ExpandClaim.of(claim, declared, reason)
    for claim in to_lower(seen):
        less = lowered_size(seen, claim)
        if not (claim.fixed or _is_put_off(seen, claim, less)):
            reason = f"claim {claim.name} requests {less} again instead of {claim.requested}"
            return ExpandClaim.of(claim, less, reason, less=True)
    return None


def _is_put_off(seen: Observation, claim: Claim, storage: str) -> bool:
    """Whether the same request has just failed, or somebody undoes it each time: a dry run does not
    tell that, as where a webhook leaves dry runs alone."""
    off = seen.put_off.get((SIZE, claim.name))
    return off is not None and off.is_of(of_size(claim.uid, storage))


def not_in_template(seen: Observation) -> str:
    """That claims are not made with the declared size, if some have yet to be made or to get a
    volume: those cannot grow. Empty if none is left, or the template has that size."""
    live = seen.stateful_set
    if live is None or not seen.cluster.durable:
        return ""
    declared, made = seen.cluster.storage, _in_template(live)
    claims = [seen.claim(ordinal) for ordinal in range(seen.replicas)]
    left = [one for one in claims if one is None or one.phase == "Pending"]
    if not (left and made) or same_quantity(made, declared):
        return ""
    return (
        f"spec.pod.persistentVolumeClaimSpec asks for {declared}, but claims are made with {made}, "
        "as the StatefulSet keeps what it began with, and one grows only once it has a volume"
    )


def _in_template(live: Live) -> str:
    """The size of the claims that the StatefulSet controller makes; empty if it makes none."""
    templates = live["spec"].get("volumeClaimTemplates") or ()
    return next((str(one["spec"]["resources"]["requests"]["storage"]) for one in templates), "")


def lacks_room(seen: Observation, claim: Claim | None) -> bool:
    """Whether a member would run out of space on this volume until it has been expanded."""
    if (
        claim is None
        or claim not in undersized(seen)
        or (claim.fixed and claim in unrequested(seen))
    ):
        return False
    capacity = parse_quantity(claim.capacity)
    largest = max((status.db_size for status in seen.statuses.values()), default=0)
    return capacity is not None and capacity < ROOM * largest


def not_expanded(seen: Observation) -> Step | None:
    """Says which volumes cannot be expanded, and which have yet to be."""
    if fixed := tuple(claim for claim in unrequested(seen) if claim.fixed):
        return _not_expandable(seen, fixed)
    small = undersized(seen)
    if not small:
        return None
    wait, kept = to_grow(seen, small[0]), not_lowered(seen)
    return replace(wait, reason=f"{wait.reason}; {kept}") if kept else wait


def not_lowered(seen: Observation) -> str:
    """Which claims still request a size that the spec no longer asks for, because the API server
    refuses to lower it; empty if none."""
    kept = tuple(claim for claim in to_lower(seen) if claim.fixed)
    if not kept:
        return ""
    names = ", ".join(f"{claim.name} ({claim.requested})" for claim in kept)
    return (
        f"{names} still request a size that the spec no longer asks for, and a volume that is "
        "expanded to it keeps it. From Kubernetes 1.32 on it can be lowered: declare a size just "
        f"above that of the volumes. The API server says: {kept[0].fixed}"
    )


def to_grow(seen: Observation, claim: Claim) -> Wait:
    return Wait(
        f"the volume of claim {claim.name} to grow from {claim.capacity} to "
        f"{seen.cluster.storage}; see kubectl describe pvc {claim.name}"
    )


def _not_expandable(seen: Observation, claims: tuple[Claim, ...]) -> Hold:
    names = ", ".join(f"{one.name} ({one.capacity})" for one in claims)
    return Hold(
        "StorageFixed",
        f"spec.pod.persistentVolumeClaimSpec asks for {seen.cluster.storage}, but {names} cannot "
        f"be expanded. Change the size back to {smallest_volume(seen)}, or allow volume expansion "
        f"in the StorageClass. The API server says: {claims[0].fixed}",
    )
