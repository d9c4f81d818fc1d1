"""Observes one EtcdBackup: the Jobs of its runs, the cluster that it backs up, its volume.

Jobs are not watched. The Job of a run is read while the run is under way; its pods are watched, and
their events bring the next pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from etcd_operator.backup_controllers.being_read import last_location, locations_read
from etcd_operator.backup_controllers.jobs import BackupJobs
from etcd_operator.backup_controllers.target import target_of
from etcd_operator.kube.api import CLAIMS, Json, Kubernetes
from etcd_operator.kube.store import Store
from etcd_operator.objects import reading
from etcd_operator.timestamps import created, seconds
from etcd_stateful import naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.api.stores import VOLUME
from etcd_stateful.backup import deletion, plan
from etcd_stateful.backup.observed import Job, ObservedBackup, Run
from etcd_stateful.metadata import annotations_of

_NO_MATTER: Final[Json] = {"metadata": {}}
"""Stands in for the claim if none has to be looked at."""


class BackupObserver:
    def __init__(
        self, kube: Kubernetes, store: Store, jobs: BackupJobs, wall_clock: Callable[[], float]
    ) -> None:
        self._kube = kube
        self._store = store
        self._jobs = jobs
        self._wall_clock = wall_clock

    async def observe(self, body: Json, backup: EtcdBackup) -> ObservedBackup:
        stored: Json = body.get("status") or {}
        run = self._due(body, backup)
        name, now = plan.job_name(backup, run) if run else "", self._wall_clock()
        # Before a run is due it has no Job, unless a clock was ahead; then the status names it.
        due = run is not None and (run.due <= now or stored.get("job") == name)
        job = await self._jobs.find(backup, name) if due else None
        claim: Json | None = _NO_MATTER
        if due and job is None and backup.store.kind == VOLUME:
            claim = await self._kube.get(CLAIMS, backup.namespace, backup.store.bucket)
        return ObservedBackup(
            backup=backup,
            stored=stored,
            run=run,
            now=now,
            job=job,
            trial=await self._trial(backup, run, job),
            before=await self._earlier_job(backup, stored, name) if run else None,
            target=target_of(self._store, backup),
            claim=claim is not None,
            spare=plan.spared(backup, self._stay(body)) if due else (),
            members=claim is not None and naming.CLUSTER_UID in annotations_of(claim),
            told=reading.since_update(body, now),
        )

    async def last_job(self, body: Json, backup: EtcdBackup) -> Job | None:
        """The Job that may still store something, or has stored what nothing else leads to: the
        one that the status names, or one created since. The deletion has raised the generation, so
        the run of the previous one is meant."""
        before, stored = replace(backup, generation=backup.generation - 1), body.get("status") or {}
        run, told = self._due(body, before), str(stored.get("job") or "")
        names = dict.fromkeys((told, plan.job_name(backup, run) if run else ""))
        found = [job for name in names if name and (job := await self._jobs.find(backup, name))]
        known = next((job for job in found if deletion.matters(backup, stored, job)), None)
        return known if known or told else await self._jobs.unnamed(backup)

    def _due(self, body: Json, backup: EtcdBackup) -> Run | None:
        stored: Json = body.get("status") or {}
        now = self._wall_clock()
        last, began = seconds(stored.get("lastRunDate")), created(body) or now
        return plan.due_run(backup, stored, last, began, now)

    def _stay(self, body: Json) -> set[str]:
        """Locations of backups that stay, whatever its Job does."""
        namespace = body["metadata"]["namespace"]
        return {last_location(body), *locations_read(self._store, namespace)}

    async def _trial(self, backup: EtcdBackup, run: Run | None, job: Job | None) -> Job | None:
        if backup.verify != "Restore" or run is None or job is None or job.state != "complete":
            return None
        return await self._jobs.find(backup, plan.job_name(backup, plan.trial_run(run)))

    async def _earlier_job(self, backup: EtcdBackup, stored: Json, name: str) -> Job | None:
        """The Job of an earlier run that may not be over. One that is over is not read again."""
        named, told = str(stored.get("job") or ""), str(stored.get("run") or "")
        if not named:
            return await self._jobs.unnamed(backup, but=name)
        if named == name or (told and named == naming.backup_job(backup.name, told)):
            return None
        return await self._jobs.find(backup, named)
