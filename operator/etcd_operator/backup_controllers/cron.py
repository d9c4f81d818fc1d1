"""When a schedule is due, by its cron expression and time zone. Nothing here reads the clock.

As in Debian's cron, a run in the hour that a clock change skips comes right after it, and a run in
the hour that it repeats comes once. Runs in every hour or minute follow real time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice, pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from etcd_stateful.api.reading import Problem
from etcd_stateful.api.schedule import EtcdBackupSchedule, RefusedSchedule
from etcd_stateful.backup.schedules import Due

MOST_COUNTED: Final = 1000
"""A larger number of moments is counted as this many."""

_WRONG: Final = (
    "a range must go upwards, as 5-7 does and fri-sun does not, and one of the months must have "
    "such a day"
)
"""What may be wrong with an expression that the CRD admits."""

_FIRST_WINDOW: Final = 3600


class Calendar:
    """The moments of one schedule, each a whole minute, in seconds since 1970."""

    def __init__(self, cron: str, time_zone: str) -> None:
        """Raises RefusedSchedule."""
        self._cron = cron
        self._zone = _zone(time_zone)
        try:
            parsed = CronSim(cron, datetime(2000, 1, 1, tzinfo=self._zone))
        except CronSimError as error:
            words = f"{str(error).lower()} in {cron[:60]!r}: {_WRONG}"
            raise RefusedSchedule((Problem("spec.schedule", words),)) from None
        self._minutes = sorted(parsed.minutes)
        if next(parsed, None) is None:
            words = f"no day has both the date and the day of the week in {cron[:60]!r}"
            raise RefusedSchedule((Problem("spec.schedule", words),))

    @property
    def period(self) -> int:
        """The shortest time between two moments in seconds, as if there were some in each hour. It
        is the same at any time of the year, and at most an hour."""
        around = [*self._minutes, self._minutes[0] + 60]
        return 60 * min(later - sooner for sooner, later in pairwise(around))

    def upcoming(self, after: float) -> int:
        """The first moment later than that. There always is one: impossible dates are refused."""
        return next(self._moments(after))

    def due(self, after: float, until: float) -> Due | None:
        """The moments later than `after`, and not later than `until`; None if there are none."""
        found = list(islice(self._between(after, until), MOST_COUNTED + 1))
        if not found:
            return None
        if len(found) == 1:
            return Due(found[0])
        count = len(found) - 1
        if count == MOST_COUNTED:
            found = self._newest(until)
        return Due(found[-1], count, found[-2])

    def _newest(self, until: float) -> list[int]:
        """The last two or more moments, without going through all of them."""
        seconds = _FIRST_WINDOW
        while len(found := list(self._between(until - seconds, until))) < 2:
            seconds *= 2
        return found

    def _between(self, after: float, until: float) -> Iterator[int]:
        for moment in self._moments(after):
            if moment > until:
                return
            yield moment

    def _moments(self, after: float) -> Iterator[int]:
        """In order, each once: when clocks change, `cronsim` may yield a moment twice."""
        last = after
        for found in CronSim(self._cron, datetime.fromtimestamp(after, self._zone)):
            moment = int(found.timestamp())
            if moment > last:
                last = moment
                yield moment


def calendar_of(schedule: EtcdBackupSchedule) -> Calendar:
    """Raises RefusedSchedule."""
    return Calendar(schedule.cron, schedule.time_zone)


def calendar_before(times: str) -> Calendar | None:
    """The calendar of a schedule's `times` as a status has them; None if they cannot be read."""
    cron, _, zone = times.rpartition(" ")
    try:
        return Calendar(cron, zone)
    except RefusedSchedule:
        return None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        words = f"there is no time zone {name[:60]!r}; write it as Europe/Berlin"
        raise RefusedSchedule((Problem("spec.timeZone", words),)) from None
