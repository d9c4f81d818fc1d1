"""The probes: whether this process should be restarted (`/healthz`) and whether its caches are
complete (`/readyz`).

A silent watch proves nothing, so liveness depends on the resync: it fails if no resync has
succeeded for three intervals, or ten minutes if those are shorter. This is longer than any ordinary
outage of the API server, during which a restart would only make things worse. It also fails if the
event loop is blocked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from etcd_operator.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
LATE_SECONDS = 1.0
STALLED_SECONDS = 15.0
OUTAGE_SECONDS = 600.0
"""How long the API server may be away, however short the resync interval is."""

PAGE_SECONDS = 1.0
"""How old the page of metrics may be. With 100 clusters it takes some 20 ms to make."""

MOST_CONNECTIONS = 128
"""How many connections to a port are kept. A probe or a scrape asks at once, so of more than these
the oldest is closed: anyone who reaches the pod can open thousands, and say nothing."""

AT_ONCE = MOST_CONNECTIONS // 2
"""How many are accepted in one turn of the event loop, for each of IPv4 and IPv6. So the oldest of
too many was accepted in an earlier turn, and can be closed."""


@dataclass
class Health:
    """When the last resync succeeded, and when the event loop last ran."""

    resync_seconds: float
    clock: Callable[[], float] = time.monotonic
    ready: Callable[[], list[str]] = list
    """Returns what is missing until the caches are complete."""

    resynced: float = field(init=False)
    beaten: float = field(init=False)

    def __post_init__(self) -> None:
        self.resynced = self.beaten = self.clock()

    def problems(self) -> list[str]:
        now = self.clock()
        found = []
        if now - self.resynced > max(3 * self.resync_seconds, OUTAGE_SECONDS):
            found.append(f"the last resync is {now - self.resynced:.0f} s old")
        if now - self.beaten > STALLED_SECONDS:
            found.append(f"the event loop has been late for {now - self.beaten:.0f} s")
        return found

    async def beat(self, metrics: Metrics) -> None:
        """Measures how late the event loop wakes a sleeping task; never returns."""
        while True:
            before = self.clock()
            await asyncio.sleep(BEAT_SECONDS)
            self.beaten = self.clock()
            lag = max(0.0, self.beaten - before - BEAT_SECONDS)
            metrics.loop_lag.observe(lag)
            if lag > LATE_SECONDS:
                log.warning("the event loop was late by %.1f s: is there too little CPU?", lag)


def health_app(health: Health) -> web.Application:
    """`/healthz` and `/readyz`: 200, or 503 with one problem on each line."""

    async def healthz(_: web.Request) -> web.Response:
        return _verdict(health.problems())

    async def readyz(_: web.Request) -> web.Response:
        return _verdict(health.ready())

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def _verdict(problems: list[str]) -> web.Response:
    text = "\n".join(problems or ["ok"]) + "\n"
    return web.Response(text=text, status=503 if problems else 200)


def metrics_app(metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> web.Application:
    """`/metrics`. It runs on the event loop instead of prometheus_client's thread, so that a scrape
    fails if the loop is blocked. Anybody may ask, so a page is served again for PAGE_SECONDS."""
    made_at, body = float("-inf"), b""

    async def page(_: web.Request) -> web.Response:
        nonlocal made_at, body
        if clock() - made_at >= PAGE_SECONDS:
            made_at, body = clock(), generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    app = web.Application()
    app.router.add_get("/metrics", page)
    return app


async def serve(app: web.Application, port: int) -> web.AppRunner:
    """Listens on all IPv4 and IPv6 addresses. `cleanup()` of the returned runner ends it."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await _Site(runner, port).start()
    return runner


class _Site(web.BaseSite):
    """Like aiohttp's TCPSite, for a limited number of connections."""

    def __init__(self, runner: web.AppRunner, port: int) -> None:
        super().__init__(runner, backlog=AT_ONCE)
        self._port = port
        self._make_handler = cast("web.Server", runner.server)
        self._newest: deque[web.RequestHandler] = deque()

    @property
    def name(self) -> str:
        return f"port {self._port}"

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept, None, self._port, backlog=self._backlog
        )

    def _accept(self) -> web.RequestHandler:
        if len(self._newest) == MOST_CONNECTIONS:
            self._newest.popleft().force_close()
        self._newest.append(self._make_handler())
        return self._newest[-1]
