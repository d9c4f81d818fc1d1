"""A proxy before the S3 server that does to chosen requests what networks and stores do."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from aiohttp import ClientSession, DummyCookieJar, web

Verdict = int | str | None
"""A status to answer instead, `reset`, `slow`, `drip`, or None: let it through."""

ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>as told</Message></Error>'
CODES = {403: "AccessDenied", 500: "InternalError", 503: "SlowDown", 507: "QuotaExceeded"}


@dataclass
class Faulty:
    target: str
    judge: Callable[[int, web.Request], Verdict] = lambda _number, _request: None
    seen: list[str] = field(default_factory=list)
    endpoint: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        number = len(self.seen)
        self.seen.append(f"{request.method} {request.path_qs}")
        verdict = self.judge(number, request)
        if verdict == "reset" and request.transport is not None:
            request.transport.abort()
        if verdict == "slow":
            await asyncio.sleep(3600)
        if isinstance(verdict, int):
            await request.read()
            return web.Response(status=verdict, text=ERROR.format(code=CODES[verdict]))
        return await self._pass_on(request, drip=verdict == "drip")

    async def _pass_on(self, request: web.Request, *, drip: bool) -> web.StreamResponse:
        body = await request.read()
        async with (
            ClientSession(auto_decompress=False, cookie_jar=DummyCookieJar()) as session,
            session.request(
                request.method,
                self.target + request.raw_path,
                headers=request.headers,  # the Host too: it is signed
                data=io.BytesIO(body) if body else None,
                skip_auto_headers=("Content-Type", "Accept", "User-Agent"),
            ) as answer,
        ):
            content = await answer.read()
            kept = {k: v for k, v in answer.headers.items() if k not in ("Transfer-Encoding",)}
            if drip:
                return await _drip(request, answer.status, kept, content)
            return web.Response(status=answer.status, body=content, headers=kept)


async def _drip(
    request: web.Request, status: int, headers: dict[str, str], content: bytes
) -> web.StreamResponse:
    """A slow line: a twelfth every fifth of a second."""
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    piece = len(content) // 12 + 1
    for at in range(0, len(content), piece):
        await asyncio.sleep(0.2)
        await response.write(content[at : at + piece])
    return response


@contextlib.asynccontextmanager
async def proxied(target: str) -> AsyncIterator[Faulty]:
    faulty = Faulty(target)
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", faulty.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    faulty.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield faulty
    finally:
        await runner.cleanup()
