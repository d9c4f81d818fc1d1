"""What the shell's tests share: objects to make, watches to break, an informer to listen to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
from harness.slow import SLOW

from etcd_operator.kube.api import Json, Key, Resource
from etcd_operator.kube.client import Client
from etcd_operator.kube.store import Store
from etcd_operator.kube.watches import Scope
from etcd_operator.queue.informer import Informer
from etcd_operator.settings import Settings
from etcd_operator.telemetry.health import Health
from etcd_operator.telemetry.metrics import Metrics

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


def labels(cluster: str = "a") -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "etcd-operator",
        "app.kubernetes.io/instance": cluster,
    }


def service(namespace: str, name: str = "a", **metadata: Any) -> Json:
    metadata = {"namespace": namespace, "name": name, "labels": labels()} | metadata
    return {"metadata": metadata, "spec": {"ports": [{"port": 2379}]}}


class Breakable:
    """The client's sessions for kopf, whose watches can be cut, deafened and made too old."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.cut = False
        self.too_old = False
        self.were_too_old: set[str] = set()
        """Paths of the watches that were answered to while this was so."""

        self._open: list[aiohttp.ClientResponse] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def server(self) -> str:
        return self._client.transport.server

    def session(self, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        self._loop = asyncio.get_running_loop()
        session = self._client.transport.session(*traces)
        session._middlewares = (*session._middlewares, self._meddle)
        return session

    async def _meddle(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if "watch" not in request.url.query:
            return await handler(request)
        if self.cut:
            raise aiohttp.ClientConnectionError("cut by the test")
        if self.too_old:
            request.url = request.url.update_query(resourceVersion="1")
        response = await handler(request)
        if self.cut:
            response.close()
            raise aiohttp.ClientConnectionError("cut by the test")
        if self.too_old:
            self.were_too_old.add(request.url.path)
        self._open.append(response)
        return response

    async def breaks(self) -> None:
        """As a network does it: the connections are gone from one moment to the next."""
        assert self._loop is not None
        self.cut = True
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._abort(), self._loop))

    async def _abort(self) -> None:
        for response in self._open:
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
        self._open.clear()


class Observable(Informer):
    """One that tells whether the LISTs that follow kopf's are over."""

    _listing = 0

    async def _list(self, scope: Scope) -> int:
        self._listing += 1
        try:
            return await super()._list(scope)
        finally:
            self._listing -= 1

    def rests(self) -> bool:
        return not (self._listing or self._due or self._relist.is_set())


class Informed:
    """A running informer and what it asked to be looked at, by when."""

    def __init__(self, client: Client, connection: Breakable, **settings: Any) -> None:
        self.store = Store()
        self.keys: list[tuple[float, Resource, Key]] = []
        self.metrics = Metrics()
        self.informer = Observable(
            client,
            connection,
            self.store,
            settings=Settings(**settings),
            metrics=self.metrics,
            health=Health(600),
            enqueue=self._enqueue,
            first_round=self._first_round,
        )
        self._task = asyncio.create_task(self.informer.run())

    async def _first_round(self) -> None:
        pass

    def _enqueue(self, resource: Resource, key: Key) -> None:
        self.keys.append((asyncio.get_running_loop().time(), resource, key))

    async def ready(self) -> None:
        await until(lambda: self.informer.not_ready() == [], 30)
        await asyncio.sleep(0.1)  # the last of what kopf's thread has handed over
        # The LISTs that follow kopf's: from here on only watches tell anything.
        await until(self.informer.rests, 30)
        self.keys.clear()

    async def asked(self, resource: Resource, key: Key, seconds: float) -> float:
        """Seconds until it is asked for; what was asked for before is forgotten."""
        began = asyncio.get_running_loop().time()
        await until(lambda: any((r, k) == (resource, key) for _, r, k in self.keys), seconds)
        when = next(t for t, r, k in self.keys if (r, k) == (resource, key))
        self.keys.clear()
        return when - began

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def until(condition: Callable[[], bool], seconds: float) -> None:
    """Within so many seconds of a quiet machine; a full one gets `SLOW` times that."""
    async with asyncio.timeout(SLOW * seconds):
        while not condition():
            await asyncio.sleep(0.005)
