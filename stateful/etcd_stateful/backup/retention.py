"""Which of its backups a schedule lets go, and how.

What is stored goes with the object, by the object's own `deletionPolicy`: it is told to delete,
and then deleted. Where that says to retain, only the object goes. Never let go are the newest that
was stored and the newest that was verified: backups that fail for a month must not use up the last
good one. Of those that failed, the last few stay to be looked at. Most have stored nothing, so
no store, which may be down, is asked to delete anything; what could not be proven goes with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etcd_stateful.api.schedule import Retention
from etcd_stateful.backup.deletion import FINALIZER
from etcd_stateful.backup.scheduled import Made

FAILED_KEPT: Final = 3
MOST_LEAVING: Final = 5
"""At once. One whose store does not let it be deleted stays until somebody has looked."""

DAY: Final = 86400


@dataclass(frozen=True, slots=True)
class LetGo:
    """Either tell an EtcdBackup to take along what it has stored, or delete it."""

    name: str
    uid: str
    resource_version: str
    finalizers: tuple[str, ...] | None
    """To be set, with deletionPolicy Delete; None: it is deleted."""


def decide(retention: Retention, made: tuple[Made, ...], now: float) -> LetGo | None:
    """One step, of the oldest that is to go."""
    leaving = sum(one.deleting for one in made)
    going = beyond(retention, made, now)
    if not going or leaving >= MOST_LEAVING:
        return None
    one = min(going, key=lambda each: each.moment)
    finalizers = None
    has_stored = one.state == "stored" or one.unproven
    if has_stored and not (one.keeps_stored or one.deletes_stored):
        others = (each for each in one.finalizers if each != FINALIZER)
        finalizers = (*others, FINALIZER)
    return LetGo(one.name, one.uid, one.resource_version, finalizers)


def beyond(retention: Retention, made: tuple[Made, ...], now: float) -> list[Made]:
    """Those that retention no longer holds."""
    if not retention.limited:
        return []
    here = sorted((one for one in made if not one.deleting), key=lambda one: -one.moment)
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


def _counted(stored: list[Made], count: int) -> list[Made]:
    """And the last of each etcd cluster: one that was lost and made anew under its name is backed
    up as before, and a fortnight of what it holds must not use up what is to be restored."""
    last = {one.cluster_id: one.uid for one in reversed(stored)}
    few = stored[:count] if count else stored
    return few + [one for one in stored[len(few) :] if one.uid == last[one.cluster_id]]


def _newest(some: list[Made]) -> list[Made]:
    """The newest by name, which the operator's clock has made, and by the API server's clock."""
    return [*some[:1], max(some, key=lambda one: one.began)] if some else []


def _age(one: Made, now: float, last: float) -> float:
    """By the operator's clock, and from the last run backwards by the API server's: one clock that
    is ahead for a moment must not make the whole history old.

    Args:
        last: when the newest of all runs began.
    """
    return min(now - one.moment, last - one.began)


def stuck(made: tuple[Made, ...]) -> list[Made]:
    """Those that are to go, and whose store does not let them."""
    return [one for one in made if one.deleting and one.reason == "DeletionFailed"]
