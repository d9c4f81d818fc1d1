"""One pass over one EtcdBackupSchedule: observe, decide, do one thing, report.

It observes what is in memory. Before anything is deleted, the schedule is read and its EtcdBackups
are listed, and the decision is made again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from etcd_operator.backup_controllers.being_read import known_to_be_read, read_now
from etcd_operator.backup_controllers.bounded import BoundedStatusWriter
from etcd_operator.backup_controllers.cron import Calendar, calendar_before, calendar_of
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_SCHEDULES,
    Conflict,
    Json,
    Key,
    Kubernetes,
    Rejected,
    Unavailable,
    refused_in_words,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.failed_passes import FailedPasses, in_words
from etcd_operator.kube.store import Owner, Store, key_of
from etcd_operator.telemetry.metrics import Metrics
from etcd_operator.timestamps import created, rfc3339, seconds
from etcd_stateful import naming, stored_conditions
from etcd_stateful.api.schedule import EtcdBackupSchedule, RefusedSchedule, parse_schedule
from etcd_stateful.backup import schedule_status, schedules
from etcd_stateful.backup.clocks import LONGEST_WAIT
from etcd_stateful.backup.retention import DeleteBackup, Refusal, TakeBack
from etcd_stateful.backup.scheduled import ScheduledBackup, as_scheduled
from etcd_stateful.backup.schedules import Create, ObservedSchedule, Record, WriteStatus
from etcd_stateful.manifests.scheduled_backup import scheduled_backup

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0


class Schedules:
    """The passes over EtcdBackupSchedules."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        events: Events,
        metrics: Metrics,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube = kube
        self._store = store
        self._events = events
        self._write = BoundedStatusWriter(kube, store, events, ETCD_SCHEDULES).write
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._began: float | None = None
        self._failed_passes = FailedPasses()
        self._refusals: dict[Key, Refusal] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Makes one pass. Returns in how many seconds the next one is due; None: at the next event.

        Raises KubeError, which the queue logs and retries with back-off.
        """
        # If the clock was ahead then, runs would be held until that time, and nothing would say so.
        now = self._wall_clock()
        self._began = now if self._began is None else min(self._began, now)
        body = self._store.get(ETCD_SCHEDULES, *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._metrics.forget_schedule(key)
            self._failed_passes.over(key)
            return None
        try:
            schedule = parse_schedule(body)
            calendar = calendar_of(schedule)
            schedule = schedules.with_default_jitter(schedule, calendar.period)
        except RefusedSchedule as refused:
            told = schedule_status.refused(body, str(refused), rfc3339(self._wall_clock()))
            self._measure_stopped(body)
            await self._write(body, told)
            return None
        made = self._pass(body, schedule, calendar)
        return await self._failed_passes.watch(key, made, partial(self._stopped, body))

    async def _pass(
        self, body: Json, schedule: EtcdBackupSchedule, calendar: Calendar
    ) -> float | None:
        seen = self._look(body, schedule, calendar, self._known(schedule))
        step = schedules.decide(seen)
        if isinstance(step, DeleteBackup):
            seen = replace(seen, read=known_to_be_read(self._store, schedule.namespace))
            step = schedules.decide(seen)
        if isinstance(step, WriteStatus):
            return await self._tell(body, seen, step)
        if isinstance(step, DeleteBackup):
            if await self._has_changed(body):
                return AGAIN_SECONDS
            fresh = self._look(body, schedule, calendar, await self._listed(schedule))
            read = await read_now(self._kube, schedule.namespace)
            if schedules.decide(replace(fresh, read=read)) != step:
                return AGAIN_SECONDS
        return await self._do(schedule, step)

    def _known(self, schedule: EtcdBackupSchedule) -> list[Json]:
        owner = Owner(ETCD_SCHEDULES, (schedule.namespace, schedule.name))
        return self._store.of(owner, ETCD_BACKUPS)

    async def _has_changed(self, body: Json) -> bool:
        """Whether the schedule was edited or deleted, and the watch may not have said so yet."""
        now = await self._kube.get(ETCD_SCHEDULES, *key_of(body))
        if now is None:
            return True
        self._store.put_read(ETCD_SCHEDULES, now)
        gone = now["metadata"]["uid"] != body["metadata"]["uid"]
        return gone or "deletionTimestamp" in now["metadata"] or now["spec"] != body["spec"]

    async def _listed(self, schedule: EtcdBackupSchedule) -> list[Json]:
        # By the label of the name too, by which the store finds them: someone may take it off one.
        selector = f"{naming.SCHEDULE}={schedule.name},{naming.SCHEDULE_UID}={schedule.uid}"
        return (await self._kube.list(ETCD_BACKUPS, schedule.namespace, selector)).items

    def _look(
        self, body: Json, schedule: EtcdBackupSchedule, calendar: Calendar, backups: list[Json]
    ) -> ObservedSchedule:
        now = self._wall_clock()
        made = tuple(
            one for each in backups if (one := as_scheduled(schedule, each, created(each)))
        )
        record = self._record(body, schedule, made, now)
        edited = schedules.is_edited(schedule, record)
        counted = calendar_before(record.times) if edited else calendar
        until = schedules.clock(schedule, now)
        due = counted.due(record.counted_until, until) if counted else None
        return ObservedSchedule(
            schedule=schedule,
            record=record,
            now=now,
            began=now if self._began is None else self._began,
            # With more jitter since, its clock may be back before a run that was handled.
            upcoming=calendar.upcoming(max(record.counted_until, until)),
            due=due,
            made=made,
            taken=due is not None and self._is_taken(schedule, due.latest, made),
            creation_error=self._failed_passes.last(key_of(body))
            or stored_conditions.message(body.get("status"), "Accepted", "False"),
            refused=self._refused_of(schedule, made),
        )

    def _is_taken(
        self, schedule: EtcdBackupSchedule, moment: int, made: tuple[ScheduledBackup, ...]
    ) -> bool:
        name = naming.scheduled_backup(schedule.name, moment)
        found = self._store.get(ETCD_BACKUPS, schedule.namespace, name)
        return found is not None and name not in (one.name for one in made)

    def _record(
        self,
        body: Json,
        schedule: EtcdBackupSchedule,
        made: tuple[ScheduledBackup, ...],
        now: float,
    ) -> Record:
        """From the status; if somebody has emptied that, from the creation of the object on."""
        stored: Json = body.get("status") or {}
        began = created(body) or now
        missed = stored.get("missedRuns")
        until, last = seconds(stored.get("countedUntil")), seconds(stored.get("lastScheduleTime"))
        runs = (last or 0.0, *(one.moment for one in made))
        return Record(
            counted_until=schedules.handled_until(
                schedule, began if until is None else until, runs, now
            ),
            times=str(stored.get("observedTimes") or ""),
            last_made=last,
            last_missed=seconds(stored.get("lastMissedTime")),
            missed=missed if isinstance(missed, int) else 0,
        )

    async def _do(
        self, schedule: EtcdBackupSchedule, step: Create | DeleteBackup | TakeBack
    ) -> float:
        with contextlib.suppress(Conflict):
            if not isinstance(step, Create):
                return await self._try_to_retain(schedule, step)
            await self._create(schedule, step.moment)
        return AGAIN_SECONDS

    async def _try_to_retain(
        self, schedule: EtcdBackupSchedule, step: DeleteBackup | TakeBack
    ) -> float:
        """If the API server refuses it, as a policy may for one of them, or fails each time, as
        while a webhook is down, that holds up neither the others nor what is reported of the
        runs."""
        key = (schedule.namespace, step.name)
        try:
            await self._retain(schedule, step)
        except Rejected as error:
            if error.not_found:  # Somebody else has deleted it.
                return AGAIN_SECONDS
            self._note_refusal(key, refused_in_words(error))
        except Unavailable as error:
            if not self._failed_passes.is_reported((schedule.namespace, schedule.name)):
                raise
            self._note_refusal(key, in_words(error))
        return 0.0

    def _note_refusal(self, key: Key, words: str) -> None:
        now, known = self._wall_clock(), self._refusals
        if key not in known or known[key].words != words:
            log.warning("EtcdBackup %s is not changed or deleted: %s", key[1], words)
        lately = {other: one for other, one in known.items() if one.age(now) < LONGEST_WAIT}
        self._refusals = lately | {key: Refusal(now, words)}

    def _refused_of(
        self, schedule: EtcdBackupSchedule, made: tuple[ScheduledBackup, ...]
    ) -> dict[str, Refusal]:
        found = ((one.name, self._refusals.get((schedule.namespace, one.name))) for one in made)
        return {name: refusal for name, refusal in found if refusal}

    async def _stopped(self, body: Json, reason: str, words: str) -> None:
        self._measure_stopped(body)
        now = rfc3339(self._wall_clock())
        await self._write(body, schedule_status.failing(body, reason, words, now))

    async def _create(self, schedule: EtcdBackupSchedule, moment: int) -> None:
        manifest = scheduled_backup(schedule, moment, rfc3339(moment))
        # Not put into the store: the EtcdBackup's own queue waits for the event of the watch.
        await self._kube.create(ETCD_BACKUPS, manifest)
        log.info("created EtcdBackup %s", manifest["metadata"]["name"])

    async def _retain(self, schedule: EtcdBackupSchedule, step: DeleteBackup | TakeBack) -> None:
        where = (ETCD_BACKUPS, schedule.namespace, step.name)
        if isinstance(step, TakeBack):
            change: Json = {"annotations": {naming.LET_GO: None}}
            policy = schedule.template.get("deletionPolicy")
        elif step.finalizers is None:
            version = step.resource_version
            await self._kube.delete(*where, uid=step.uid, resource_version=version)
            log.info("deleted EtcdBackup %s: beyond what spec.retention keeps", step.name)
            return
        else:
            notes, policy = {naming.LET_GO: "retention"}, "Delete"
            change = {"annotations": notes, "finalizers": list(step.finalizers)}
        precondition = {"uid": step.uid, "resourceVersion": step.resource_version}
        patch = {"metadata": precondition | change, "spec": {"deletionPolicy": policy}}
        self._store.put_beside(ETCD_BACKUPS, await self._kube.merge_patch(*where, patch))

    async def _tell(self, body: Json, seen: ObservedSchedule, said: WriteStatus) -> float:
        now = rfc3339(self._wall_clock())
        told = schedule_status.render(body, seen, said.record, said.miss, rfc3339, now)
        self._measure(key_of(body), seen, said.record, told)
        if said.miss is not None:
            log.warning("%s: %s", said.miss.reason, said.miss.message)
            about = ETCD_SCHEDULES.named(body)
            await self._events.emit(about, "Warning", said.miss.reason, said.miss.message)
        if await self._write(body, told) or said.after:
            return said.after
        return AGAIN_SECONDS

    def _measure_stopped(self, body: Json) -> None:
        told: Json = body.get("status") or {}
        self._metrics.schedule_stopped(key_of(body), seconds(told.get("lastSuccessfulTime")))

    def _measure(self, key: Key, seen: ObservedSchedule, record: Record, told: Json) -> None:
        self._metrics.schedule(
            key,
            on=stored_conditions.is_true(told, "Scheduled"),
            last_run=schedule_status.last_succeeded(record, seen),
            succeeded=seconds(told.get("lastSuccessfulTime")),
            verified=seconds(schedule_status.last_verified(seen, rfc3339)),
            missed=record.missed,
        )
