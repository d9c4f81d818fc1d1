"""Retention: which of its backups a schedule deletes, and how.

The schedule first sets `deletionPolicy: Delete` on an EtcdBackup and then deletes it, so that the
stored backup goes with the object. If the policy is `Retain`, only the object is deleted. The
newest stored and the newest verified backup are never deleted: backups that fail for a month must
not use up the last good one. Of failed backups the last few are kept for diagnosis. Most failed
backups have stored nothing, so no Job contacts the store, which may be down. A backup that was
stored and could not be proven is deleted with its object.

A backup for a time that is still to come was made while a clock was ahead, or the clock is behind
now. Until that time it is not deleted, and takes no other backup's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from etcd_stateful.api.schedule import Retention
from etcd_stateful.backup.clocks import CLOCKS_DIFFER
from etcd_stateful.backup.deletion import FAILED, FINALIZER
from etcd_stateful.backup.restores import PASS_FAILED
from etcd_stateful.backup.scheduled import ScheduledBackup

FAILED_KEPT: Final = 3
MOST_LEAVING: Final = 5
"""How many may wait for their store at once: a backup that its store refuses to delete stays until
somebody has solved that. Those that need nothing from their store, or are held by a finalizer of
somebody else, do not count."""

REFUSED_SECONDS: Final = 30.0
"""After this time a deletion that the API server has refused is tried again."""

_STUCK: Final = (FAILED, "JobOfAnother", *PASS_FAILED)

DAY: Final = 86400


@dataclass(frozen=True, slots=True)
class DeleteBackup:
    """Either set `deletionPolicy: Delete` on an EtcdBackup, or delete it."""

    name: str
    uid: str
    resource_version: str
    finalizers: tuple[str, ...] | None
    """The finalizers to set together with the policy; None to delete the object."""


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Set `deletionPolicy` back on an EtcdBackup that is kept after all, as somebody may delete it;
    or on one that goes, if what it has stored is to be kept by now."""

    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """When and why the API server has refused to delete an EtcdBackup."""

    at: float
    words: str

    def age(self, now: float) -> float:
        """In seconds, also if the clock was set back since."""
        return abs(now - self.at)


def decide(
    retention: Retention,
    made: tuple[ScheduledBackup, ...],
    now: float,
    read: frozenset[str] = frozenset(),
    refused: Mapping[str, Refusal] | None = None,
) -> DeleteBackup | TakeBack | None:
    """The next step, for a backup whose policy is to be set back, or else for the oldest that
    retention does not keep; None if there is none.

    Args:
        read: names and locations of backups that restores read. These stay until that is over.
        refused: backups that the API server has refused to delete, by name.
    """
    asked = {name for name, one in (refused or {}).items() if one.age(now) < REFUSED_SECONDS}
    if len(asked) >= MOST_LEAVING:  # It may refuse all of them.
        return None
    stays, every = read | asked, not_kept(retention, made, now)
    wrong = (one for one in made if one not in every or one.keeps_stored)
    back = (one for one in wrong if one.name not in asked)
    if (kept := next(filter(_is_let_go, back), None)) is not None:
        return TakeBack(kept.name, kept.uid, kept.resource_version)
    going = [one for one in every if stays.isdisjoint((one.name, one.location, one.unproven))]
    if sum(one.deleting and FINALIZER in one.finalizers for one in made) >= MOST_LEAVING:
        going = [one for one in going if not _waits_for_its_store(one)]
    if not going:
        return None
    one = min(going, key=lambda each: each.moment)
    finalizers = None
    if _takes_along(one) and not one.deletes_stored:
        others = (each for each in one.finalizers if each != FINALIZER)
        finalizers = (*others, FINALIZER)
    return DeleteBackup(one.name, one.uid, one.resource_version, finalizers)


def _is_let_go(one: ScheduledBackup) -> bool:
    """Whether its policy was set. One that has failed stays as it is: it would begin again."""
    is_set = one.let_go and one.deletes_stored
    return is_set and one.state == "stored" and not one.deleting


def _takes_along(one: ScheduledBackup) -> bool:
    """Whether what it has stored is deleted with it."""
    return (one.state == "stored" or bool(one.unproven)) and not one.keeps_stored


def _waits_for_its_store(one: ScheduledBackup) -> bool:
    return _takes_along(one) or FINALIZER in one.finalizers


def not_kept(
    retention: Retention, made: tuple[ScheduledBackup, ...], now: float
) -> list[ScheduledBackup]:
    """The backups that retention does not keep."""
    if not retention.limited:
        return []
    until = now + CLOCKS_DIFFER
    past = (one for one in made if not one.deleting and one.moment <= until)
    here = sorted(past, key=lambda one: -one.moment)
    stored = [one for one in here if one.state == "stored"]
    failed = [one for one in here if one.state == "failed"]
    verified = [one for one in stored if one.verified]
    safe = {one.uid for some in (stored, verified) for one in _newest(some)}
    kept = _counted(stored, retention.count)
    if retention.days:
        last = max((one.began for one in made), default=0.0)
        kept = [one for one in kept if _age(one, now, last) <= retention.days * DAY]
    safe |= {one.uid for one in kept}
    return [one for one in stored if one.uid not in safe] + failed[FAILED_KEPT:]


def _counted(stored: list[ScheduledBackup], count: int) -> list[ScheduledBackup]:
    """The newest `count`, and the last backup of each etcd cluster. If a cluster was lost and
    recreated under its name, two weeks of backups of the new one must not push out the last backup
    of the old one."""
    last = {one.cluster_id: one.uid for one in reversed(stored)}
    few = stored[:count] if count else stored
    return few + [one for one in stored[len(few) :] if one.uid == last[one.cluster_id]]


def _newest(some: list[ScheduledBackup]) -> list[ScheduledBackup]:
    """The newest by the operator's clock (in the name), and the newest by the API server's."""
    return [*some[:1], max(some, key=lambda one: one.began)] if some else []


def _age(one: ScheduledBackup, now: float, last: float) -> float:
    """The smaller of two ages, by the operator's clock and by the API server's relative to the last
    run. If one clock is ahead for a moment, that must not make all backups look old.

    Args:
        last: when the newest run began.
    """
    return min(now - one.moment, last - one.began)


def stuck(made: tuple[ScheduledBackup, ...]) -> list[ScheduledBackup]:
    """Backups that are being deleted, but whose stored backup cannot be deleted."""
    return [one for one in made if one.deleting and one.reason in _STUCK]
