"""Whether this process should be restarted (`/healthz`) and whether it knows enough (`/readyz`).

Silence of a watch proves nothing, so liveness hangs on the resync: it fails when every watched
resource has not been listed for three intervals. That outlasts any ordinary outage of the API
server, during which a restart would only make things worse.
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


@dataclass
class Health:
    """When the last resync and the last beat of the event loop were."""

    resync_seconds: float
    clock: Callable[[], float] = time.monotonic
    ready: Callable[[], list[str]] = list
    """What is missing before the caches can be trusted."""

    resynced: float = field(init=False)
    beaten: float = field(init=False)

    def __post_init__(self) -> None:
        self.resynced = self.beaten = self.clock()

    def problems(self) -> list[str]:
        now = self.clock()
        found = []
        if now - self.resynced > 3 * self.resync_seconds:
            found.append(f"the last resync is {now - self.resynced:.0f} s old")
        if now - self.beaten > STALLED_SECONDS:
            found.append(f"the event loop has been late for {now - self.beaten:.0f} s")
        return found

    async def beat(self, metrics: Metrics) -> None:
        """Measure by how much the event loop wakes a sleeper too late; runs for ever."""
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
    """On aiohttp rather than in prometheus_client's thread: a stalled loop is a failed scrape."""

    async def page(_: web.Request) -> web.Response:
        body = generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    app = web.Application()
    app.router.add_get("/metrics", page)
    return app


async def serve(app: web.Application, port: int) -> web.AppRunner:
    """Listen on all addresses, IPv4 and IPv6 alike; `cleanup()` of what is returned ends it."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, None, port).start()
    return runner
