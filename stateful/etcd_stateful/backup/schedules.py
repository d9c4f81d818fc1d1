"""Decides the next step for one EtcdBackupSchedule, from what is observed.

Each run is one EtcdBackup, and its name identifies the run. So an operator that was killed between
any two calls finds it, or finds none and creates it. Every scheduled time up to
`Record.counted_until` was handled, either by a run or by counting it as missed; that is written to
the status before the next one is looked at.

Jitter shifts the clock: the schedule runs so many seconds later than its calendar says. There is
some jitter even if the spec does not set it, so that a thousand copies of a schedule do not start a
thousand backups at once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from etcd_stateful.api.schedule import EtcdBackupSchedule
from etcd_stateful.backup import retention
from etcd_stateful.backup.clocks import CLOCKS_DIFFER, LONGEST_WAIT
from etcd_stateful.backup.retention import REFUSED_SECONDS, DeleteBackup, Refusal, TakeBack
from etcd_stateful.backup.scheduled import ScheduledBackup

BUSY_SECONDS: Final = 2.0
"""How often to look while a backup is made or deleted: the operator's own writes cause no event."""

PARTS: Final = 10
"""The default jitter is the time between two runs, divided by this."""

LONGEST_UNSAID: Final = 300
"""Limit of the default jitter in seconds: enough to spread the load on a store and its network, and
short enough that nobody wonders why nothing begins."""

NOT_MADE: Final = "NotMade"
"""Reason of a run that was missed because its EtcdBackup could not be created."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the status records. Times are seconds since 1970."""

    counted_until: float
    times: str = ""
    """The `EtcdBackupSchedule.times` for which this was counted; empty before the first pass."""
    last_made: float | None = None
    last_missed: float | None = None
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """Scheduled times that have passed and were not handled yet."""

    latest: int
    earlier: int = 0
    """How many there are before the latest."""
    last_earlier: int = 0
    """The last of those."""


@dataclass(frozen=True, slots=True)
class ObservedSchedule:
    """What is observed of one EtcdBackupSchedule."""

    schedule: EtcdBackupSchedule
    record: Record
    now: float
    began: float
    """When this operator started. Runs that were overdue by then would all begin at once."""
    upcoming: int
    """The next scheduled time."""
    due: Due | None = None
    """By the times that were counted until now, also if the spec has others since."""
    made: tuple[ScheduledBackup, ...] = ()
    """The EtcdBackups of this schedule."""
    taken: bool = False
    """Whether an EtcdBackup of somebody else has the name of the run that is due."""
    read: frozenset[str] = frozenset()
    """Names and locations of backups that restores read (`in_use.read_from`)."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    """By name, which EtcdBackups the API server has lately refused to delete."""
    creation_error: str = ""
    """Why no EtcdBackup could be created so far: the API server's message at the last tries, or
    what was wrong with the spec. Empty if nothing was."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create the EtcdBackup for a scheduled time."""

    moment: int


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a run was missed, for the condition and the Event."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Nothing to do but to write the status. Look again `after` seconds later."""

    record: Record
    after: float
    miss: Miss | None = None


Step = Create | DeleteBackup | TakeBack | WriteStatus


def with_default_jitter(schedule: EtcdBackupSchedule, period: int) -> EtcdBackupSchedule:
    """The schedule, with a default jitter if its spec sets none.

    Args:
        period: the shortest time between two runs, in seconds.
    """
    if schedule.jitter is not None:
        return schedule
    return replace(schedule, jitter=min(period // PARTS, LONGEST_UNSAID))


def jitter(schedule: EtcdBackupSchedule) -> int:
    """Seconds by which this schedule's runs begin later than its calendar says."""
    if not schedule.jitter:
        return 0
    digest = hashlib.sha256(schedule.uid.encode()).digest()
    return int.from_bytes(digest[:8], "big") % (schedule.jitter + 1)


def clock(schedule: EtcdBackupSchedule, now: float) -> float:
    """The present time on this schedule's clock, which jitter shifts."""
    return now - jitter(schedule)


def handled_until(
    schedule: EtcdBackupSchedule, until: float, made: Iterable[float], now: float
) -> float:
    """The time up to which runs count as handled.

    A recorded time in the future was written by a clock that was ahead. It is not used, as all runs
    until then would be skipped silently. EtcdBackups that were made for such times are found by
    their names. A time before the last run was written by a clock that was behind: all runs since
    would be counted as missed.

    Args:
        until: as recorded.
        made: the times of runs that were made.
    """
    present = clock(schedule, now)
    if until - now > CLOCKS_DIFFER:
        return present
    return max([until, *(one for one in made if one <= present)])


def decide(seen: ObservedSchedule) -> Step:
    """The next step. What was handled is recorded before anything new begins."""
    schedule, record = seen.schedule, seen.record
    if is_edited(schedule, record):
        return _of_edit(seen)
    newest = max((one.moment for one in seen.made), default=None)
    if newest is not None and (record.last_made or 0) < newest:
        until = max(record.counted_until, newest)
        return WriteStatus(replace(record, last_made=newest, counted_until=until), 0.0)
    if seen.due is not None and any(one.moment == seen.due.latest for one in seen.made):
        # It need not be the newest: a clock that was ahead may have made one for a later time.
        return WriteStatus(replace(record, counted_until=float(seen.due.latest)), 0.0)
    if seen.due is not None and _held(seen, seen.due.latest) <= 0:
        return _make_room(seen) or _of_due(seen, seen.due)
    return _retain(seen) or WriteStatus(record, _after(seen))


def is_edited(schedule: EtcdBackupSchedule, record: Record) -> bool:
    """Whether other times were counted until now."""
    return record.times not in ("", schedule.times)


def _of_edit(seen: ObservedSchedule) -> WriteStatus:
    """Counts by the new times from now on. What was due by the old ones is not made any more."""
    record, due = seen.record, seen.due
    now = float(int(clock(seen.schedule, seen.now)))
    said = WriteStatus(record, 0.0)
    if due is not None and all(one.moment != due.latest for one in seen.made):
        why = _unbegun(seen, due.latest)
        words = f"{why.message}; the spec was edited before one made up for it"
        said = _missed(seen, due.earlier + 1, due.latest, why.reason, words)
    until = max(record.counted_until, now)
    return replace(said, record=replace(said.record, counted_until=until))


def _retain(seen: ObservedSchedule) -> DeleteBackup | TakeBack | None:
    schedule = seen.schedule
    if schedule.suspend:
        return None
    return retention.decide(schedule.retention, seen.made, seen.now, seen.read, seen.refused)


def _make_room(seen: ObservedSchedule) -> DeleteBackup | TakeBack | None:
    """While the API server refuses another EtcdBackup, old ones are deleted first: a quota may
    limit their number."""
    return _retain(seen) if seen.creation_error else None


def _of_due(seen: ObservedSchedule, due: Due) -> Step:
    if seen.schedule.suspend:
        why = _unbegun(seen, due.latest)
        return _missed(seen, due.earlier + 1, due.latest, why.reason, why.message)
    hindrance = _hindrance(seen, due.latest)
    if due.earlier:
        why = _unbegun(seen, due.last_earlier)
        words = why.message + ("" if hindrance else "; one run makes up for all of these now")
        told = _missed(seen, due.earlier, due.last_earlier, why.reason, words)
        until = replace(told.record, counted_until=due.latest - 1)
        return replace(told, record=until)
    if hindrance:
        return _missed(seen, 1, due.latest, hindrance.reason, hindrance.message)
    return Create(due.latest)


def _unbegun(seen: ObservedSchedule, moment: int) -> Miss:
    if seen.schedule.suspend:
        return Miss("Suspended", "spec.suspend is true")
    if _overdue(seen, moment):
        return Miss("OperatorAway", "the operator was not running")
    return Miss(NOT_MADE, f"its EtcdBackup could not be created{_said(seen)}")


def _said(seen: ObservedSchedule) -> str:
    return f": {seen.creation_error}" if seen.creation_error else ""


def _hindrance(seen: ObservedSchedule, moment: int) -> Miss | None:
    for one in seen.made:
        if one.state == "running" and not one.deleting:
            words = f"the previous one, EtcdBackup {one.name}, has not finished: {one.words}"
            return Miss("StillRunning", words.removesuffix(": "))
    late, deadline = _late(seen, moment), seen.schedule.deadline
    if deadline is not None and late > deadline:
        words = f"{int(late)} s late, and spec.startingDeadlineSeconds is {deadline}"
        return Miss("TooLate", words + _said(seen))
    if seen.taken:
        return Miss(
            "NameTaken", "its name is taken by an EtcdBackup that this schedule did not create"
        )
    return None


def _missed(seen: ObservedSchedule, count: int, last: int, reason: str, words: str) -> WriteStatus:
    record = replace(
        seen.record,
        missed=seen.record.missed + count,
        last_missed=last,
        counted_until=last,
    )
    runs = "a run was" if count == 1 else f"{count} runs were"
    return WriteStatus(record, 0.0, Miss(reason, f"{runs} missed: {words}"))


def _overdue(seen: ObservedSchedule, moment: int) -> bool:
    """Whether the run was due before this operator started. Later runs are spread by jitter."""
    return clock(seen.schedule, seen.began) > moment


def _turn(seen: ObservedSchedule, moment: int) -> float:
    """When the run begins. Runs that are overdue when an operator starts are spread, so that they
    do not all begin at once. Their times are the same for the next operator, so that they begin
    even if operators change often."""
    later, longest = jitter(seen.schedule), seen.schedule.jitter
    own = float(moment + later)
    if not _overdue(seen, moment):
        return own
    if not longest:
        return seen.began
    if seen.began <= own + later:
        return own + later
    return own + longest * math.ceil((seen.began - own) / longest)


def _held(seen: ObservedSchedule, moment: int) -> float:
    return _turn(seen, moment) - seen.now


def _late(seen: ObservedSchedule, moment: int) -> float:
    """How late the run begins. The wait for its turn, which is at most one jitter, does not count,
    neither under this operator nor under an earlier one."""
    before = clock(seen.schedule, seen.began) - moment - jitter(seen.schedule)
    return max(before, 0.0) - _held(seen, moment)


def next_run(seen: ObservedSchedule, counted_until: float) -> tuple[float, int]:
    """When the next run begins, and its scheduled time: it may be one that is overdue and waits for
    its turn, or the one after it, if that begins sooner."""
    coming = float(seen.upcoming + jitter(seen.schedule)), seen.upcoming
    if seen.due is None or seen.due.latest <= counted_until or _held(seen, seen.due.latest) <= 0:
        return coming
    return min(coming, (_turn(seen, seen.due.latest), seen.due.latest))


def _after(seen: ObservedSchedule) -> float:
    busy = any(one.deleting or one.state == "running" for one in seen.made)
    longest = BUSY_SECONDS if busy else REFUSED_SECONDS if seen.refused else LONGEST_WAIT
    begins, _ = next_run(seen, seen.record.counted_until)
    return min(max(begins - seen.now, 0.05), longest)
