"""From what happens in Kubernetes to keys in a queue, by way of the store.

An event decides nothing: it is put into the store and its object's owner into a queue, and if it is
no news (the echo of a write of our own, an object listed again) not even that. An object whose
labels are altered leaves the selected watches, which tell of it as deleted; so its cluster is
looked at, finds it missing, applies it, and the labels are back.

Every resource is listed when a watch begins anew and every `resync_seconds`. One paged LIST per
resource serves the whole fleet, and brings to light what the watches did not tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from etcd_operator.kube.api import (
    DISRUPTION_BUDGETS,
    ETCD_CLUSTERS,
    NETWORK_POLICIES,
    WATCH_SECONDS,
    Json,
    Key,
    KubeError,
    Kubernetes,
    Rejected,
    Resource,
)
from etcd_operator.kube.store import Store, key_of, others, owners_of, version_of
from etcd_operator.kube.watches import (
    SELECTORS,
    Connection,
    Scope,
    Watches,
    scopes,
)
from etcd_operator.queue.order import by_need
from etcd_operator.settings import Settings
from etcd_operator.telemetry.health import Health
from etcd_operator.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

RELIST_SECONDS = 1.0
"""After a LIST of kopf's: time for the events that it leads to, and for other watches' LISTs."""

AGAIN_SECONDS = 4.0
FIRST_ROUND_SECONDS = 2.0
"""The longest that the watches wait for it: another may hold the Lease, and members not answer."""

BELIEVED_SECONDS = 30.0
"""How long LISTs have to show an earlier moment than one before them."""

SUPERVISE_SECONDS = 10.0
LEAVE_SECONDS = float(WATCH_SECONDS)
"""A refusal that lasts so long is none of a moment, and no watch from before it is left."""

LESSER = frozenset({DISRUPTION_BUDGETS, NETWORK_POLICIES})
"""What clusters do without where it may not be read."""

FIRST_RETRY = 1.0
LAST_RETRY = 30.0


class Informer:
    """Keeps the store up to date, and the queues informed."""

    def __init__(
        self,
        kube: Kubernetes,
        connection: Connection,
        store: Store,
        *,
        settings: Settings,
        metrics: Metrics,
        health: Health,
        enqueue: Callable[[Resource, Key], None],
        first_round: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`first_round` waits until all that was asked for at the beginning is being worked on."""
        self._kube = kube
        self._store = store
        self._metrics = metrics
        self._health = health
        self._enqueue = enqueue
        self._first_round = first_round
        self._seconds = settings.resync_seconds
        self._scopes = scopes(settings.watch_namespaces)
        self._due: set[Scope] = set()
        self._refused: dict[str, float] = {}
        """What may not be read (by path), and since when: namespaces on the list that are gone with
        their Role, often, and what clusters do without."""

        self._newest: dict[Scope, int] = {}
        """The highest version of a LIST that has finished."""

        self._fallen: dict[Scope, float] = {}
        """Since when its LISTs show an earlier moment than that."""

        self._relist = asyncio.Event()
        self.synced = asyncio.Event()
        """Everything has been listed: from then on absence in the store means something."""

        self._watches = Watches(
            connection,
            settings.watch_namespaces,
            deliver=self.on_event,
            listed=self.on_listed,
        )

    async def run(self) -> None:
        """Fill the store, start the watches, keep both honest; for ever."""
        # Before kopf starts: it ignores for good what the API server does not serve by then.
        await self._until_listed()
        self.synced.set()
        await self._await_first_round()
        self._watches.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._periodically(), name="resync")
                group.create_task(self._on_demand(), name="relist")
                group.create_task(self._supervise(), name="supervise")
        finally:
            await self._watches.stop()

    def not_ready(self) -> list[str]:
        if not self.synced.is_set():
            return ["not everything has been listed yet"]
        missing = self._watches.missing()
        return [f"no watch yet: {path}" for path in missing if path not in self._refused]

    def on_event(self, resource: Resource, kind: str | None, obj: Json) -> None:
        self._metrics.events.labels(resource.plural, kind or "LISTED").inc()
        key = key_of(obj)
        known = self._store.get(resource, *key)
        if kind == "DELETED":
            uid = obj["metadata"].get("uid", "")
            news = self._store.remove(resource, *key, uid, version_of(obj))
        else:
            news = self._store.put(resource, obj)
        if news:
            # The old one too: a changed instance label moves it from one cluster to another.
            both = (each for each in (known, obj) if each is not None)
            owners = {owner for each in both for owner in owners_of(resource, each)}
        else:
            owners = {*others(resource, obj)}
        for owner in owners:
            self._enqueue(*owner)

    def on_listed(self, scope: Scope) -> None:
        self._due.add(scope)
        self._relist.set()

    async def resync(self) -> None:
        """List everything once; raises KubeError when that was not possible."""
        started = time.monotonic()
        different = 0
        for scope in self._scopes:
            different += await self._list_if_allowed(scope)
        if len(self._refused) == len(self._scopes):
            raise Rejected("none of the namespaces may be read", status=403)
        if self.synced.is_set():
            for key in by_need(self._store):
                self._enqueue(ETCD_CLUSTERS, key)
        self._health.resynced = self._health.clock()
        self._metrics.resync_time.set_to_current_time()
        log.info(
            "resync: %d clusters, %d owners of changed objects, %.2f s",
            len(self._store.clusters()),
            different,
            time.monotonic() - started,
        )

    async def _list_if_allowed(self, scope: Scope) -> int:
        """A namespace that was deleted, its Role with it, must not keep the others waiting; nor may
        a rule that was taken out of a Role, if members do without what it is for."""
        try:
            return await self._list(scope)
        except Rejected as error:
            if not error.forbidden or (scope.namespace is None and scope.resource not in LESSER):
                raise
            now = asyncio.get_running_loop().time()
            if scope.path not in self._refused:
                log.warning("left out until the operator's Role allows to list it: %s", error)
            elif now - self._refused[scope.path] >= LEAVE_SECONDS:
                self._leave(scope.resource, scope.namespace)
            self._refused.setdefault(scope.path, now)
            return 0

    def _leave(self, resource: Resource, namespace: str | None) -> None:
        """Nobody would tell that its clusters are gone, and they would be worked on for ever; or
        that what they do without is, and it would be taken for what it was."""
        if resource.group != ETCD_CLUSTERS.group and resource not in LESSER:
            return
        if owners := self._store.drop(resource, namespace):
            log.warning(
                "%s of %s may not be read any more: they are left alone until the operator has "
                "its Role there again",
                resource.plural,
                f"namespace {namespace}" if namespace else "all namespaces",
            )
        for owner in owners:
            self._enqueue(*owner)

    async def _list(self, scope: Scope) -> int:
        resource, namespace = scope
        newest = self._newest.get(scope, -1)
        listing = await self._kube.list_at(resource, namespace, SELECTORS[resource])
        self._refused.pop(scope.path, None)
        if listing.version < newest:
            self._went_back(scope, listing.version, newest)
            return 0
        self._newest[scope] = max(listing.version, self._newest.get(scope, -1))
        self._fallen.pop(scope, None)
        owners = self._store.replace(resource, namespace, listing.items, listing.version)
        if not self.synced.is_set():
            return len(owners)  # who begins once everything is known asks for all
        for owner in owners:
            self._enqueue(*owner)
        if owners:
            self._metrics.ahead.labels(resource.plural).inc(len(owners))
            log.info("a LIST of %s told more than its watch, of %d owners", scope.path, len(owners))
        return len(owners)

    def _went_back(self, scope: Scope, version: int, newest: int) -> None:
        """A LIST that names no version shows what is newest, so after one that had finished before
        it began it is never behind: but where the API server's own etcd was restored from a
        snapshot. The store takes nothing older than what it has, so only a new process can see what
        is there now."""
        now = asyncio.get_running_loop().time()
        since = self._fallen.setdefault(scope, now)
        if now - since >= BELIEVED_SECONDS:
            raise RuntimeError(
                f"a LIST of {scope.path} is of resourceVersion {version}, and one before it was of "
                f"{newest}: the API server has lost what came after, and the operator begins anew"
            )
        if now == since:
            log.warning(
                "a LIST of %s is of resourceVersion %d, and one before it was of %d: the API "
                "server has gone back in time; if that lasts, the operator begins anew",
                scope.path,
                version,
                newest,
            )
        self.on_listed(scope)

    async def _await_first_round(self) -> None:
        """kopf lists everything once more and copies each object several times, which for a fleet
        takes longer than the first pass over all of it. Its own LIST tells what it missed."""
        if self._first_round is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ROUND_SECONDS):
                    await self._first_round()

    async def _until_listed(self) -> None:
        delay = FIRST_RETRY
        while True:
            try:
                await self.resync()
            except KubeError as error:
                log.warning("cannot list everything, next try in %.0f s: %s", delay, error)
                await asyncio.sleep(delay)
                delay = min(2 * delay, LAST_RETRY)
            else:
                return

    async def _periodically(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._until_listed()

    async def _on_demand(self) -> None:
        while True:
            await self._relist.wait()
            await asyncio.sleep(RELIST_SECONDS)
            self._relist.clear()
            due, self._due = self._due, set()
            for scope in due:
                try:
                    await self._list_if_allowed(scope)
                except KubeError as error:
                    log.warning("cannot list %s, next try in some seconds: %s", scope.path, error)
                    self._due.add(scope)
                    self._relist.set()
            if self._due:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(SUPERVISE_SECONDS)
            if self._watches.stuck():
                raise RuntimeError("the watches can neither be used nor ended")
            silent = self._silent()
            if not silent:
                continue
            # While the API server is away or does not serve the resource, kopf could not do better.
            await self._until_listed()
            if silent == self._silent():
                log.error("watches have fallen silent and are started again: %s", ", ".join(silent))
                self._metrics.watch_restarts.inc()
                self._watches.restart(silent)

    def _silent(self) -> list[str]:
        return [path for path in self._watches.silent() if path not in self._refused]
