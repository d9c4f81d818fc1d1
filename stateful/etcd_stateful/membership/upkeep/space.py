"""Defragments members: a database file never shrinks by itself, and once it has reached the quota,
etcd refuses writes, however much of the file is free.

    (MoveLeader ->) Defragment, one member after the other (-> DisarmAlarm)

A member serves nobody while it is defragmented, and first waits for clients that read a snapshot
from it. So one member is defragmented at a time, while all others serve; the leader comes last,
after it has moved leadership (I8). It is not done during a backup. With fewer than three members
nobody would be served meanwhile, so there it is left until etcd refuses writes anyway. So it is
while certificates are unusable: the kubelet may restart the silent member, which might not come
back.

A member that was defragmented a moment ago is left alone, successful or not: on a full disk each
attempt would fill it again. There is one exception: if etcd refuses writes, and the member has less
in use than it had then, because somebody has compacted the history since. A member whose volume
is too small for a second file is never defragmented.
"""

from __future__ import annotations

from typing import Final

from etcd_stateful.api.quantity import parse_quantity
from etcd_stateful.jobs.restore import LOG_BYTES
from etcd_stateful.membership import roster, wording
from etcd_stateful.membership.beginning import bootstrap
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.rolling import roll
from etcd_stateful.membership.roster import Seat
from etcd_stateful.membership.steps import Defragment, Hold, Step, Wait
from etcd_stateful.membership.tls import certificates
from etcd_stateful.membership.upkeep import by_hand
from etcd_stateful.observed.members import MemberStatus

MIB: Final = 1024**2

LEAST: Final = 100 * MIB
WASTED: Final = 0.45
"""A file of at least this many bytes is defragmented if this share of it is free: the thresholds of
OpenShift's cluster-etcd-operator (`defragcontroller.go`)."""

LEAST_WHEN_FULL: Final = MIB
WASTED_WHEN_FULL: Final = 0.1
"""The same thresholds while etcd refuses writes."""

MOST: Final = 4096 * MIB
"""The most bytes in use, as all of them are rewritten. The kubelet kills a member after a minute of
silence, and a slow disk writes no more than this in that time."""

ROOM: Final = 0.9
"""The alarm is disarmed only when the file is below this share of the quota: just below the quota,
writes would be refused again at once."""


def reclaim(seen: Observation) -> Step | None:
    """Defragments the next member. Asked when all members serve and nothing else is left to do."""
    seat = None if seen.snapshots else _next(seen)
    if seat is None:
        return None
    if seat.leads and (step := changes.hand_over(seen, seat, f"{seat.name} is to be defragmented")):
        return step
    return _defragment(seen, seat)


def reclaim_for_writes(seen: Observation) -> Step | None:
    """`reclaim` while etcd refuses writes. Asked before everything that may wait long for something
    else, such as a pod that no node has room for. Not while data differs: that comes first."""
    others = any(alarm.kind != "NOSPACE" for alarm in seen.alarms)
    return reclaim(seen) if seen.is_full and not (others or _is_copied(seen)) else None


def _is_copied(seen: Observation) -> bool:
    """Whether a learner runs that has yet to catch up. The leader may be sending it the whole file,
    and a defragmentation would wait for that."""
    seat = roster.learner(seen)
    if seat is None or seat.pod is None or roster.has_caught_up(seen, seat):
        return False
    return seat.pod.runs_undisturbed


def running_backup(seen: Observation) -> Step | None:
    """Waits for a backup to end. Asked last: that may take hours, and anything that needs the user
    is more important."""
    seat = _next(seen) if seen.snapshots else None
    if seat is None:
        return None
    backups = ", ".join(seen.snapshots)
    return Wait(f"the backup in pod {backups} to end, so that {seat.name} can be defragmented")


def _next(seen: Observation) -> Seat | None:
    """The member to defragment next; None if no file is worth it, or this is not the time."""
    voters, full = roster.voters(seen), seen.is_full
    if not seen.cluster.defragments or not all(roster.counts(seen, seat) for seat in voters):
        return None
    if not full and len(voters) < roll.SPARING:
        return None
    rested = [seat for seat in voters if _is_rested(seen, seat)]
    worth = [seat for seat in rested if seat.status and _is_wasteful(seat.status, full=full)]
    due = [seat for seat in worth if not _is_cramped(seen, seat)]
    if due and not full and certificates.unusable(seen):
        return None
    return min(due, key=lambda one: (one.leads, one.ordinal), default=None)


def _is_rested(seen: Observation, seat: Seat) -> bool:
    before = seen.defragmented.get(seat.name)
    if before is None:
        return True
    used = seat.status.db_size_in_use if seat.status else before
    return seen.is_full and used <= (1 - WASTED_WHEN_FULL) * before


def _is_wasteful(status: MemberStatus, *, full: bool) -> bool:
    free = status.db_size - status.db_size_in_use
    if not 0 < status.db_size_in_use <= MOST:
        return False
    if full:
        return free >= max(LEAST_WHEN_FULL, WASTED_WHEN_FULL * status.db_size)
    return status.db_size >= LEAST and free >= WASTED * status.db_size


def _is_cramped(seen: Observation, seat: Seat) -> bool:
    """Whether its volume may be too small for a second file. etcd exits when the volume is full,
    and a pod whose emptyDir exceeds its limit is evicted and loses its data."""
    if seat.status is None:
        return False
    claimed = seat.claim.capacity if seat.durable and seat.claim else ""
    limit = str((seen.cluster.pod.empty_dir or {}).get("sizeLimit", ""))
    volume = parse_quantity(claimed or limit)
    needed = seat.status.db_size + seat.status.db_size_in_use + LOG_BYTES
    return volume is not None and 0 < volume < needed


def _defragment(seen: Observation, seat: Seat) -> Step | None:
    member = changes.voter(seen, seat)
    if member is None or seat.status is None:
        return None
    why = "as etcd refuses writes (NOSPACE):" if seen.is_full else "so that its file shrinks:"
    words = f"{seat.name} is defragmented, {why} much of it is free"
    return Defragment(member, seat.name, seat.status.db_size_in_use, words)


def has_room(seen: Observation) -> bool:
    """Whether the files of all voters that run are well below the quota that they run with. If one
    that is away is full, it raises the alarm again itself, once it is back."""
    running = [seat for seat in roster.voters(seen) if _may_run(seat)]
    declared = bootstrap.at_running_version(seen).template_hash
    return bool(running) and all(_is_roomy(seen, seat, declared) for seat in running)


def _may_run(seat: Seat) -> bool:
    pod = seat.pod
    return pod is not None and pod.runs_etcd and not (pod.crashing or pod.deleting)


def _is_roomy(seen: Observation, seat: Seat, declared: str) -> bool:
    """Whether the member serves and its file is well below its quota. If its pod was created from
    another spec, the lower of the pod's quota and the declared one counts."""
    if not seat.serves or seat.status is None or seat.pod is None:
        return False
    quota = seen.cluster.etcd.quota_bytes
    if seat.pod.spec_hash != declared:
        quota = min(quota, seat.pod.quota)
    return seat.status.db_size <= ROOM * quota


def full(seen: Observation) -> Step | None:
    """Holds if etcd refuses writes and there is nothing to defragment."""
    if not seen.is_full:
        return None
    if step := running_backup(seen):
        return step
    large = any(status.db_size_in_use > MOST for status in seen.statuses.values())
    then = (
        "then the operator defragments the members and lets writes in again"
        if seen.cluster.defragments and not large
        else "then defragment the members, one after the other "
        f"({by_hand.etcdctl(seen, 'defrag --command-timeout=10m')})"
    )
    return Hold(
        "NoSpace",
        "etcd refuses writes: a member's database has reached spec.etcd.quotaBackend "
        f"({seen.cluster.etcd.quota_bytes // MIB} MiB). Raise it, if the volumes have the room; or "
        f"delete keys and compact the history ({by_hand.etcdctl(seen, 'compact')}), "
        f"{then}{_too_small(seen)}",
    )


def _too_small(seen: Observation) -> str:
    """Which volumes are too small for a second file, for a message."""
    cramped = [
        one
        for one in roster.voters(seen)
        if one.status and _is_wasteful(one.status, full=True) and _is_cramped(seen, one)
    ]
    words = ". A second file with what is in use does not fit on the volume of "
    return words + wording.in_words(cramped) if cramped else ""
