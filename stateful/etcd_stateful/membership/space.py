"""Gives back the space that etcd keeps: a member's file never shrinks by itself, and once it has
reached the quota etcd takes no more writes, however much of it is free.

    (MoveLeader ->) Defragment, one member after the other (-> DisarmAlarm)

A member answers nobody while it is defragmented, and waits first for whoever reads a snapshot from
it. So it is done to one at a time while all others serve, to the leader last and after it has
handed over (I8), and not during a backup. With fewer than three members nobody would be served
meanwhile: there it is left undone until etcd refuses writes anyway; so it is while certificates are
unusable, as a member that the kubelet restarts for its silence might not come back.

One that was asked a moment ago is not asked again, whatever came of it: a disk that is full would
be filled anew each time. But once etcd refuses writes, one that has less in use by now is: its file
shrank by what had never been used, and then somebody compacted the history. One whose volume is
known to be too small for a second file is not asked at all.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.api.quantity import parse_quantity
from etcd_stateful.jobs.restore import LOG_BYTES
from etcd_stateful.membership import bootstrap, certificates, changes, roll, roster
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Defragment, Hold, Step, Wait
from etcd_stateful.observed.members import MemberStatus

MIB: Final = 1024**2

LEAST: Final = 100 * MIB
WASTED: Final = 0.45
"""A file of at least so many bytes, of which such a share is free, is worth it: the measure of
OpenShift's operator for etcd (`defragcontroller.go`)."""

LEAST_WHEN_FULL: Final = MIB
WASTED_WHEN_FULL: Final = 0.1
"""What is worth it where etcd refuses writes."""

MOST: Final = 4096 * MIB
"""Bytes in use, all of which are written anew. The kubelet gives a member a minute of silence
before it kills it, and a slow disk writes no more in that time."""

ROOM: Final = 0.9
"""The share of the quota that a file may have for writes to be let in again: right below the quota
they would be refused again at once."""


def reclaim(seen: Observation) -> Step | None:
    """Asked when all members serve, and nothing else is left to do."""
    seat = None if seen.snapshots else _next(seen)
    if seat is None:
        return None
    if seat.leads and (step := changes.hand_over(seen, seat, f"{seat.name} is to be defragmented")):
        return step
    return _defragment(seen, seat, full=is_full(seen))


def awaited(seen: Observation) -> Step | None:
    """Told last: a backup may take hours, and what asks for a human is told meanwhile."""
    seat = _next(seen) if seen.snapshots else None
    if seat is None:
        return None
    backups = ", ".join(seen.snapshots)
    return Wait(f"the backup in pod {backups} to end, so that {seat.name} can be defragmented")


def _next(seen: Observation) -> Seat | None:
    """Whose turn it is; None where nobody's file is worth it, or this is not the time."""
    voters, full = roster.voters(seen), is_full(seen)
    if not seen.cluster.defragments or not all(seat.serves for seat in voters):
        return None
    if not full and len(voters) < roll.SPARING:
        return None
    rested = [seat for seat in voters if _is_rested(seen, seat, full=full)]
    worth = [seat for seat in rested if seat.status and _is_wasteful(seat.status, full=full)]
    due = [seat for seat in worth if not _is_cramped(seen, seat)]
    if due and not full and certificates.unusable(seen):
        return None
    return min(due, key=lambda one: (one.leads, one.ordinal), default=None)


def _is_rested(seen: Observation, seat: Seat, *, full: bool) -> bool:
    before = seen.defragmented.get(seat.name)
    if before is None:
        return True
    used = seat.status.db_size_in_use if seat.status else before
    return full and used <= (1 - WASTED_WHEN_FULL) * before


def _is_wasteful(status: MemberStatus, *, full: bool) -> bool:
    free = status.db_size - status.db_size_in_use
    if not 0 < status.db_size_in_use <= MOST:
        return False
    if full:
        return free >= max(LEAST_WHEN_FULL, WASTED_WHEN_FULL * status.db_size)
    return status.db_size >= LEAST and free >= WASTED * status.db_size


def _is_cramped(seen: Observation, seat: Seat) -> bool:
    """Whether its volume may lack the room for a second file. Where one is full, etcd ends; a pod
    whose emptyDir grows above its limit is evicted, and its data goes with it."""
    if seat.status is None:
        return False
    claimed = seat.claim.capacity if seat.durable and seat.claim else ""
    limit = str((seen.cluster.pod.empty_dir or {}).get("sizeLimit", ""))
    volume = parse_quantity(claimed or limit)
    needed = seat.status.db_size + seat.status.db_size_in_use + LOG_BYTES
    return volume is not None and 0 < volume < needed


def _defragment(seen: Observation, seat: Seat, *, full: bool) -> Step | None:
    member = changes.voter(seen, seat)
    if member is None or seat.status is None:
        return None
    why = "etcd refuses writes for want of space, and" if full else "so that its file shrinks:"
    words = f"{seat.name} is defragmented, {why} much of it is free"
    return Defragment(member, seat.name, seat.status.db_size_in_use, words)


def is_full(seen: Observation) -> bool:
    """Whether etcd refuses writes because a member has reached the quota."""
    return any(alarm.kind == "NOSPACE" for alarm in seen.alarms)


def has_room(seen: Observation) -> bool:
    """Whether every member that votes says that its file is well below the quota it runs with."""
    voters, declared = roster.voters(seen), bootstrap.as_running(seen).template_hash
    return bool(voters) and all(_is_roomy(seen, seat, declared) for seat in voters)


def _is_roomy(seen: Observation, seat: Seat, declared: str) -> bool:
    """Also by what its pod was made with: the template may not know of the declared quota yet, or
    be refused with it."""
    if not seat.serves or seat.status is None or seat.pod is None:
        return False
    quota = seen.cluster.etcd.quota_bytes
    if seat.pod.spec_hash != declared:
        quota = min(quota, seat.pod.quota)
    return seat.status.db_size <= ROOM * quota


def full(seen: Observation) -> Step | None:
    """Nothing is left to give back, or not before a backup has ended."""
    if not is_full(seen):
        return None
    if step := awaited(seen):
        return step
    large = any(status.db_size_in_use > MOST for status in seen.statuses.values())
    then = (
        "then the operator defragments the members and lets writes in again"
        if seen.cluster.defragments and not large
        else "then defragment the members, one after the other (etcdctl defrag)"
    )
    return Hold(
        "NoSpace",
        "etcd refuses writes: a member's database has reached spec.etcd.quotaBackend "
        f"({seen.cluster.etcd.quota_bytes // MIB} MiB). Raise it, if the volumes have the room; or "
        f"delete keys and compact the history (etcdctl compact), {then}{_too_small(seen)}",
    )


def _too_small(seen: Observation) -> str:
    """Which volumes have no room for it, in words."""
    cramped = [
        one
        for one in roster.voters(seen)
        if one.status and _is_wasteful(one.status, full=True) and _is_cramped(seen, one)
    ]
    words = ". A second file with what is in use does not fit on the volume of "
    return words + roster.in_words(cramped) if cramped else ""
