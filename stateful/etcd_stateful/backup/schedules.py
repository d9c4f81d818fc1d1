"""What is to be done for one EtcdBackupSchedule, from what is seen of it alone.

Each run is one EtcdBackup, whose name says which: an operator that is killed between any two calls
finds it, or finds none and makes it. A moment that was dealt with, by a run or by counting it as
missed, lies at or before `Record.counted_until`; that is written before the next one is looked at.

Jitter shifts the clock: a schedule lives so many seconds later than the calendar says. Where the
spec does not speak of it there is some: a thousand copies of one schedule are no thousand backups
at once.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Final

from etcd_stateful.api.schedule import EtcdBackupSchedule
from etcd_stateful.backup import retention
from etcd_stateful.backup.plan import CLOCKS_DIFFER, LONGEST_WAIT
from etcd_stateful.backup.retention import LetGo
from etcd_stateful.backup.scheduled import Made

BUSY_SECONDS: Final = 2.0
"""While a backup is made or deleted: what the operator itself writes of it is no event."""

PARTS: Final = 10
"""A jitter that nobody asked for is one of so many parts of the time between two runs."""

LONGEST_UNSAID: Final = 300
"""And no more than so many seconds: enough for a store and its network, and too few for anybody to
wonder why nothing begins."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the status has kept. Moments are seconds since 1970."""

    counted_until: float
    times: str = ""
    """The schedule by which that was counted; empty before the first word."""
    last_made: float | None = None
    last_missed: float | None = None
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """Moments of the calendar that have come and were not dealt with."""

    latest: int
    earlier: int = 0
    """How many came before the latest."""
    last_earlier: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    schedule: EtcdBackupSchedule
    record: Record
    now: float
    began: float
    """When this operator began to look. What is overdue by then would start everywhere at once."""
    upcoming: int
    """The next moment of the calendar."""
    due: Due | None = None
    made: tuple[Made, ...] = ()
    """The EtcdBackups of this very schedule."""
    taken: bool = False
    """The name of the run that is due is that of another's EtcdBackup."""
    unmade: str = ""
    """What the API server said, where the last tries came to nothing."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make the EtcdBackup of a moment."""

    moment: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A run that was not begun, in words for whoever relies on it."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Nothing to do but to say so; `after` seconds later it may be otherwise."""

    record: Record
    after: float
    miss: Miss | None = None


Step = Create | LetGo | Tell


def spread(schedule: EtcdBackupSchedule, period: int) -> EtcdBackupSchedule:
    """With a jitter, if the spec does not say one.

    Args:
        period: seconds from one run to the next, where they are closest.
    """
    if schedule.jitter is not None:
        return schedule
    return replace(schedule, jitter=min(period // PARTS, LONGEST_UNSAID))


def jitter(schedule: EtcdBackupSchedule) -> int:
    """Seconds by which this very object begins later than its calendar says."""
    if not schedule.jitter:
        return 0
    digest = hashlib.sha256(schedule.uid.encode()).digest()
    return int.from_bytes(digest[:8], "big") % (schedule.jitter + 1)


def clock(schedule: EtcdBackupSchedule, now: float) -> float:
    """The moment that the calendar is asked for."""
    return now - jitter(schedule)


def believed(schedule: EtcdBackupSchedule, until: float, now: float) -> float:
    """Until when moments count as dealt with. A time that is ahead was written by a clock that was,
    and all that falls due until then would be left out without a word. What was made for it
    nevertheless is found by its name."""
    return until if until - now <= CLOCKS_DIFFER else clock(schedule, now)


def decide(seen: Seen) -> Step:
    """The next step: what was dealt with is written down before anything new is begun."""
    schedule, record = seen.schedule, seen.record
    if record.times not in ("", schedule.times):
        edited = max(record.counted_until, float(int(clock(schedule, seen.now))))
        return Tell(replace(record, counted_until=edited), 0.0)
    newest = max((one.moment for one in seen.made), default=None)
    if newest is not None and (record.last_made or 0) < newest:
        until = max(record.counted_until, newest)
        return Tell(replace(record, last_made=newest, counted_until=until), 0.0)
    if seen.due is not None and any(one.moment == seen.due.latest for one in seen.made):
        # Not the newest: a clock that was ahead has made one for a moment to come.
        return Tell(replace(record, counted_until=float(seen.due.latest)), 0.0)
    if seen.due is not None and _held(seen, seen.due.latest) <= 0:
        return _of_due(seen, seen.due)
    going = None if schedule.suspend else retention.decide(schedule.retention, seen.made, seen.now)
    return going or Tell(record, _after(seen))


def _of_due(seen: Seen, due: Due) -> Step:
    if seen.schedule.suspend:
        return _missed(seen, due.earlier + 1, due.latest, "Suspended", "spec.suspend is true")
    if due.earlier:
        why = _unbegun(seen, due.last_earlier)
        words = f"{why.message}; for all of these there is one run now"
        told = _missed(seen, due.earlier, due.last_earlier, why.reason, words)
        until = replace(told.record, counted_until=due.latest - 1)
        return replace(told, record=until)
    if hindrance := _hindrance(seen, due.latest):
        return _missed(seen, 1, due.latest, hindrance.reason, hindrance.message)
    return Create(due.latest)


def _unbegun(seen: Seen, moment: int) -> Miss:
    if _overdue(seen, moment):
        return Miss("OperatorAway", "nobody was there to begin it")
    return Miss("NotMade", f"its EtcdBackup could not be made{_said(seen)}")


def _said(seen: Seen) -> str:
    return f": {seen.unmade}" if seen.unmade else ""


def _hindrance(seen: Seen, moment: int) -> Miss | None:
    for one in seen.made:
        if one.state == "running" and not one.deleting:
            words = f"the one before, EtcdBackup {one.name}, is not over: {one.words}"
            return Miss("StillRunning", words.removesuffix(": "))
    late, deadline = _late(seen, moment), seen.schedule.deadline
    if deadline is not None and late > deadline:
        words = f"{int(late)} s late, and spec.startingDeadlineSeconds is {deadline}"
        return Miss("TooLate", words + _said(seen))
    if seen.taken:
        return Miss("NameTaken", "its name is that of an EtcdBackup which is not of this schedule")
    return None


def _missed(seen: Seen, count: int, last: int, reason: str, words: str) -> Tell:
    record = replace(
        seen.record,
        missed=seen.record.missed + count,
        last_missed=last,
        counted_until=last,
    )
    runs = "a run was" if count == 1 else f"{count} runs were"
    return Tell(record, 0.0, Miss(reason, f"{runs} missed: {words}"))


def _overdue(seen: Seen, moment: int) -> bool:
    """Whether it should have begun before this operator did. What falls due later is spread."""
    return clock(seen.schedule, seen.began) > moment


def _turn(seen: Seen, moment: int) -> float:
    """When it begins. What is overdue as an operator begins is spread, so that not all start at
    once: by moments that are the same for the next operator, however often they change."""
    later, longest = jitter(seen.schedule), seen.schedule.jitter
    own = float(moment + later)
    if not _overdue(seen, moment):
        return own
    if not longest:
        return seen.began
    if seen.began <= own + later:
        return own + later
    return own + longest * math.ceil((seen.began - own) / longest)


def _held(seen: Seen, moment: int) -> float:
    return _turn(seen, moment) - seen.now


def _late(seen: Seen, moment: int) -> float:
    """How late it begins. Waits for its turn, of one jitter at most, do not count: neither this
    operator's nor one before it."""
    before = clock(seen.schedule, seen.began) - moment - jitter(seen.schedule)
    return max(before, 0.0) - _held(seen, moment)


def _after(seen: Seen) -> float:
    busy = any(one.deleting or one.state == "running" for one in seen.made)
    longest = BUSY_SECONDS if busy else LONGEST_WAIT
    if seen.due is not None:
        return min(_held(seen, seen.due.latest), longest)
    return min(max(seen.upcoming + jitter(seen.schedule) - seen.now, 0.05), longest)
