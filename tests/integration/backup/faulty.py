"""A proxy in front of a store that makes chosen requests fail as networks and stores do."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import ClientSession, DummyCookieJar, web
from yarl import URL

Verdict = int | str | None
"""What happens to a request: a status to answer instead, one of these names, or None to pass it on.

- `reset`: the connection is reset, and the request never arrives.
- `lost`: the request arrives, but its answer does not.
- `slow`: there is no answer; `drip`: the answer comes slowly; `cut`: it ends half-way.
- `held`: the request does not arrive before it is let go.
- `half`: half of the answer arrives.
"""

ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>as told</Message></Error>'
CODES = {403: "AccessDenied", 500: "InternalError", 503: "SlowDown", 507: "QuotaExceeded"}


@dataclass
class Faulty:
    target: str
    judge: Callable[[int, web.Request], Verdict] = lambda _number, _request: None
    seen: list[str] = field(default_factory=list)
    endpoint: str = ""
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while a request is held."""
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    def begin_anew(self) -> None:
        """Starts over. A request that is held stays so for good."""
        self.seen.clear()
        self.waits, self.let_go = asyncio.Event(), asyncio.Event()

    async def held(self) -> None:
        self.waits.set()
        await self.let_go.wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        number = len(self.seen)
        self.seen.append(f"{request.method} {request.path_qs}")
        verdict = self.judge(number, request)
        if verdict == "reset":
            return _hung_up_on(request)
        if verdict == "slow":
            await asyncio.sleep(3600)
        if verdict == "held":
            await self.held()
        if isinstance(verdict, int):
            await request.read()
            return web.Response(status=verdict, text=ERROR.format(code=CODES[verdict]))
        return await self._pass_on(request, verdict)

    def headers(self, request: web.Request) -> Mapping[str, str] | web.Response:
        """Headers for the store, or a response in its place."""
        return request.headers  # With the Host, which is signed.

    async def _pass_on(self, request: web.Request, verdict: Verdict) -> web.StreamResponse:
        body, headers = await request.read(), self.headers(request)
        if isinstance(headers, web.Response):
            return headers
        async with (
            ClientSession(auto_decompress=False, cookie_jar=DummyCookieJar()) as session,
            session.request(
                request.method,
                URL(self.target + request.rel_url.raw_path_qs, encoded=True),
                headers=headers,
                data=io.BytesIO(body) if body else None,
                skip_auto_headers=("Content-Type", "Accept", "User-Agent"),
            ) as answer,
        ):
            content = await answer.read()
            kept = {k: v for k, v in answer.headers.items() if k not in ("Transfer-Encoding",)}
            if verdict == "drip":
                return await _drip(request, answer.status, kept, content)
            if verdict == "cut":
                return await _cut(request, answer.status, kept, content)
            if verdict == "half":
                return await self._half(request, answer.status, kept, content)
            if verdict == "lost":
                return _hung_up_on(request)
            return web.Response(status=answer.status, body=content, headers=kept)

    async def _half(
        self, request: web.Request, status: int, headers: dict[str, str], content: bytes
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        await response.write(content[: len(content) // 2])
        await self.held()
        await response.write(content[len(content) // 2 :])
        return response


def _hung_up_on(request: web.Request) -> web.Response:
    """Resets the connection."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _cut(
    request: web.Request, status: int, headers: dict[str, str], content: bytes
) -> web.StreamResponse:
    """Closes the connection after half of the answer."""
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    await response.write(content[: len(content) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


async def _drip(
    request: web.Request, status: int, headers: dict[str, str], content: bytes
) -> web.StreamResponse:
    """Sends a twelfth of the answer every fifth of a second."""
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    piece = len(content) // 12 + 1
    for at in range(0, len(content), piece):
        await asyncio.sleep(0.2)
        await response.write(content[at : at + piece])
    return response


AnyFaulty = TypeVar("AnyFaulty", bound=Faulty)


@contextlib.asynccontextmanager
async def proxied(target: str) -> AsyncIterator[Faulty]:
    async with serving(Faulty(target)) as faulty:
        yield faulty


@contextlib.asynccontextmanager
async def serving(faulty: AnyFaulty) -> AsyncIterator[AnyFaulty]:
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
