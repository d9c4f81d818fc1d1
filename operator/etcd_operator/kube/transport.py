"""The lower half of the Kubernetes client: credentials, TLS, connections, and single requests.

It uses the configuration of `kubernetes.aio`, which supports pods, kubeconfigs and credential
plugins. The generated client of that package is not loaded (10 MiB). It would parse every answer
into pydantic models (a hundred modules, ten times the time of `json.loads`, and a `ValidationError`
for an object that is only unusual), and by default waits five minutes for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import resource
import socket
import ssl
import sys
import threading
import weakref
from collections.abc import AsyncIterator, MutableMapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import load_incluster_config

from etcd_operator.kube.api import FIELD_MANAGER, Json

KEEPALIVE_SECONDS = 60.0
"""Less than the API server's 90 seconds, so that a pass does not begin with a closed connection and
another TLS handshake."""

CUT_ROUNDS = 100
CUT_SECONDS = 0.01
"""Sockets that were shut down are closed after a few iterations of the event loop."""

JSON = "application/json"
APPLY = "application/apply-patch+yaml; charset=utf-8"
"""With the charset, `kubernetes.aio` sends a body of bytes as it is."""

_ESCAPED = re.compile("[\x7f-\ud7ff\ue000-\uffff]")

DEEPEST = 11_000
"""How deep Python may recurse. The API server takes objects of 10000 levels, whose managedFields
anyone may write who may write the object, and a LIST wraps them. Python gives up at 1000, and one
such object would keep the operator from listing any other."""

STACK_BYTES = 8 * 1024 * 1024
"""The stack of a thread: several times as much as so many levels need."""


class NotConfigured(Exception):
    """There is neither a service account nor a usable kubeconfig."""


class Answer(NamedTuple):
    status: int
    retry_after: float | None
    data: bytes


class Connector(aiohttp.TCPConnector):
    """A connector that closes its connections at once, whatever the other end does.

    asyncio would wait 30 s for the other end to close TLS too. And a connection that was cancelled
    before TLS began stays open forever (3.11), so its socket would outlive the event loop.
    """

    def __init__(self, context: ssl.SSLContext | bool) -> None:
        super().__init__(limit=0, ssl=context, socket_factory=self._open)
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        for _ in range(CUT_ROUNDS):
            if not self._cut():
                return
            await asyncio.sleep(CUT_SECONDS)

    def _open(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    def _cut(self) -> bool:
        """Shuts down the sockets that are still open, as if the other end had closed them. Returns
        whether there were any."""
        still = [each for each in self._sockets if each.fileno() != -1]
        for each in still:
            with contextlib.suppress(OSError):  # not connected yet, or not any more
                each.shutdown(socket.SHUT_RDWR)
        return bool(still)


class _Rest(RESTClientObject):
    def _create_connector(self) -> aiohttp.TCPConnector:
        # The client limits how many calls there are at a time.
        return aiohttp.TCPConnector(
            limit=0, ssl=self.ssl_context, keepalive_timeout=KEEPALIVE_SECONDS
        )


class Transport:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._rest = _Rest(configuration)
        self._streams: aiohttp.ClientSession | None = None

    @property
    def server(self) -> str:
        return str(self.configuration.host)

    def session(self, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        """A session with the same credentials, for the watches. It belongs to the running loop."""

        async def authorize(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            await self._identify(request.headers)
            return await handler(request)

        return aiohttp.ClientSession(
            connector=Connector(self._rest.ssl_context),
            middlewares=(authorize,),
            trace_configs=list(traces),
            **(self.configuration.client_session_kwargs or {}),
        )

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, query: dict[str, str], *, accept: str, seconds: float, silent: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A streamed response. It must begin within `seconds`, and at most `silent` seconds may
        pass between its parts."""
        if self._streams is None:
            self._streams = self.session()
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(seconds):
                asked = self._streams.get(
                    f"{self.server}{path}",
                    params=query,
                    headers={"Accept": accept},
                    timeout=aiohttp.ClientTimeout(total=None, sock_read=silent),
                )
                response = await stack.enter_async_context(asked)
            yield response

    async def close(self) -> None:
        if self._streams is not None:
            await self._streams.close()
        await self._rest.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str],
        body: Json | bytes | None,
        content_type: str,
        accept: str,
        seconds: float,
    ) -> Answer:
        url = f"{self.server}{path}"
        if query:
            url += f"?{urlencode(query, quote_via=quote)}"
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        await self._identify(headers)
        response = await self._rest.request(  # type: ignore[no-untyped-call]
            method, url, headers, body, _request_timeout=aiohttp.ClientTimeout(total=seconds)
        )
        data: bytes = await response.read()
        return Answer(response.status, retry_after(response.headers.get("Retry-After")), data)

    async def _identify(self, headers: MutableMapping[str, str]) -> None:
        """Sets the token for each request, because a bound token expires after an hour while a
        session lasts. Raises OSError if there is none to read."""
        try:
            token = (await self.configuration.auth_settings()).get("BearerToken")
        except ConfigException as error:
            raise OSError(str(error)) from error
        if token and token["value"]:
            headers[token["key"]] = token["value"]


async def load_configuration(kubeconfig: str | None = None) -> Configuration:
    """What the kubeconfig says. Without one, of the pod's service account, whose token is read
    again every minute; else of the kubeconfig of the environment. Raises `NotConfigured`."""
    configuration = Configuration()
    why = "a kubeconfig is given" if kubeconfig else _load_service_account(configuration)
    if why:
        try:
            await _load_kubeconfig(kubeconfig, configuration)
        except (ConfigException, OSError) as error:
            raise NotConfigured(f"no service account ({why}), and: {error}") from error
    # A pod may be told of a proxy for what is outside of the cluster, with the network of Services
    # in NO_PROXY. Unlike Go, Python does not understand networks there.
    configuration.client_session_kwargs = {"trust_env": bool(why)}
    return configuration


def _load_service_account(configuration: Configuration) -> str:
    """Returns why there is none; empty if it was loaded."""
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        return str(error)
    return ""


async def _load_kubeconfig(file: str | None, configuration: Configuration) -> None:
    """Raises ConfigException and OSError."""
    # Imported only outside a pod, because this module loads the generated client.
    from kubernetes.aio.config.kube_config import load_kube_config  # noqa: PLC0415

    await load_kube_config(  # type: ignore[no-untyped-call]
        config_file=file, client_configuration=configuration
    )


def as_yaml(manifest: Json) -> bytes:
    """The body of an apply, which the API server reads as YAML. That has no surrogate pairs, as by
    which JSON may escape an emoji. Other characters, some of which YAML forbids, are escaped."""
    text = json.dumps(manifest, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode(errors="replace")


def accept_deep_json() -> None:
    """Lets this process, and the threads that it starts, parse whatever the API server sends."""
    sys.setrecursionlimit(DEEPEST)
    threading.stack_size(STACK_BYTES)


def accept_many_files() -> None:
    """Raises the limit of open files to what this process is allowed, as each program in Go does.

    Each watch has a connection of its own: eleven for each namespace that is served. Container
    runtimes may start a process with a limit of 1024, which it may raise by itself.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # more than the kernel allows by now
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def retry_after(header: str | None) -> float | None:
    return float(header) if header and header.isdecimal() else None
