"""Uses kopf only for watches that reconnect and that the API server filters.

The only handlers are `on.event`, which do not patch, annotate or finalize objects. They pass events
on, and nothing is decided here.

kopf runs in a thread with an event loop of its own. In the main thread it would take over the
signals, and at its end it cancels every task of its loop that did not exist at its start. On its
own loop this is harmless, and kopf can be restarted. It has to be: in 1.45.2 a single 401 closes
the connections of all watches, and a watch that fails (with 401, or with an ERROR event other than
410) ends the others without ending kopf, which then receives nothing.

Two facts that handlers do not see are taken from the requests: that kopf has listed a resource
(after 410 Gone it lists again, and does not report what was deleted meanwhile), and that each watch
is renewed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import aiohttp
import kopf

from etcd_operator.kube.api import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    WATCH_SECONDS,
    Json,
    Resource,
)
from etcd_stateful import naming

log = logging.getLogger(__name__)

OURS = f"{naming.LABEL_MANAGED_BY}={naming.MANAGER}"
SELECTORS: dict[Resource, str] = {
    ETCD_CLUSTERS: "",
    ETCD_BACKUPS: "",
    ETCD_RESTORES: "",
    ETCD_SCHEDULES: "",
    STATEFUL_SETS: OURS,
    SERVICES: OURS,
    SECRETS: OURS,
    PODS: OURS,
    CLAIMS: OURS,
    DISRUPTION_BUDGETS: OURS,
    NETWORK_POLICIES: OURS,
}
"""The watched resources and their label selectors. Pods and Secrets of others never reach this
process."""

SILENT_SECONDS = WATCH_SECONDS + 90.0
START_SECONDS = 30.0
"""How long every watch may take to begin. It is doubled each time that it was too short: kopf lists
all objects and passes each of them on before it begins a watch."""

LONGEST_START = 240.0
LOGIN_SECONDS = 5.0
END_SECONDS = 2.0
"""How long kopf may take to end by itself. Then its tasks are cancelled repeatedly until they are
gone, because kopf ignores some cancellations."""

FIRST_DELAY = 1.0
LAST_DELAY = 30.0
STEADY_SECONDS = 60.0
STUCK_SECONDS = 60.0


class Scope(NamedTuple):
    """One watch: a resource in one namespace, or in all (None)."""

    resource: Resource
    namespace: str | None

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)


def scopes(namespaces: tuple[str, ...] | None) -> list[Scope]:
    return [
        Scope(resource, namespace)
        for resource in SELECTORS
        for namespace in (namespaces if namespaces is not None else (None,))
    ]


class Connection(Protocol):
    @property
    def server(self) -> str: ...
    def session(self, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession: ...


class _Delays:
    """Endless retry delays. With its default delays kopf gives up after a minute and ends."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1.0, 1.0, 2.0, 3.0, 5.0, 8.0), itertools.repeat(10.0))


class Watches:
    def __init__(
        self,
        connection: Connection,
        namespaces: tuple[str, ...] | None,
        *,
        deliver: Callable[[Resource, str | None, Json], None],
        listed: Callable[[Scope], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`deliver` and `listed` are called on the loop that `start` is called on."""
        self._connection = connection
        self._namespaces = namespaces
        self._deliver = deliver
        self._listed = listed
        self._clock = clock
        self._scopes = {scope.path: scope for scope in scopes(namespaces)}
        self._renewed: dict[Scope, float] = {}
        self._refused: dict[Scope, float] = {}
        """When a watch was last refused, as by a Role that allows only to list. kopf goes on
        asking for it, so a restart would not help, and end all others."""

        self._started = clock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._asked: float | None = None
        self._patience = START_SECONDS
        self._late = False

    def start(self) -> None:
        self._main = asyncio.get_running_loop()
        # A daemon thread: kopf takes seconds to end, and the process need not wait for it.
        self._thread = threading.Thread(target=self._run, name="watches", daemon=True)
        self._thread.start()

    def restart(self, silent: Iterable[Scope] = ()) -> None:
        """Ends kopf, which its thread then starts again. If one of the `silent` watches had not
        begun yet, they get more time."""
        self._late = any(scope not in self._renewed for scope in silent)
        self._asked = self._asked or self._clock()
        if self._loop is not None and self._ending is not None:
            _call_on(self._loop, self._ending.set)

    def stuck(self) -> bool:
        """Whether kopf does not end although it was asked to. Then only a restart of the process
        helps."""
        return self._asked is not None and self._clock() - self._asked > STUCK_SECONDS

    async def stop(self, seconds: float = 3.0) -> None:
        self._ended.set()
        self.restart()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, seconds)

    def missing(self) -> list[Scope]:
        """The watches that have not begun yet."""
        return [scope for scope in self._scopes.values() if scope not in self._renewed]

    def silent(self) -> list[Scope]:
        """The watches that should have been renewed by now, but were not."""
        now, never = self._clock(), -SILENT_SECONDS
        if now - self._started < self._patience:
            return []
        return [
            scope
            for scope in self._scopes.values()
            if now - max(self._renewed.get(scope, never), self._refused.get(scope, never))
            > SILENT_SECONDS
        ]

    def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._ended.is_set():
            self._started, self._asked, self._late = self._clock(), None, False
            self._renewed.clear()
            self._refused.clear()
            try:
                asyncio.run(self._kopf())
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - kopf is restarted
                log.error("the watches failed and are restarted: %r", error)  # noqa: TRY400
            self._ending = None
            steady = self._clock() - self._started > STEADY_SECONDS
            delay = FIRST_DELAY if steady else min(2 * delay, LAST_DELAY)
            if self._late:
                self._patience = min(2 * self._patience, LONGEST_START)
            elif steady:
                self._patience = START_SECONDS
            self._ended.wait(delay)

    async def _kopf(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_in_one_line)
        ending = self._ending = asyncio.Event()
        if self._ended.is_set():
            return
        sessions: list[aiohttp.ClientSession] = []
        operator = kopf.operator(
            registry=self._registry(ending, sessions),
            settings=operator_settings(),
            standalone=True,
            clusterwide=self._namespaces is None,
            namespaces=self._namespaces or (),
            stop_flag=ending,
        )
        try:
            await self._until_ended(operator, ending)
        finally:
            for session in sessions:
                await session.close()

    async def _until_ended(
        self, operator: Coroutine[Any, Any, None], ending: asyncio.Event
    ) -> None:
        asked = asyncio.create_task(ending.wait())
        running = asyncio.create_task(operator, name="kopf")
        await asyncio.wait([asked, running], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([running], timeout=END_SECONDS)
        while not running.done():
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.wait([running], timeout=0.2)
        asked.cancel()
        running.result()

    def _registry(
        self, ending: asyncio.Event, sessions: list[aiohttp.ClientSession]
    ) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        for resource in SELECTORS:
            kopf.on.event(
                group=resource.group,
                version=resource.version,
                plural=resource.plural,
                id=resource.plural,
                registry=registry,
            )(self._handler(resource))
        last_login = float("-inf")

        async def login(**_: Any) -> kopf.AiohttpSession:
            nonlocal last_login
            # kopf logs in again after each 401, without any delay.
            await asyncio.sleep(max(0.0, last_login + LOGIN_SECONDS - self._clock()))
            last_login = self._clock()
            sessions.append(self._connection.session(self._trace()))
            server = self._connection.server
            return kopf.AiohttpSession(server=server, aiohttp_session=sessions[-1])

        async def cleanup(**_: Any) -> None:
            ending.set()

        kopf.on.login(id="login", registry=registry)(login)
        kopf.on.cleanup(id="cleanup", registry=registry)(cleanup)
        return registry

    def _handler(self, resource: Resource) -> Any:
        async def on_event(event: Any, **_: Any) -> None:
            self._hand_over(self._deliver, resource, event["type"], event["object"])

        return on_event

    def _trace(self) -> aiohttp.TraceConfig:
        trace: aiohttp.TraceConfig = aiohttp.TraceConfig()
        below = urlsplit(self._connection.server).path.rstrip("/")  # as of a proxy of many clusters

        async def on_end(_: Any, __: Any, params: aiohttp.TraceRequestEndParams) -> None:
            scope = self._scopes.get(params.url.path.removeprefix(below))
            status = params.response.status
            if scope is None:
                return
            if "watch" in params.url.query and (status in (403, 429) or status >= 500):
                self._refused[scope] = self._clock()
            elif status != 200:
                return
            elif "watch" in params.url.query:
                self._renewed[scope] = self._clock()
            elif "continue" not in params.url.query:
                self._hand_over(self._listed, scope)

        trace.on_request_end.append(on_end)
        return trace

    def _hand_over(self, call: Callable[..., None], *args: Any) -> None:
        if self._main is not None:
            _call_on(self._main, call, *args)


def _call_on(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: Any) -> None:
    """Calls this on the loop of the other thread, unless that has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def _in_one_line(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs errors of kopf's tasks at DEBUG only, such as those that are left when kopf is
    stopped."""
    log.debug("kopf: %s: %r", context["message"], context.get("exception"))


class _NoEssence(kopf.DiffBaseStorage):
    """Keeps kopf from comparing each object with an earlier one, which no handler needs.

    By default it copies the whole object for that, and parses an annotation that anyone may write.
    If either fails, it logs a traceback and drops all events of the object for a while.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass


def operator_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None
    # kopf never adds this finalizer, because no handler needs one. As no object has it, kopf never
    # removes it either.
    settings.persistence.finalizer = f"{naming.GROUP}/not-in-use"
    settings.persistence.diffbase_storage = _NoEssence()
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 10.0
    settings.networking.error_backoffs = _Delays()
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.chunk_size = 500
    for resource, selector in SELECTORS.items():
        if selector:
            key = (resource.group, resource.version, resource.plural)
            settings.watching.label_selectors[key] = selector
    return settings
