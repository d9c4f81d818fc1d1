"""Larger volumes: the claims follow `persistentVolumeClaimSpec` where that asks for more.

The template that later claims are made from never changes in Kubernetes. So once all pods serve,
the StatefulSet is deleted without them, and is made again around them. The claims of the members
grow whatever else goes on: a full disk may be what all waits for. One after the other, so that a
driver that fails does so on one member's volume.

Whether a volume can grow is its StorageClass' to say, and the API server's to tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from etcd_stateful.api.quantity import is_less
from etcd_stateful.manifests.statefulset import storage_of
from etcd_stateful.membership import awaited
from etcd_stateful.membership.observation import Claim, Observation
from etcd_stateful.membership.steps import DeleteStatefulSet, ExpandClaim, Hold, Step, Wait


def smaller(seen: Observation) -> tuple[Claim, ...]:
    """This cluster's claims whose volume has less room than is declared."""
    if not seen.cluster.durable:
        return ()
    declared = seen.cluster.storage
    return tuple(claim for claim in _own(seen) if is_less(claim.capacity, declared))


def unasked(seen: Observation) -> tuple[Claim, ...]:
    """Of these, those that ask for too little themselves. The API server takes no such edit of a
    claim that is being deleted, or is not bound yet."""
    return tuple(one for one in smaller(seen) if not _is_growing(seen, one))


def _own(seen: Observation) -> Iterator[Claim]:
    for claim in seen.claims:
        whose = claim.record.cluster_uid if claim.record else claim.cluster_uid
        if whose == seen.cluster.uid and claim.phase == "Bound" and not claim.deleting:
            yield claim


def _is_growing(seen: Observation, claim: Claim) -> bool:
    return not is_less(claim.requested, seen.cluster.storage)


def next_claim(seen: Observation) -> Step | None:
    """The next claim is asked for more, once the one before has it."""
    small, declared = smaller(seen), seen.cluster.storage
    if any(_is_growing(seen, claim) for claim in small):
        return None
    for claim in small:
        if not claim.fixed:
            reason = f"claim {claim.name} asks for {declared} instead of {claim.requested}"
            return ExpandClaim.of(claim, declared, reason)
    return None


def template(seen: Observation) -> Step | None:
    """The StatefulSet makes way for one whose claims have the size that is declared.

    While all pods serve, as in between nobody makes one again; and before any is added.
    """
    live, declared = seen.stateful_set, seen.cluster.storage
    if live is None or seen.etcd is None or "deletionTimestamp" in live["metadata"]:
        return None
    made = storage_of(live)
    if not is_less(made, declared) or awaited.every_pod_serves(seen):
        return None
    name = seen.cluster.name
    reason = (
        f"StatefulSet {name} is made again around its running pods: its claims are to have "
        f"{declared} instead of {made}"
    )
    return DeleteStatefulSet.of_live(live, reason)


def outcome(seen: Observation) -> Step | None:
    """What became of it: who has not grown yet, and who cannot."""
    small = smaller(seen)
    if growing := next((one for one in small if _is_growing(seen, one)), None):
        return Wait(
            f"the volume of claim {growing.name} to grow from {growing.capacity} to "
            f"{seen.cluster.storage}; kubectl describe pvc {growing.name} says how far it is"
        )
    return _fixed(seen, small) if small else None


def _fixed(seen: Observation, claims: tuple[Claim, ...]) -> Hold:
    names = ", ".join(f"{one.name} ({one.capacity})" for one in claims)
    return Hold(
        "StorageFixed",
        f"spec.pod.persistentVolumeClaimSpec asks for {seen.cluster.storage}, and these claims "
        f"cannot grow: {names}. The API server: {claims[0].fixed}. Members that are added or "
        "replaced get what is asked for. For the others allow volume expansion in the "
        "StorageClass; or, in a cluster of three or more, delete one claim and its pod, wait until "
        "all members serve again, and go on with the next",
    )
