"""Keeps the store up to date from watches and LISTs, and queues the owners of changed objects.

An event decides nothing. Its object goes into the store, and the object's owner into a queue. If it
is not new (the echo of our own write, an object that is listed again), the owner is not queued.
If an object's labels are changed so that it no longer matches a watch, the watch reports it as
deleted. Its cluster then gets a pass, which finds it missing and applies it with the right labels.

Every resource is listed when a watch begins again, and every `resync_seconds`. One paged LIST per
resource serves the whole fleet, and shows changes that the watches missed.
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
    Unavailable,
)
from etcd_operator.kube.store import Store, key_of, others, owners_of, version_of
from etcd_operator.kube.watches import SELECTORS, Connection, Scope, Watches, scopes
from etcd_operator.queue.order import by_need
from etcd_operator.settings import Settings
from etcd_operator.tasks import loop_time
from etcd_operator.telemetry.health import Health
from etcd_operator.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

RELIST_SECONDS = 1.0
"""The pause after kopf has listed a resource, to let its events and the LISTs of other watches
come."""

AGAIN_SECONDS = 4.0
FIRST_ROUND_SECONDS = 2.0
"""How long the watches wait for the first passes at most: another replica may hold the Lease, or
members may not answer."""

BELIEVED_SECONDS = 30.0
"""How long LISTs must show an older resourceVersion than an earlier LIST before that is
believed."""

SUPERVISE_SECONDS = 10.0
PASSING_SECONDS = 30.0
"""How long a namespace's LIST must fail before the others go on without it."""

LEAVE_SECONDS = float(WATCH_SECONDS)
"""How long LISTs must be refused before the objects are dropped. Then the refusal is not a brief
one, and every watch that began before it has ended."""

OPTIONAL = frozenset({DISRUPTION_BUDGETS, NETWORK_POLICIES})
"""Resources that clusters can do without if they may not be read."""

CRD_MISSING = (
    "The custom resource definition of this version is not there: set crds.install in the chart, "
    "or run `kubectl apply --server-side -f crds/`"
)

FIRST_RETRY = 1.0
LAST_RETRY = 30.0


class Informer:
    """Keeps the store up to date and fills the queues."""

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
        first_round: Callable[[], Awaitable[None]],
    ) -> None:
        """`first_round` waits until workers have taken up all clusters that were queued at the
        start."""
        self._kube = kube
        self._store = store
        self._metrics = metrics
        self._health = health
        self._enqueue = enqueue
        self._first_round = first_round
        self._seconds = settings.resync_seconds
        self._scopes = scopes(settings.watch_namespaces)
        self._due: set[Scope] = set()
        self._refused: dict[Scope, float] = {}
        """Since when a LIST is refused. Often its namespace was deleted together with the
        Role, or it is one of OPTIONAL."""

        self._failing: dict[Scope, float] = {}
        """Since when the LIST of a namespace gets an error for an answer."""

        self._left_out: set[Scope] = set()
        """What everything else goes on without, because of that."""

        self._newest: dict[Scope, int] = {}
        """The highest resourceVersion of a completed LIST."""

        self._fallen: dict[Scope, float] = {}
        """Since when the LISTs of a scope have an older resourceVersion than that."""

        self._relist = asyncio.Event()
        self.synced = asyncio.Event()
        """Set once everything has been listed. Before that, the store is incomplete."""

        self._watches = Watches(
            connection,
            settings.watch_namespaces,
            deliver=self.on_event,
            listed=self.on_listed,
        )

    async def run(self) -> None:
        """Fills the store, starts the watches, and keeps checking both; never returns."""
        # This precedes kopf, which never watches a resource that is not served when it starts.
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
        return [f"no watch yet: {one.path}" for one in missing if self._is_awaited(one)]

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
            # The owners of the old object too, because a changed instance label moves it from one
            # cluster to another.
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
        """Lists everything once; raises KubeError if that fails."""
        started = time.monotonic()
        different, failed = 0, dict[Scope, Unavailable]()
        for scope in self._scopes:
            try:
                different += await self._list_if_allowed(scope)
            except Unavailable as error:
                if scope.namespace is None or error.status < 500:
                    raise
                failed[scope] = error
        self._go_on_without(failed)
        if len(self._refused) == len(self._scopes):
            raise Rejected("the operator may read none of the namespaces", status=403)
        if self.synced.is_set():
            for key in by_need(self._store):
                self._enqueue(ETCD_CLUSTERS, key)
        self._health.resynced = self._health.clock()
        self._metrics.resync_time.set_to_current_time()
        log.info(
            "resync: %d clusters, %d owners of changed objects, %.2f s",
            len(self._store.keys(ETCD_CLUSTERS)),
            different,
            time.monotonic() - started,
        )

    async def _list_if_allowed(self, scope: Scope) -> int:
        """Lists a scope, and skips it if that is forbidden.

        A namespace that was deleted together with its Role must not stop the others. Neither must
        a rule that is missing in a Role, if clusters can do without that resource. Returns how many
        owners have changed objects.
        """
        try:
            return await self._list(scope)
        except Rejected as error:
            if error.not_found and scope.resource.group == ETCD_CLUSTERS.group:
                raise Rejected(f"{error}. {CRD_MISSING}", status=error.status) from error
            if not error.forbidden or (scope.namespace is None and scope.resource not in OPTIONAL):
                raise
            now = loop_time()
            if scope not in self._refused:
                log.warning("not watched until the operator's Role allows listing it: %s", error)
            since = self._refused.setdefault(scope, now)
            if scope not in self._newest or now - since >= LEAVE_SECONDS:
                self._drop(scope, str(error))
            return 0

    def _go_on_without(self, failed: dict[Scope, Unavailable]) -> None:
        """Leaves namespaces out whose LIST keeps failing, such as one with Secrets that the API
        server cannot decrypt any more. Raises an error that may pass, or be one of the API server
        itself: then the resource is not listed in any other namespace either."""
        now = loop_time()
        since = {scope: self._failing.setdefault(scope, now) for scope in failed}
        listed = {one.resource for one in self._scopes if one not in failed}
        for scope, error in failed.items():
            if scope.resource not in listed or now - since[scope] < PASSING_SECONDS:
                raise error
        for scope, error in failed.items():
            if scope not in self._left_out:
                log.warning("namespace %s is left out until it works: %s", scope.namespace, error)
            self._left_out.add(scope)
            if scope not in self._newest:
                self._store.refuse(scope.resource, scope.namespace, str(error))

    def _drop(self, scope: Scope, why: str) -> None:
        """Drops objects that may not be listed any more, as their deletion would not be noticed.

        Custom resources are left alone then. Of their objects, those with a fixed name are read by
        it, and pods are reported as unknown.
        """
        resource, namespace = scope
        self._store.refuse(resource, namespace, why)
        if owners := self._store.drop(resource, namespace):
            log.warning(
                "%s of %s may not be listed any more: what was known of them is forgotten until "
                "the operator has its Role there again",
                resource.plural,
                f"namespace {namespace}" if namespace else "all namespaces",
            )
        for owner in owners:
            self._enqueue(*owner)

    async def _list(self, scope: Scope) -> int:
        resource, namespace = scope
        newest = self._newest.get(scope, -1)
        listing = await self._kube.list(resource, namespace, SELECTORS[resource])
        self._refused.pop(scope, None)
        self._failing.pop(scope, None)
        self._left_out.discard(scope)
        if listing.version < newest:
            self._went_back(scope, listing.version, newest)
            return 0
        self._newest[scope] = max(listing.version, self._newest.get(scope, -1))
        self._fallen.pop(scope, None)
        owners = self._store.replace(resource, namespace, listing.items, listing.version)
        if not self.synced.is_set():
            return len(owners)  # all clusters are queued once this replica leads
        for owner in owners:
            self._enqueue(*owner)
        if owners:
            self._metrics.ahead.labels(resource.plural).inc(len(owners))
            log.info(
                "a LIST of %s showed changes that its watch had not, of %d owners",
                scope.path,
                len(owners),
            )
        return len(owners)

    def _went_back(self, scope: Scope, version: int, newest: int) -> None:
        """Handles a LIST that is older than one that had finished before it began.

        A LIST without a resourceVersion returns the newest state. So this only happens if the API
        server's own etcd was restored from a snapshot. The store does not accept anything older
        than what it has, so only a new process can see the present state.
        """
        now = loop_time()
        since = self._fallen.setdefault(scope, now)
        if now - since >= BELIEVED_SECONDS:
            raise RuntimeError(
                f"a LIST of {scope.path} is of resourceVersion {version}, and one before it was of "
                f"{newest}: the API server has lost what came after, and the operator starts over"
            )
        if now == since:
            log.warning(
                "a LIST of %s is of resourceVersion %d, and one before it was of %d: the API "
                "server has gone back in time; if that lasts, the operator starts over",
                scope.path,
                version,
                newest,
            )
        self.on_listed(scope)

    async def _await_first_round(self) -> None:
        """Delays the watches until the first passes have begun.

        kopf lists everything once more and copies each object several times. For a fleet this takes
        longer than the first passes over all clusters. Its LIST shows what was missed meanwhile.
        """
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
            # While the API server is down or does not serve the resource, a restart of kopf would
            # not help.
            await self._until_listed()
            if silent == self._silent():
                paths = ", ".join(one.path for one in silent)
                log.error("watches have gone silent and are restarted: %s", paths)
                self._metrics.watch_restarts.inc()
                self._watches.restart(silent)

    def _silent(self) -> list[Scope]:
        return [one for one in self._watches.silent() if self._is_awaited(one)]

    def _is_awaited(self, scope: Scope) -> bool:
        return scope not in self._refused and scope not in self._left_out
