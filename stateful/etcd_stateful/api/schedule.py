"""EtcdBackupSchedule: the custom resource, parsed once into a frozen value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from etcd_stateful import naming
from etcd_stateful.api.backup import LONGEST, RefusedBackup, parse_backup
from etcd_stateful.api.reading import Problem, Reader, RefusedObject, spec_of
from etcd_stateful.api.stores import SECTIONS

LONGEST_NAME: Final = 52
"""As for a CronJob, so that the names of its EtcdBackups fit into a label."""

LONGEST_JITTER: Final = 86400
MOST_DAYS: Final = 36500
SHORTEST_DEADLINE: Final = 10
"""A shorter deadline could pass before the operator looks."""

DEFAULT_VERIFY: Final = "Restore"

_UID_DIGITS: Final = 8
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_NO_FIELDS: Final = ("backupIntervalInSecond", "maxBackups")
_EXAMPLE: Final = "1970-01-01T00:00:00Z"


class RefusedSchedule(RefusedObject):
    """An EtcdBackupSchedule whose spec is not accepted."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Which backups are deleted."""

    count: int = 0
    """How many backups are kept; 0: all."""
    days: int = 0
    """Backups older than this are deleted; 0: at any age they are kept."""

    @property
    def limited(self) -> bool:
        return bool(self.count or self.days)


@dataclass(frozen=True, slots=True)
class EtcdBackupSchedule:
    """A parsed EtcdBackupSchedule. The shell interprets `cron` and `time_zone`."""

    namespace: str
    name: str
    uid: str
    cron: str
    template: Mapping[str, Any]
    """The spec of each EtcdBackup, before the time is appended to its path."""
    time_zone: str = "UTC"
    deadline: int | None = None
    """How many seconds late a run may begin; None: at any time."""
    jitter: int | None = None
    """A run begins up to this many seconds late. If it is None, `schedules.with_default_jitter`
    chooses it by how often runs are due."""
    suspend: bool = False
    retention: Retention = field(default_factory=Retention)

    @property
    def times(self) -> str:
        """Everything that decides when the schedule runs. If it changes, counting starts over."""
        return f"{self.cron} {self.time_zone}"

    def spec_of(self, written: str) -> dict[str, Any]:
        """The spec of the EtcdBackup for one run.

        Its path ends in the time of the run and in digits of this schedule's UID, so that copies of
        a schedule in several clusters never overwrite each other's backups.

        Args:
            written: the scheduled time, RFC 3339.
        """
        minute = written[:16].replace("T", "-")
        spec = {"verify": DEFAULT_VERIFY} | dict(self.template)
        name = SECTIONS[str(spec["storageType"])]
        section = dict(spec[name])
        path = str(section["path"])
        joint = "" if path.endswith("/") else "_"
        section["path"] = f"{path}{joint}{minute}_{self.uid.replace('-', '')[:_UID_DIGITS]}"
        return spec | {name: section}


def parse_schedule(body: Mapping[str, Any]) -> EtcdBackupSchedule:
    """Parses an EtcdBackupSchedule; raises RefusedSchedule with every problem found."""
    metadata: Mapping[str, Any] = body.get("metadata") or {}
    name = str(metadata["name"])
    spec = spec_of(body)
    if len(name) > LONGEST_NAME:
        spec.problems.append(Problem("metadata.name", f"is longer than {LONGEST_NAME} characters"))
    zone = spec.text("timeZone") or "UTC"
    if not _ZONE.fullmatch(zone):
        spec.problem("timeZone", f"must be a name like Europe/Berlin, found {zone[:60]!r}")
    schedule = EtcdBackupSchedule(
        namespace=str(metadata.get("namespace", "")),
        name=name,
        uid=str(metadata.get("uid", "")),
        cron=_cron(spec),
        template=_template(spec.object("template")),
        time_zone=zone,
        deadline=_deadline(spec),
        jitter=_jitter(spec),
        suspend=spec.flag("suspend"),
        retention=_retention(spec.object("retention")),
    )
    problems = spec.problems or _problems_of_a_run(schedule, body)
    if problems:
        raise RefusedSchedule(tuple(problems))
    return schedule


def _cron(spec: Reader) -> str:
    fields = spec.text("schedule").split()
    if len(fields) != 5:
        found = spec.text("schedule")[:60]
        spec.problem(
            "schedule",
            "must be five fields: minute, hour, day of month, month, day of week, "
            f"such as '0 3 * * *', found {found!r}",
        )
    return " ".join(fields)


def _deadline(spec: Reader) -> int | None:
    if not spec.has("startingDeadlineSeconds"):
        return None
    return spec.number("startingDeadlineSeconds", LONGEST, SHORTEST_DEADLINE, LONGEST)


def _jitter(spec: Reader) -> int | None:
    if not spec.has("jitterSeconds"):
        return None
    return spec.number("jitterSeconds", 0, 0, LONGEST_JITTER)


def _retention(spec: Reader) -> Retention:
    return Retention(
        count=spec.number("count", 0, 0, LONGEST),
        days=spec.number("maxAgeDays", 0, 0, MOST_DAYS),
    )


def _template(spec: Reader) -> dict[str, Any]:
    policy = spec.object("backupPolicy")
    for key in _NO_FIELDS:
        if policy.has(key):
            policy.problem(
                key,
                "cannot be set in the template: spec.schedule says when backups are made, and "
                "spec.retention how many are kept",
            )
    kind = spec.text("storageType")
    if not (name := SECTIONS.get(kind, "")):
        kinds = ", ".join(SECTIONS)
        spec.problem("storageType", f"must be one of {kinds}, found {kind[:60]!r}")
        return {}
    section = spec.object(name)
    if not section.text("path"):
        section.problem("path", "is missing: set where backups are stored")
    return dict(spec.raw)


def _problems_of_a_run(schedule: EtcdBackupSchedule, body: Mapping[str, Any]) -> list[Problem]:
    """Problems for which its EtcdBackups would be refused, with the paths of the template."""
    metadata = dict(body.get("metadata") or {}) | {
        "name": naming.scheduled_backup(schedule.name, 0)
    }
    try:
        parse_backup({"metadata": metadata, "spec": schedule.spec_of(_EXAMPLE)})
    except RefusedBackup as refused:
        return [
            Problem(one.path.replace("spec", "spec.template", 1), one.message)
            for one in refused.problems
        ]
    return []
