"""Reads the Jobs of backups and restores from the API server, with what their pods report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_RESTORES, JOBS, PODS, Json, Kubernetes
from etcd_operator.kube.store import Owner, Store
from etcd_operator.objects import jobs, reading
from etcd_operator.objects.termination_message import cause
from etcd_operator.objects.trouble import last_end_of_etcd, podless, trouble, unstopped
from etcd_operator.timestamps import created
from etcd_stateful import naming
from etcd_stateful.api.backup import EtcdBackup
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.backup import deletion, outcome
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.observed import Job
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, JobReport, Progress
from etcd_stateful.backup.steps import DeleteJob
from etcd_stateful.manifests.backup_job import CONTAINER, LABEL
from etcd_stateful.manifests.jobs import ETCDUTL
from etcd_stateful.manifests.trial_job import FETCH

log = logging.getLogger(__name__)

SELECTOR: Final = f"{naming.LABEL_NAME}={LABEL},{naming.LABEL_MANAGED_BY}={naming.MANAGER}"
PROGRESS_SECONDS: Final = 1.0

Owned = EtcdBackup | EtcdRestore
"""The objects that have such Jobs."""

AskProgress = Callable[[str], Awaitable[Progress | None]]
"""Asks the pod at an address."""


async def ask_progress(address: str) -> Progress | None:
    """The progress of a backup; None if its pod does not answer. Nothing depends on it."""
    try:
        async with asyncio.timeout(PROGRESS_SECONDS):
            reader, writer = await asyncio.open_connection(address, orders.PROGRESS_PORT)
            with contextlib.closing(writer):
                line = await reader.readline()
    except (OSError, ValueError):
        return None
    return outcome.parse_progress(line.decode(errors="replace"))


class BackupJobs:
    """The Jobs of EtcdBackups and EtcdRestores: found, read and deleted."""

    def __init__(
        self,
        kube: Kubernetes,
        store: Store,
        ask: AskProgress = ask_progress,
        *,
        wall_clock: Callable[[], float],
        operator_image: str,
    ) -> None:
        self._operator_image = operator_image
        self._kube = kube
        self._store = store
        self._ask = ask
        self._wall_clock = wall_clock

    async def find(self, backup: Owned, name: str) -> Job | None:
        """Reads a Job; None if there is none. Raises KubeError."""
        raw = await self._kube.get(JOBS, backup.namespace, name)
        return await self._read(backup, raw) if raw else None

    async def unnamed(self, backup: EtcdBackup, but: str = "") -> Job | None:
        """A Job that may still store something, by its pods: if somebody has emptied the status,
        that names none. Raises KubeError.

        Args:
            but: the Job that is known.
        """
        owners = (reading.controller(pod) or {} for pod in self._pods(backup))
        for name in sorted({str(one.get("name", "")) for one in owners} - {"", but}):
            job = await self.find(backup, name)
            if job and deletion.may_still_run(job) and _stores(job, backup):
                return job
        return None

    async def delete(self, backup: Owned, step: DeleteJob) -> None:
        """Deletes a Job; raises KubeError. Its pod gets time to finish, and until the pod is gone
        the Job can still be read."""
        await self._kube.delete(
            JOBS,
            backup.namespace,
            step.name,
            uid=step.uid,
            resource_version=step.resource_version,
            propagation="Foreground",
        )
        log.info("deleted Job %s: %s", step.name, step.why)

    async def _read(self, backup: Owned, raw: Json) -> Job:
        metadata = raw["metadata"]
        owner = reading.controller(raw) or {}
        state = jobs.state(raw)
        pods = await self._of_job(backup, raw, state)
        if newest := jobs.newest(pods):
            state = _state(state, newest)
        why_not = self._trouble(raw, newest, state)
        progress = await self._progress(newest) if newest and state == "running" else None
        said = _said(newest)
        has_begun = progress is not None and progress.has_begun
        if said == JobReport() and state == "running" and not why_not and not has_begun:
            said = _said_before(pods)
        ours = owner.get("uid") == backup.uid
        predecessor = owner.get("kind") == backup.kind and owner.get("name") == backup.name
        return Job(
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            created=created(raw) or self._wall_clock(),
            state=state,
            said=said,
            why=jobs.why_failed(raw),
            trouble=why_not,
            progress=progress,
            other_owner="" if ours or predecessor else _in_words(owner),
            deleting="deletionTimestamp" in metadata or (predecessor and not ours),
            order=_ordered(raw),
            unpullable=jobs.is_unpullable(raw, newest, self._operator_image),
        )

    async def _of_job(self, backup: Owned, job: Json, state: jobs.State) -> list[Any]:
        """The pods of the Job. If it is over, the store may not show the end of the newest; if it
        has failed, perhaps not even the newest, which may still run."""
        found = jobs.of_job(self._pods(backup), job)
        newest = jobs.newest(found)
        if state == "running":
            return found
        if state == "failed" or newest is None or not jobs.message(newest, CONTAINER):
            listing = await self._kube.list(PODS, backup.namespace, SELECTOR)
            found = jobs.of_job(listing.items, job)
        return found

    def _pods(self, backup: Owned) -> list[Json]:
        resource = ETCD_RESTORES if backup.kind == naming.RESTORE_KIND else ETCD_BACKUPS
        return self._store.of(Owner(resource, (backup.namespace, backup.name)), PODS)

    def _trouble(self, job: Json, pod: Any, state: jobs.State) -> str:
        now = self._wall_clock()
        if "deletionTimestamp" in job["metadata"]:
            return unstopped(pod, now) if pod else ""
        if state != "running":
            return ""
        return trouble(pod, None, now) if pod else podless(job, now)

    async def _progress(self, pod: Any) -> Progress | None:
        told = pod.get("status") or {}
        if told.get("phase") != "Running" or not told.get("podIP"):
            return None
        return await self._ask(str(told["podIP"]))


def _state(state: jobs.State, pod: Any) -> jobs.State:
    """The state of a Job, given its newest pod."""
    if (code := jobs.outlived(pod)) is not None:
        return "failed" if code else "complete"
    if state == "failed" and jobs.is_stopping(pod):
        return "running"  # Kubernetes 1.30 does not wait for its pod to stop
    return state


def _said_before(pods: list[Any]) -> JobReport:
    """Why the pod before the newest has failed. It is reported until the next attempt gets further:
    otherwise four that fail alike would change the status eight times."""
    newest = jobs.newest(pods)
    before = jobs.newest(pod for pod in pods if pod is not newest)
    return JobReport(failure=_said(before).failure)


def _said(pod: Any) -> JobReport:
    """What the Job's own container reports, or else the container before it that failed."""
    if pod is None:
        return JobReport()
    if text := jobs.message(pod, CONTAINER):
        return _with_cause(outcome.parse(text), pod)
    if text := jobs.message(pod, FETCH):
        found = outcome.parse(text)
        if found.failure:
            return found
    if words := jobs.out_of_memory(pod):
        return JobReport(failure=Failure("OutOfMemory", words))
    if words := cause(jobs.message(pod, ETCDUTL)):
        return JobReport(
            failure=Failure("VerificationFailed", f"etcdutl does not restore it: {words[:400]}")
        )
    return JobReport()


def _with_cause(said: JobReport, pod: Any) -> JobReport:
    """If a trial restore timed out because its etcd fails, gives the reason why etcd fails."""
    failure, why = said.failure, last_end_of_etcd(pod)
    if failure is None or failure.reason != "TimedOut" or not why:
        return said
    words = f"the etcd of the trial restore does not run on what is stored: {why}"
    return JobReport(failure=replace(failure, reason="VerificationFailed", message=words))


def _ordered(raw: Json) -> Order | None:
    """The Job's order; None if it cannot be read."""
    try:
        every = raw["spec"]["template"]["spec"]["containers"]
        [told] = (one["env"] for one in every if one["name"] == CONTAINER)
        said = {one["name"]: one.get("value", "") for one in told}
        return orders.parse(said[orders.VARIABLE])
    except (KeyError, ValueError):
        return None


def _stores(job: Job, backup: EtcdBackup) -> bool:
    order = job.order
    return order is not None and (order.action, order.owner_uid) == ("store", backup.uid)


def _in_words(owner: Any) -> str:
    return f"{owner.get('kind')} {owner.get('name')}" if owner else "nobody"
