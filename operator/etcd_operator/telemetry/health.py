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
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from etcd_operator.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
LATE_SECONDS = 1.0
STALLED_SECONDS = 15.0
OUTAGE_SECONDS = 600.0
"""How long the API server may be away, however short the resync interval is."""


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

    def page(path: str, problems: Callable[[Health], list[str]]) -> None:
        async def answer(_: web.Request) -> web.Response:
            found = problems(health)
            return web.Response(
                text="\n".join(found or ["ok"]) + "\n", status=503 if found else 200
            )

        app.router.add_get(path, answer)

    app = web.Application()
    page("/healthz", Health.problems)
    page("/readyz", lambda health: health.ready())
    return app


def metrics_app(metrics: Metrics) -> web.Application:
    """`/metrics`. It runs on the event loop instead of prometheus_client's thread, so that a scrape
    fails if the loop is blocked."""

    async def page(_: web.Request) -> web.Response:
        body = generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    app = web.Application()
    app.router.add_get("/metrics", page)
    return app


async def serve(app: web.Application, port: int) -> web.AppRunner:
    """Listens on all IPv4 and IPv6 addresses. `cleanup()` of the returned runner ends it."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, None, port).start()
    return runner
