"""One pass over one EtcdBackup: observe, decide, do one thing, report. A backup that is finished
costs nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from etcd_operator.backup_controllers.being_read import is_being_read
from etcd_operator.backup_controllers.bounded import BoundedStatusWriter
from etcd_operator.backup_controllers.jobs import AskProgress, BackupJobs, ask_progress
from etcd_operator.backup_controllers.observe import BackupObserver
from etcd_operator.backup_controllers.target import recorded_of
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    JOBS,
    REJECTED_SECONDS,
    Conflict,
    Json,
    Key,
    Kubernetes,
    Rejected,
    namespace_ends,
)
from etcd_operator.kube.events import Events, Severity
from etcd_operator.kube.failed_passes import FailedPasses
from etcd_operator.kube.store import Store, key_of
from etcd_operator.objects import reading
from etcd_operator.telemetry.metrics import Metrics
from etcd_operator.timestamps import rfc3339, seconds
from etcd_stateful import naming, stored_conditions
from etcd_stateful.api.backup import EtcdBackup, RefusedBackup, parse_backup
from etcd_stateful.api.cluster import DEFAULT_REPOSITORY
from etcd_stateful.api.reading import spec_of
from etcd_stateful.backup import deletion, plan, recorded_cluster, status
from etcd_stateful.backup.deletion import CreateDeletionJob, SetFinalizers
from etcd_stateful.backup.observed import ObservedBackup, Run
from etcd_stateful.backup.outcome import Stored
from etcd_stateful.backup.steps import CreateJob, CreateTrialJob, DeleteJob, WriteStatus
from etcd_stateful.manifests.backup_job import backup_job, deletion_job
from etcd_stateful.manifests.trial_job import trial_job
from etcd_stateful.versions import number_of

log = logging.getLogger(__name__)

Write = CreateJob | CreateTrialJob | DeleteJob | CreateDeletionJob | SetFinalizers


class Backups:
    """The passes over EtcdBackups."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        events: Events,
        metrics: Metrics,
        *,
        operator_image: str,
        ask: AskProgress = ask_progress,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube = kube
        self._store = store
        self._events = events
        self._write = BoundedStatusWriter(kube, store, events, ETCD_BACKUPS).write
        self._metrics = metrics
        self._operator_image = operator_image
        self._jobs = BackupJobs(
            kube, store, ask, wall_clock=wall_clock, operator_image=operator_image
        )
        self._observer = BackupObserver(kube, store, self._jobs, wall_clock)
        self._wall_clock = wall_clock
        self._failed_passes = FailedPasses()

    async def reconcile(self, key: Key) -> float | None:
        """Makes one pass. Returns in how many seconds the next one is due; None: at the next event.

        Raises KubeError, which the queue logs and retries with back-off.
        """
        body = self._store.get(ETCD_BACKUPS, *key)
        if body is None:
            self._metrics.forget_interval(key)
            self._failed_passes.over(key)
            return None
        report, way_out = partial(self._stopped, body), partial(_stranded, body)
        return await self._failed_passes.watch(key, self._pass(body), report, way_out)

    async def _stopped(self, body: Json, reason: str, words: str) -> None:
        """Reports on the object as a failed pass has left it: its status may name the Job that it
        was about to create."""
        left = self._store.get(ETCD_BACKUPS, *key_of(body))
        if left is None or left["metadata"]["uid"] != body["metadata"]["uid"]:
            left = body
        try:
            await self._write(left, status.failing(left, reason, words, self._now()))
        except Rejected:
            if "deletionTimestamp" not in left["metadata"]:
                raise

    async def _pass(self, body: Json) -> float | None:
        deleting = "deletionTimestamp" in body["metadata"]
        if deleting:
            self._metrics.forget_interval(key_of(body))
        try:
            backup = parse_backup(body)
        except RefusedBackup as refused:
            if deleting:
                return await self._release(body)
            self._measure(body)
            await self._write(body, status.refused(body, str(refused), self._now()))
            return None
        return await (self._end if deleting else self._go_on)(body, backup)

    async def _go_on(self, body: Json, backup: EtcdBackup) -> float | None:
        self._measure(body)
        if first := deletion.finalizer_step(_finalizers(body), wanted=backup.delete_stored):
            return await self._do(body, backup, first)
        seen = await self._observer.observe(body, backup)
        step = plan.decide(seen)
        if isinstance(step, WriteStatus):
            return await self._tell(body, seen, step)
        return await self._do(body, backup, step, seen)

    def _measure(self, body: Json) -> None:
        """Also if the spec is refused: no backup is made then, and the age of the last one tells
        that."""
        told: Json = body.get("status") or {}
        if not spec_of(body).object("backupPolicy").raw.get("backupIntervalInSecond"):
            self._metrics.forget_interval(key_of(body))
            return
        ended, last = told.get("succeeded"), seconds(told.get("lastSuccessDate"))
        self._metrics.interval(key_of(body), last_run=ended, succeeded=last)

    async def _end(self, body: Json, backup: EtcdBackup) -> float | None:
        """Makes a pass over an EtcdBackup that is being deleted."""
        finalizers = _finalizers(body)
        held = deletion.FINALIZER in finalizers and backup.delete_stored
        name = plan.job_name(backup, deletion.deletion_run(backup))
        last = stored_conditions.find(body.get("status"), "Complete").get("reason")
        fails = last == deletion.FAILED
        before = await self._observer.last_job(body, backup) if held else None
        job = await self._jobs.find(backup, name) if held else None
        begins = held and not (before or job)
        step = deletion.decide(
            backup,
            body.get("status") or {},
            finalizers,
            before=before,
            job=job,
            told=reading.since_update(body, self._wall_clock()) if fails else 0.0,
            read=begins and await is_being_read(self._kube, self._store, body, backup),
        )
        if step is None:
            return None
        if isinstance(step, WriteStatus):
            told = status.render(body, None, step, job="", began="", now=self._now())
            if await self._write(body, told) and step.reason == deletion.FAILED:
                await self._announce(body, step)
            return step.after
        return await self._do(body, backup, step)

    async def _release(self, body: Json) -> float | None:
        if off := deletion.finalizer_step(_finalizers(body), wanted=False):
            await self._finalize(body, off)
        return None

    async def _do(
        self, body: Json, backup: EtcdBackup, step: Write, seen: ObservedBackup | None = None
    ) -> float:
        done = True
        try:
            match step:
                case CreateJob(run=run) if seen:
                    done = await self._start(body, seen, run)
                case CreateTrialJob(run=run, stored=stored, store=store):
                    at = replace(backup, store=store)
                    await self._create(self._trial_job(at, run, stored))
                case CreateDeletionJob():
                    await self._create(self._deletion_job(body, backup))
                case DeleteJob():
                    await self._jobs.delete(backup, step)
                case SetFinalizers():
                    done = await self._finalize(body, step)
        except Conflict:
            done = False
        except Rejected as error:
            if not (namespace_ends(error) and isinstance(step, CreateDeletionJob)):
                raise
            await self._release(body)
            return REJECTED_SECONDS
        return 0.0 if done else 1.0

    async def _start(self, body: Json, seen: ObservedBackup, run: Run) -> bool:
        """Creates the Job of a run; False if the status could not name it before."""
        backup, of = seen.backup, recorded_of(self._store, seen.backup)
        job = backup_job(
            backup,
            run,
            seen.target,
            operator_image=self._operator_image,
            cluster=of,
            spare=seen.spare,
        )
        begun = await self._begin(body, backup)
        if not await self._is_noted(begun, run, job["metadata"]["name"]):
            return False
        await self._create(job)
        return True

    def _deletion_job(self, body: Json, backup: EtcdBackup) -> Json:
        image, of = self._operator_image, recorded_of(self._store, backup)
        return deletion_job(backup, body.get("status") or {}, operator_image=image, cluster=of)

    def _trial_job(self, backup: EtcdBackup, run: Run, stored: Stored) -> Json:
        """With the etcd image of the EtcdCluster, if it is known, else with the default one."""
        of = recorded_of(self._store, backup)
        repository = ((of or {}).get("spec") or {}).get("repository") or DEFAULT_REPOSITORY
        return trial_job(
            backup,
            run,
            stored,
            etcd_image=f"{repository}:v{number_of(stored.version)}",
            operator_image=self._operator_image,
            pull_secrets=recorded_cluster.pull_secrets(of),
        )

    async def _is_noted(self, body: Json, run: Run, job: str) -> bool:
        """Records the Job before it is created. Otherwise nobody would know of it after an edit of
        the spec, and two Jobs could write under one name. False if others keep changing the object,
        or it is gone."""
        if (body.get("status") or {}).get("job") == job:
            return True
        said = plan.starting(job)
        told = status.render(body, run, said, job=job, began="", now=self._now())
        return await self._write(body, told)

    async def _create(self, manifest: Json) -> None:
        await self._kube.create(JOBS, manifest)
        log.info("created Job %s", manifest["metadata"]["name"])

    async def _finalize(self, body: Json, step: SetFinalizers) -> bool:
        """Returns whether the object is still there. If not, the watch may be late to say so."""
        try:
            written = await self._patch(body, {"finalizers": list(step.finalizers)})
        except Rejected as error:
            if not error.not_found:
                raise
            return False
        if not step.finalizers and "deletionTimestamp" in body["metadata"]:
            return False
        self._store.put(ETCD_BACKUPS, written)
        return True

    async def _begin(self, body: Json, backup: EtcdBackup) -> Json:
        """Records the start in an annotation too, which a backup tool keeps when it recreates the
        object. Periodic and scheduled backups do not need it: each has its own key in the store."""
        if backup.begun_as or backup.periodic or backup.scheduled:
            return body
        begun = {"annotations": {naming.BEGUN_AS: body["metadata"]["uid"]}}
        written = await self._patch(body, begun)
        self._store.put(ETCD_BACKUPS, written)
        return written

    async def _patch(self, body: Json, change: Json) -> Json:
        """Changes the metadata of exactly this version of the object."""
        metadata = body["metadata"]
        precondition = {key: metadata[key] for key in ("uid", "resourceVersion")}
        where = (metadata["namespace"], metadata["name"])
        patch = {"metadata": precondition | change}
        return await self._kube.merge_patch(ETCD_BACKUPS, *where, patch)

    async def _tell(self, body: Json, seen: ObservedBackup, said: WriteStatus) -> float | None:
        began = rfc3339(said.began) if said.began is not None else ""
        told = status.render(body, seen.run, said, job=_named(seen), began=began, now=self._now())
        if said.over:
            await self._announce(body, said)
        if await self._write(body, told) and said.over:
            return 0.0
        return said.after

    async def _announce(self, body: Json, said: WriteStatus) -> None:
        log.info("%s: %s", said.reason, said.message)
        about = ETCD_BACKUPS.named(body)
        kind: Severity = "Normal" if said.stored else "Warning"
        await self._events.emit(about, kind, said.reason, said.message)

    def _now(self) -> str:
        return rfc3339(self._wall_clock())


def _finalizers(body: Json) -> list[str]:
    return list(body["metadata"].get("finalizers") or ())


def _named(seen: ObservedBackup) -> str:
    """The Job to name in the status; empty to name the same as before. An earlier Job stays there
    until it has ended, as nothing else tells of it."""
    if seen.before and not seen.before.other_owner and seen.before.state == "running":
        return ""
    return seen.job.name if seen.job and not seen.job.other_owner else ""


def _stranded(body: Json, error: Rejected) -> str:
    """The way out if our finalizer holds an object that is being deleted, and the operator lacks
    the permission to act: for example, if its Role was deleted first, along with the namespace."""
    metadata = body["metadata"]
    held = "deletionTimestamp" in metadata and deletion.FINALIZER in _finalizers(body)
    if not held or not error.forbidden:
        return ""
    where = f"{metadata['name']} --namespace {metadata['namespace']}"
    return (
        "It is held until what it has stored is deleted. Give the operator its Role in the "
        "namespace again, or remove its finalizers, which keeps what is stored: "
        f"kubectl patch etcdbackup {where} "
        """--type=merge -p '{"metadata":{"finalizers":null}}'"""
    )
