"""One pass over one EtcdRestore: observe, decide, do one thing, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from etcd_operator.backup_controllers.bounded import BoundedStatusWriter
from etcd_operator.backup_controllers.jobs import BackupJobs
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    JOBS,
    SECRETS,
    Conflict,
    Json,
    Key,
    Kubernetes,
)
from etcd_operator.kube.events import Events, Severity
from etcd_operator.kube.failed_passes import FailedPasses
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.store import Store
from etcd_operator.objects import reading
from etcd_operator.timestamps import rfc3339
from etcd_stateful import naming, stored_conditions
from etcd_stateful.api.restore import EtcdRestore, RefusedRestore, parse_restore
from etcd_stateful.api.source import BackupRef, source_of_cluster
from etcd_stateful.backup import reference, restores, status
from etcd_stateful.backup.restore_requests import is_over
from etcd_stateful.backup.restores import (
    CreateCluster,
    CreateDescriptionJob,
    ObservedRestore,
    TargetCluster,
    WriteRestoreStatus,
)
from etcd_stateful.backup.steps import DeleteJob
from etcd_stateful.manifests.backup_job import description_job
from etcd_stateful.metadata import annotations_of

log = logging.getLogger(__name__)


class Restores:
    """The passes over EtcdRestores."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        events: Events,
        *,
        operator_image: str,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._store = store
        self._events = events
        self._write = BoundedStatusWriter(kube, store, events, ETCD_RESTORES, clock).write
        self._operator_image = operator_image
        self._finder = Finder(kube, store)
        self._jobs = BackupJobs(kube, store, wall_clock=wall_clock, operator_image=operator_image)
        self._wall_clock = wall_clock
        self._failed_passes = FailedPasses()

    async def reconcile(self, key: Key) -> float | None:
        """Makes one pass. Returns in how many seconds the next one is due; None: at the next event.

        Raises KubeError, which the queue logs and retries with back-off.
        """
        body = self._store.get(ETCD_RESTORES, *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._failed_passes.over(key)
            return None
        if is_over(body):
            self._failed_passes.over(key)
            await self._write(body, status.after_an_edit(body, self._now()))
            return None
        try:
            restore = parse_restore(body)
        except RefusedRestore as refused:
            await self._write(body, status.refused(body, str(refused), self._now()))
            return None
        report = partial(self._stopped, body, restore)
        return await self._failed_passes.watch(key, self._pass(body, restore), report)

    async def _pass(self, body: Json, restore: EtcdRestore) -> float | None:
        seen = await self._look(body, restore)
        step = restores.decide(seen)
        if isinstance(step, WriteRestoreStatus):
            return await self._say(body, seen, step)
        return await self._do(seen, step)

    async def _look(self, body: Json, restore: EtcdRestore) -> ObservedRestore:
        stored: Json = body.get("status") or {}
        waited = reading.since_transition(body, self._wall_clock())
        cluster = await self._kube.get(ETCD_CLUSTERS, restore.namespace, restore.name)
        if cluster is not None:
            secret = self._finder.known(
                SECRETS, restore.namespace, naming.start_secret(restore.name)
            )
            seen = ObservedRestore(restore, stored, _target_cluster(cluster, secret), waited=waited)
            return await self._with_backup(seen)
        name = naming.backup_job(restore.name, restores.description_run(restore).id)
        job = await self._jobs.find(restore, name)
        seen = ObservedRestore(restore, stored, job=job, waited=waited)
        return await self._with_backup(seen) if job is None else seen

    async def _with_backup(self, seen: ObservedRestore) -> ObservedRestore:
        """Adds the EtcdBackup that the spec names, if it names one."""
        restore = seen.restore
        if not isinstance(restore.source, BackupRef):
            return seen
        name = restore.source.name
        body = await self._finder.find(ETCD_BACKUPS, restore.namespace, name)
        return replace(seen, backup=reference.last_stored(name, body), pod=reference.pod_of(body))

    async def _do(
        self, seen: ObservedRestore, step: CreateDescriptionJob | CreateCluster | DeleteJob
    ) -> float:
        image, restore = self._operator_image, seen.restore
        try:
            match step:
                case CreateDescriptionJob(store=store, pod=pod):
                    manifest = description_job(restore, store, operator_image=image, pod=pod)
                    await self._kube.create(JOBS, manifest)
                    log.info("created Job %s", manifest["metadata"]["name"])
                case CreateCluster(manifest=manifest):
                    await self._kube.create(ETCD_CLUSTERS, manifest)
                    log.info("created EtcdCluster %s", restore.name)
                case DeleteJob():
                    await self._jobs.delete(restore, step)
        except Conflict:
            return 1.0
        return 0.0

    async def _stopped(self, body: Json, restore: EtcdRestore, reason: str, words: str) -> None:
        said = WriteRestoreStatus(reason, words, "False")
        await self._write(
            body, self._told(body, ObservedRestore(restore, body.get("status") or {}), said)
        )

    async def _say(
        self, body: Json, seen: ObservedRestore, said: WriteRestoreStatus
    ) -> float | None:
        if await self._write(body, self._told(body, seen, said)) and (
            said.failed or said.status == "True"
        ):
            about = ETCD_RESTORES.named(body)
            kind: Severity = "Warning" if said.failed else "Normal"
            await self._events.emit(about, kind, said.reason, said.message)
        return said.after

    def _told(self, body: Json, seen: ObservedRestore, said: WriteRestoreStatus) -> Json:
        return status.of_restore(body, restores.status(seen, said), said, self._now())

    def _now(self) -> str:
        return rfc3339(self._wall_clock())


def _target_cluster(cluster: Json, secret: Json | None) -> TargetCluster:
    told: Json = cluster.get("status") or {}
    return TargetCluster(
        of=str(annotations_of(cluster).get(naming.RESTORED_BY, "")),
        serves=stored_conditions.is_true(told, "Available"),
        cluster_id=str(told.get("clusterID") or ""),
        doing=str(told.get("plan") or "not looked at yet"),
        refused=_why_refused(told),
        blocked=stored_conditions.message(told, "Blocked", "True"),
        restore=told.get("restore") or {},
        not_from_backup=secret is not None and _began_otherwise(cluster, secret),
        begins=source_of_cluster(cluster),
        named=str(annotations_of(cluster).get(naming.RESTORED_FROM, "")),
    )


def _why_refused(told: Json) -> str:
    why = stored_conditions.message(told, "Accepted", "False")
    return f"its spec is not accepted: {why}" if why else ""


def _began_otherwise(cluster: Json, secret: Json) -> bool:
    record = reading.secret(secret).bootstrap
    if record is None or record.cluster_uid != cluster["metadata"]["uid"]:
        return False
    if not record.latched or record.bump:
        return False
    # A record that was rebuilt, as after the loss of the Secret, tells of no backup.
    return record.attempt > 0 or not _only_from_backup(cluster["spec"])


def _only_from_backup(spec: Json) -> bool:
    """Whether the spec lets the cluster begin in no other way."""
    restores = (spec.get("bootstrap") or {}).get("restore")
    return bool(restores and not (spec.get("retainedClaims") or {}).get("adopt"))
