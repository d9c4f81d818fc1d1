"""The status of an EtcdBackupSchedule: its last and next runs, their backups, and missed runs.

Times that are still to come were noted by a clock that was ahead for a while. Until they are over,
nothing there counts as the last run or the last success: it would hide that the real runs fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from etcd_stateful import stored_conditions
from etcd_stateful.backup import retention, schedules, status
from etcd_stateful.backup.clocks import CLOCKS_DIFFER
from etcd_stateful.backup.scheduled import ScheduledBackup
from etcd_stateful.backup.schedules import NOT_MADE, Miss, ObservedSchedule, Record

MOST_LISTED: Final = 20

_KEPT: Final = (
    "countedUntil",
    "observedTimes",
    "lastScheduleTime",
    "lastMissedTime",
    "lastSuccessfulTime",
    "missedRuns",
    "backups",
    "otherBackups",
)

Condition = tuple[str, str, str, str]
Written = Callable[[float], str]
"""Writes seconds since 1970 as RFC 3339."""


def refused(body: Mapping[str, Any], problem: str, now: str) -> dict[str, Any]:
    """The status for a spec that is not accepted."""
    said = [(kind, "False", "InvalidSpec", problem) for kind in ("Accepted", "Scheduled")]
    return status.of_schedule(body, status.kept(body, _KEPT), said, now)


def failing(body: Mapping[str, Any], reason: str, words: str, now: str) -> dict[str, Any]:
    """The status after a step that the API server refused, or that failed."""
    said = [_accepted(), ("Scheduled", "False", reason, words)]
    return status.of_schedule(body, status.kept(body, _KEPT), said, now)


def render(
    body: Mapping[str, Any],
    seen: ObservedSchedule,
    record: Record,
    miss: Miss | None,
    written: Written,
    now: str,
) -> dict[str, Any]:
    """The whole status. Fields that this pass has no news of stay as they are."""
    newest, past = sorted(seen.made, key=lambda one: -one.moment), _newest_first(seen)
    told: dict[str, Any] = {
        "countedUntil": written(record.counted_until),
        "observedTimes": seen.schedule.times,
        "missedRuns": record.missed,
        "backups": [_listed(one, written) for one in newest[:MOST_LISTED]],
    }
    told |= others(body, past)
    if running := [one.name for one in newest if one.state == "running" and not one.deleting]:
        told["active"] = running[0]
    begins, upcoming = schedules.next_run(seen, record.counted_until)
    if not seen.schedule.suspend:
        told["nextScheduleTime"] = written(upcoming)
    times = {"lastScheduleTime": record.last_made, "lastMissedTime": record.last_missed}
    told |= {key: written(value) for key, value in times.items() if value is not None}
    before = str((body.get("status") or {}).get("lastSuccessfulTime") or "")
    if succeeded := _latest([before, *(one.over for one in newest)], seen, written):
        told["lastSuccessfulTime"] = succeeded
    said = [_accepted(), *_scheduled(seen, written(begins), miss), *_retained(body, seen)]
    said += _last(_past(record, seen), past, miss)
    return status.of_schedule(body, told, said, now)


def others(body: Mapping[str, Any], newest: list[ScheduledBackup]) -> dict[str, Any]:
    """`otherBackups` of the newest backup that reports any; the old value once that one is gone."""
    seen = [one.others for one in newest if one.others]
    before = (body.get("status") or {}).get("otherBackups")
    found = seen[0] if seen else before
    return {"otherBackups": found} if found else {}


def last_succeeded(record: Record, seen: ObservedSchedule) -> bool | None:
    """Whether the last finished run stored a backup; False if a later run was missed, and None if
    there has been no run yet."""
    if _missed_last(_past(record, seen)):
        return False
    over = next((one for one in _newest_first(seen) if one.state != "running"), None)
    return None if over is None else over.state == "stored"


def last_verified(seen: ObservedSchedule, written: Written) -> str:
    """When the newest verified backup was stored, RFC 3339; empty if there is none."""
    return _latest([one.over for one in seen.made if one.verified], seen, written)


def _latest(times: Iterable[str], seen: ObservedSchedule, written: Written) -> str:
    """The latest of these times, RFC 3339, that is not still to come; empty if there is none."""
    now = written(_now(seen))
    return max((one for one in times if one <= now), default="")


def _newest_first(seen: ObservedSchedule) -> list[ScheduledBackup]:
    """The backups, newest first, and last of all those for a time that is still to come."""
    now = _now(seen)
    return sorted(seen.made, key=lambda one: (one.moment > now, -one.moment))


def _past(record: Record, seen: ObservedSchedule) -> Record:
    """The record without times that are still to come."""
    now = _now(seen)
    moments = [record.last_made or 0, *(one.moment for one in seen.made)]
    made = max((one for one in moments if 0 < one <= now), default=None)
    missed = record.last_missed if (record.last_missed or 0) <= now else None
    return replace(record, last_made=made, last_missed=missed)


def _now(seen: ObservedSchedule) -> float:
    return seen.now + CLOCKS_DIFFER


def _missed_last(record: Record) -> bool:
    return (record.last_missed or 0) > (record.last_made or 0)


def _listed(one: ScheduledBackup, written: Written) -> dict[str, Any]:
    told: dict[str, Any] = {"name": one.name, "scheduledTime": written(one.moment)}
    if one.state != "running":
        told["succeeded"] = one.state == "stored"
    if one.verified:
        told["verified"] = True
    if one.location:
        told["location"] = one.location
    return told


def _accepted() -> Condition:
    return "Accepted", "True", "SpecAccepted", "every field is understood"


def _scheduled(seen: ObservedSchedule, begins: str, miss: Miss | None) -> Iterator[Condition]:
    if seen.schedule.suspend:
        words = "spec.suspend is true: runs that fall due are missed, and nothing is deleted"
        yield "Scheduled", "False", "Suspended", words
    elif miss is None or miss.reason != NOT_MADE:  # Whether one can be made now, a try will tell.
        yield "Scheduled", "True", "Scheduled", f"the next run begins at {begins}"


def _last(record: Record, newest: list[ScheduledBackup], miss: Miss | None) -> Iterator[Condition]:
    """The condition `LastRun`, for the last scheduled time, whether it was run or missed."""
    if miss is not None:
        yield "LastRun", "False", miss.reason, miss.message
        return
    if _missed_last(record):
        return  # The condition that reported it stays.
    if not newest:
        if record.last_made is None:
            yield "LastRun", "Unknown", "NoneYet", "there has been no run yet"
        return
    one = newest[0]
    words = f"EtcdBackup {one.name}: {one.words}".removesuffix(": ")
    match one.state:
        case "stored":
            yield "LastRun", "True", "Stored", f"EtcdBackup {one.name}: {one.location}"
        case "failed":
            yield "LastRun", "False", "Failed", words
        case _:
            yield "LastRun", "Unknown", "Running", words


def _retained(body: Mapping[str, Any], seen: ObservedSchedule) -> Iterator[Condition]:
    limits = seen.schedule.retention
    if held := _held(seen):
        name, why = held[0]
        yield "Retained", "False", "DeletionFailed", f"{_to_be_deleted(name)}, but cannot be: {why}"
    elif _is_tried_again(body, seen):
        return  # Until the object is gone, the condition stays.
    elif limits.limited:
        again = " once spec.suspend is false again" if seen.schedule.suspend else ""
        yield "Retained", "True", "Kept", f"backups beyond spec.retention are deleted{again}"
    else:
        yield "Retained", "True", "Everything", "spec.retention is not set: nothing is deleted"


def _held(seen: ObservedSchedule) -> list[tuple[str, str]]:
    """The backups that are to be deleted but cannot be, and why: those that wait for their store
    first, then those that the API server refuses to delete."""
    held = [(one.name, one.words) for one in retention.stuck(seen.made)]
    if not seen.refused:
        return held
    going = retention.not_kept(seen.schedule.retention, seen.made, seen.now)
    names = sorted({one.name for one in going} & seen.refused.keys())
    return held + [(name, seen.refused[name].words) for name in names]


def _is_tried_again(body: Mapping[str, Any], seen: ObservedSchedule) -> bool:
    """Whether the backup that could not be deleted still exists, and its deletion is tried again
    just now. Otherwise the condition would come and go with each try."""
    said = str(stored_conditions.find(body.get("status"), "Retained").get("message", ""))
    return any(said.startswith(_to_be_deleted(one.name)) for one in seen.made if one.deleting)


def _to_be_deleted(name: str) -> str:
    return f"EtcdBackup {name} is to be deleted"
