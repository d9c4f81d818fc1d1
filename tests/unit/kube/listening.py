"""A server on loopback that records the requests of a client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from aiohttp import web


class Served(NamedTuple):
    url: str
    stop: Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[Served]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield Served(f"http://127.0.0.1:{runner.addresses[0][1]}", runner.cleanup)
    await runner.cleanup()
