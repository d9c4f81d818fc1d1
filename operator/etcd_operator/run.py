"""The operator's process: what it starts, in which order, and what happens when a part ends.

Only the watches are restarted within the process. If any other task ends on its own, or the Lease
is lost, the process exits with 1, and the kubelet restarts the container in the same pod, with the
same identity. The process may be killed at any moment, because each pass starts from what it
observes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from prometheus_client import disable_created_metrics

from etcd_operator.backup_controllers.backup import Backups
from etcd_operator.backup_controllers.restore import Restores
from etcd_operator.backup_controllers.schedule import Schedules
from etcd_operator.cluster.assembly import make_reconciler
from etcd_operator.kube import lease
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    Key,
    Kubernetes,
    Resource,
)
from etcd_operator.kube.client import Client
from etcd_operator.kube.events import Events
from etcd_operator.kube.name_changes import Mark, NameChanges
from etcd_operator.kube.store import Store
from etcd_operator.kube.transport import NotConfigured, accept_deep_json, accept_many_files
from etcd_operator.queue.informer import Informer
from etcd_operator.queue.order import everything
from etcd_operator.queue.workqueue import Worker, WorkQueue
from etcd_operator.settings import Settings
from etcd_operator.tasks import cancel
from etcd_operator.telemetry.health import Health, health_app, metrics_app, serve
from etcd_operator.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

_ELECTION: Final = "election"

GRACE_SECONDS = 10.0
"""How long the passes in progress may go on after the process was asked to stop."""


@dataclass(frozen=True, slots=True)
class Work:
    """The worker of each queue."""

    workers: dict[Resource, Worker]
    drain: Callable[[], Awaitable[None]]
    """Waits for background tasks that passes have started."""

    abandon: Callable[[], Awaitable[None]]
    """Cancels them."""


MakeWork = Callable[[Kubernetes, Store, Metrics, Settings, Mark], Work]


def make_work(
    kube: Kubernetes, store: Store, metrics: Metrics, settings: Settings, mark: Mark
) -> Work:
    """Builds the reconciler of each custom resource."""
    reconciler = make_reconciler(kube, store, metrics, settings, mark=mark)
    events = Events(kube, instance=settings.identity)
    backups = Backups(kube, store, events, metrics, operator_image=settings.operator_image)
    restores = Restores(kube, store, events, operator_image=settings.operator_image)
    workers: dict[Resource, Worker] = {
        ETCD_CLUSTERS: reconciler.reconcile,
        ETCD_BACKUPS: backups.reconcile,
        ETCD_RESTORES: restores.reconcile,
        ETCD_SCHEDULES: Schedules(kube, store, events, metrics).reconcile,
    }
    return Work(workers, reconciler.drain, reconciler.abandon)


class Operator:
    """All parts of the operator, connected to each other. `run` starts and stops them."""

    def __init__(self, client: Client, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.client = client
        self.store = Store(lambda owner: self._enqueue(*owner))
        self._begun = asyncio.Event()
        self.health = Health(settings.resync_seconds)
        self.queues = {
            ETCD_CLUSTERS: WorkQueue("clusters", metrics, workers=settings.workers),
            ETCD_BACKUPS: WorkQueue("backups", metrics, workers=4),
            ETCD_RESTORES: WorkQueue("restores", metrics, workers=1),
            ETCD_SCHEDULES: WorkQueue("schedules", metrics, workers=2),
        }
        self.informer = Informer(
            client,
            client.transport,
            self.store,
            settings=settings,
            metrics=metrics,
            health=self.health,
            enqueue=self._enqueue,
            first_round=self._first_round,
        )
        self.name_changes = NameChanges(client, lambda key: self._enqueue(ETCD_CLUSTERS, key))
        self.health.ready = self.informer.not_ready
        self.lock = lease.Lock(
            client,
            name=settings.lease_name,
            namespace=settings.pod_namespace,
            identity=settings.identity,
        )

    def _enqueue(self, resource: Resource, key: Key) -> None:
        """Queues a key, but only once this replica leads. Before that no worker empties the queue,
        so it would keep keys of objects that are long gone. `_begin` queues every object in the
        store."""
        if self._begun.is_set():
            self.queues[resource].add(key)

    def _begin(self) -> None:
        """Opens the queues and queues every object in the store, without an await in between: each
        object is either in the store by now, or its event queues it later."""
        self._begun.set()
        for resource, key in everything(self.store):
            self._enqueue(resource, key)

    async def _first_round(self) -> None:
        await self._begun.wait()
        await self.queues[ETCD_CLUSTERS].all_taken_up()

    async def run(self, make: MakeWork, stop: asyncio.Event) -> int:
        """Runs until `stop` is set (returns 0), or until a part ends or the Lease is lost (1)."""
        leading = asyncio.Event()
        mark = self.name_changes.mark
        work = make(self.client, self.store, self.metrics, self.settings, mark)
        watchdog = asyncio.create_task(self.health.beat(self.metrics), name="loop lag")
        informer = asyncio.create_task(self.informer.run(), name="informer")
        listening = asyncio.create_task(self.name_changes.run(), name="watches of names")
        election = asyncio.create_task(self._lead(leading), name=_ELECTION)
        working = asyncio.create_task(self._work(work, leading), name="queues")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        parts = [watchdog, informer, listening, election, working, stopping]
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        asked = stopping.done()
        _say_why(parts, asked=asked)
        if asked:
            await self._finish(working, election, work)
        # No pass may begin or continue, and nothing be written, after the Lease is released.
        await cancel(working, election)
        await work.abandon()
        await self.lock.release()
        self.metrics.leader.set(0)
        await cancel(informer, listening, watchdog, stopping)
        return 0 if asked else 1

    async def _lead(self, leading: asyncio.Event) -> None:
        """Takes the Lease once everything is listed. A copy that lacks a right or a CRD would hold
        it for nothing, while another may be able to work."""
        await self.informer.synced.wait()
        await lease.hold(self.lock, leading.set)

    async def _work(self, work: Work, leading: asyncio.Event) -> None:
        await leading.wait()
        self.metrics.leader.set(1)
        self._begin()
        async with asyncio.TaskGroup() as group:
            for resource, queue in self.queues.items():
                group.create_task(queue.run(work.workers[resource]))

    async def _finish(
        self, working: asyncio.Task[None], election: asyncio.Task[None], work: Work
    ) -> None:
        """Waits for the passes in progress and their background tasks, for at most GRACE_SECONDS
        and only while the Lease is held."""
        if not self.lock.held:
            return
        for queue in self.queues.values():
            queue.stop()
        rest = asyncio.create_task(_rest(working, work))
        await asyncio.wait(
            [rest, election], timeout=GRACE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        await cancel(rest)


async def _rest(working: asyncio.Task[None], work: Work) -> None:
    """Waits for the passes in progress, and then for their background tasks."""
    await asyncio.wait([working])
    await work.drain()


class CannotStart(Exception):
    """The operator cannot start. The message says why, and what to do about it."""


async def operate(settings: Settings) -> int:
    """Runs until SIGTERM or SIGINT. Returns the exit code, which is 2 if it could not start."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    accept_deep_json()
    accept_many_files()
    metrics = Metrics()
    try:
        async with (
            _connected(settings, metrics) as client,
            _served(operator := Operator(client, settings, metrics)),
        ):
            return await operator.run(make_work, stop)
    except CannotStart as error:
        log.error("%s", error)  # noqa: TRY400
        return 2


@contextlib.asynccontextmanager
async def _connected(settings: Settings, metrics: Metrics) -> AsyncIterator[Client]:
    try:
        client = await Client.connect(seconds=settings.request_seconds, observe=metrics.request)
    except NotConfigured as error:
        raise CannotStart(f"cannot connect to Kubernetes: {error}") from error
    except Exception as error:
        # A malformed kubeconfig or certificate can raise almost any exception.
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise CannotStart(
            f"cannot connect to Kubernetes: its configuration is malformed: {words}"
        ) from error
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def _served(operator: Operator) -> AsyncIterator[None]:
    settings = operator.settings
    pages = (
        ("HEALTH_PORT", settings.health_port, health_app(operator.health)),
        ("METRICS_PORT", settings.metrics_port, metrics_app(operator.metrics)),
    )
    async with contextlib.AsyncExitStack() as stack:
        for variable, port, app in pages:
            runner = await _listen(variable, port, app)
            stack.push_async_callback(runner.cleanup)
        yield


async def _listen(variable: str, port: int, app: web.Application) -> web.AppRunner:
    try:
        return await serve(app, port)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise CannotStart(
            f"cannot listen on port {port}: {why}. Set {variable} to a port that is free"
        ) from error


def _say_why(parts: list[asyncio.Task[Any]], *, asked: bool) -> None:
    if asked:
        log.info("stopping")
        return
    for task in parts:
        if task.done():
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            name = task.get_name()
            if name == _ELECTION and error is None:
                # `lease.hold` has logged that the Lease is lost.
                log.info("the operator ends, and waits for the Lease again when it is restarted")
                continue
            log.error(
                "%s ended unexpectedly, so the operator ends too: %r", name, error, exc_info=error
            )
