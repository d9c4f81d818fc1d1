"""The calendar of a schedule: clock changes neither skip nor repeat a run."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etcd_operator.backup_controllers.cron import MOST_COUNTED, Calendar, calendar_before
from etcd_stateful.api.schedule import RefusedSchedule
from etcd_stateful.backup.schedules import Due


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def moments(cron: str, zone: str, after: str, until: str) -> list[str]:
    found, moment = list[str](), float(at(after))
    while (upcoming := Calendar(cron, zone).upcoming(moment)) <= at(until):
        moment = upcoming
        found.append(datetime.fromtimestamp(moment, UTC).strftime("%m-%d %H:%M"))
    return found


BERLIN, SPRING, AUTUMN = "Europe/Berlin", "2026-03-29T00:00", "2026-10-25T00:00"


@pytest.mark.parametrize(
    ("cron", "zone", "after", "until", "expected"),
    [
        ("0 3 * * *", "UTC", SPRING, "2026-03-30T12:00", ["03-29 03:00", "03-30 03:00"]),
        (
            "0 3 * * *",
            BERLIN,
            "2026-03-28T00:00",
            "2026-03-29T12:00",
            ["03-28 02:00", "03-29 01:00"],
        ),
        # 02:30 is skipped. The run comes when the clock is set, and the next day at 02:30 again.
        ("30 2 * * *", BERLIN, SPRING, "2026-03-30T12:00", ["03-29 01:00", "03-30 00:30"]),
        # Both fall on that moment: one run.
        ("0 2,3 * * *", BERLIN, SPRING, "2026-03-29T12:00", ["03-29 01:00"]),
        (
            "0 * * * *",
            BERLIN,
            SPRING,
            "2026-03-29T03:00",
            ["03-29 01:00", "03-29 02:00", "03-29 03:00"],
        ),
        # 02:30 exists twice, and there is one run.
        ("30 2 * * *", BERLIN, AUTUMN, "2026-10-26T12:00", ["10-25 00:30", "10-26 01:30"]),
        ("30 2 * * *", BERLIN, "2026-10-25T01:10", "2026-10-26T12:00", ["10-26 01:30"]),
        ("0 * * * *", BERLIN, AUTUMN, "2026-10-25T02:00", ["10-25 01:00", "10-25 02:00"]),
        # A `*` uses the hours that exist.
        ("*/30 2 * * *", BERLIN, SPRING, "2026-03-30T00:10", ["03-30 00:00"]),
        ("0,30 2 * * *", BERLIN, SPRING, "2026-03-30T00:10", ["03-29 01:00", "03-30 00:00"]),
        (
            "*/30 2 * * *",
            BERLIN,
            "2026-10-24T23:00",
            "2026-10-25T12:00",
            ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"],
        ),
        # Half an hour, on Lord Howe.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-02T16:00",
            "2026-10-05T00:00",
            ["10-03 15:30", "10-04 15:15"],
        ),
        # At midnight, in Cuba.
        (
            "30 0 * * *",
            "America/Havana",
            "2026-10-31T12:00",
            "2026-11-02T12:00",
            ["11-01 04:30", "11-02 05:30"],
        ),
        ("0 0 29 2 *", "UTC", SPRING, "2029-01-01T00:00", ["02-29 00:00"]),
        (
            "0 0 13 * fri",
            "UTC",
            "2026-02-12T00:00",
            "2026-02-21T00:00",
            ["02-13 00:00", "02-20 00:00"],
        ),
    ],
)
def test_a_time_that_the_clock_skips_or_repeats_occurs_once(
    cron: str, zone: str, after: str, until: str, expected: list[str]
) -> None:
    assert moments(cron, zone, after, until) == expected


@settings(max_examples=60, deadline=None)
@given(
    cron=st.sampled_from(
        [
            "30 2 * * *",
            "*/10 * * * *",
            "*/20 1-3 * * *",
            "0 1,2,3 * * *",
            "15 */2 * * sun",
            "59 23 * * *",
        ]
    ),
    zone=st.sampled_from(
        [
            BERLIN,
            "America/New_York",
            "Australia/Lord_Howe",
            "America/Havana",
            "Asia/Kathmandu",
            "UTC",
            "America/St_Johns",
            "Africa/Casablanca",
            "Antarctica/Troll",
        ]
    ),
    day=st.sampled_from(
        [SPRING, AUTUMN, "2026-03-08T00:00", "2026-11-01T00:00", "2026-10-04T00:00"]
    ),
    before=st.integers(0, 86400),
    cuts=st.lists(st.integers(0, 2 * 86400), max_size=8),
)
def test_a_search_in_several_steps_finds_the_same_times_as_one_search(
    cron: str, zone: str, day: str, before: int, cuts: list[int]
) -> None:
    """However often an operator looks, and wherever it begins, it finds the same times in order."""
    calendar, begin = Calendar(cron, zone), at(day) - before
    end = begin + 2 * 86400
    whole = list(calendar._between(begin, end))
    edges = sorted({begin, end, *(begin + cut for cut in cuts if begin + cut < end)})
    pieces = [one for low, high in pairwise(edges) for one in calendar._between(low, high)]

    assert pieces == whole
    assert all(low < high for low, high in pairwise(whole))
    assert all(one % 60 == 0 for one in whole)


def test_due_runs_are_counted_and_the_latest_is_returned() -> None:
    calendar = Calendar("*/5 * * * *", "UTC")
    noon = at("2026-01-01T12:00")

    assert calendar.due(noon, noon + 299) is None
    assert calendar.due(noon, noon + 300) == Due(noon + 300)
    assert calendar.due(noon, noon + 1000) == Due(noon + 900, 2, noon + 600)


@pytest.mark.parametrize(
    ("cron", "minutes"),
    [
        ("* * * * *", 1),
        ("*/15 * * * *", 15),
        ("*/7 * * * *", 4),
        ("0,30 9-17 * * 1-5", 30),
        ("5,58 * * * *", 7),
        ("0 * * * *", 60),
        ("17 3 29 2 *", 60),
    ],
)
def test_the_interval_between_runs_is_known(cron: str, minutes: int) -> None:
    assert Calendar(cron, BERLIN).period == minutes * 60


def test_a_gap_of_years_is_not_searched_minute_by_minute() -> None:
    calendar = Calendar("* * * * *", BERLIN)
    end = at("2026-06-01T12:00")

    assert calendar.due(at("2016-01-01"), end + 30) == Due(end, MOST_COUNTED, end - 60)


def test_the_latest_of_many_missed_runs_are_found_even_if_rare() -> None:
    calendar = Calendar("0 0 1 * *", "UTC")

    due = calendar.due(at("1900-01-01"), at("2026-06-15"))

    assert due == Due(at("2026-06-01"), MOST_COUNTED, at("2026-05-01"))


@pytest.mark.parametrize(
    "cron", ["60 * * * *", "5-3 * * * *", "* * 31 2 *", "*/0 * * * *", "a * * * *", "* * * * mon-8"]
)
def test_an_invalid_cron_expression_is_refused_with_its_field(cron: str) -> None:
    with pytest.raises(RefusedSchedule, match=r"spec\.schedule: bad (minute|day|month)"):
        Calendar(cron, "UTC")


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "../../etc/passwd", "", "Europe", "CET/"])
def test_an_invalid_time_zone_is_refused_with_its_field(zone: str) -> None:
    with pytest.raises(RefusedSchedule, match=r"spec\.timeZone: there is no time zone"):
        Calendar("* * * * *", zone)


@pytest.mark.parametrize("cron", ["0 0 LW * */6", "0 0 */31 * 6#5"])
def test_a_schedule_of_no_day_ended_each_pass_with_a_traceback(cron: str) -> None:
    """The last working day is on no weekend, and the first of a month is no fifth Saturday."""
    with pytest.raises(RefusedSchedule) as refused:
        Calendar(cron, BERLIN)

    words = f"no day has both the date and the day of the week in {cron!r}"
    assert str(refused.value) == f"spec.schedule: {words}"


def test_a_day_that_comes_once_in_forty_years_is_accepted() -> None:
    """The fifth Monday of a February: 2100 is no leap year."""
    calendar = Calendar("0 0 * 2 1#5", "UTC")

    assert calendar.upcoming(at("2072-03-01T00:00")) == at("2112-02-29T00:00")


@pytest.mark.parametrize("times", ["", "UTC", "nonsense UTC", "0 3 * * * Nowhere"])
def test_times_that_somebody_has_written_into_a_status_are_passed_over(times: str) -> None:
    assert calendar_before(times) is None
