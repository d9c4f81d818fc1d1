"""The Kubernetes API's verbs on plain dictionaries, with a deadline on every call.

An error response is raised as an exception by what it means to the caller (`api.refusal`).
Calls are not retried here: the queue starts another pass, which observes everything again first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, Callable
from typing import Self

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException

from etcd_operator.kube import tables
from etcd_operator.kube.api import (
    FIELD_MANAGER,
    LEASES,
    STATUS_FIELD_MANAGER,
    Conflict,
    Json,
    Listing,
    Propagation,
    Rejected,
    Resource,
    Unavailable,
    refusal,
)
from etcd_operator.kube.tables import Change
from etcd_operator.kube.transport import (
    APPLY,
    JSON,
    Transport,
    as_yaml,
    load_configuration,
    retry_after,
)

PAGE = 500
MOST_CALLS = 100
"""How many calls may be under way. The others wait for their turn, but not those for the Lease: an
operator whose calls hang must not lose it."""

MERGE = "application/merge-patch+json"

Observe = Callable[[str, Resource, int, float], None]
"""Is called after each request with verb, resource, HTTP status (0: no answer) and seconds."""


class Client:
    """Implements `kube.Kubernetes`, and `name_changes.Tables`."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        seconds: float = 10.0,
        observe: Observe = lambda *_: None,
    ) -> None:
        self.transport = Transport(configuration)
        self._seconds = seconds
        self._observe = observe
        self._turns = asyncio.Semaphore(MOST_CALLS)

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        seconds: float = 10.0,
        observe: Observe = lambda *_: None,
    ) -> Self:
        """Connects as `load_configuration` says. Raises `NotConfigured`."""
        configuration = await load_configuration(kubeconfig)
        return cls(configuration, seconds=seconds, observe=observe)

    async def close(self) -> None:
        await self.transport.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        try:
            return await self._call("get", resource, resource.path(namespace, name))
        except Rejected as error:
            if _says_absent(error):
                return None
            raise

    async def list(self, resource: Resource, namespace: str | None, selector: str = "") -> Listing:
        for _ in range(3):
            try:
                return await self._pages(resource, namespace, selector)
            except Rejected as error:
                # 410: the revision that the pages come from was compacted meanwhile.
                if error.status != 410:
                    raise
        raise Unavailable(f"list {resource.plural}: the pages expired three times", status=410)

    async def apply(self, resource: Resource, manifest: Json, *, status: bool = False) -> Json:
        manager = STATUS_FIELD_MANAGER if status else FIELD_MANAGER
        answer = await self._call(
            "apply",
            resource,
            _object_path(resource, manifest) + ("/status" if status else ""),
            query={"fieldManager": manager, "force": "true"},
            body=as_yaml(resource.named(manifest)),
            content_type=APPLY,
        )
        return _same(manifest, answer)

    async def create(self, resource: Resource, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        return await self._call(
            "create",
            resource,
            resource.path(metadata.get("namespace")),
            name=metadata.get("name", ""),
            query={"fieldManager": FIELD_MANAGER},
            body=resource.named(manifest),
        )

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Json,
        *,
        status: bool = False,
        dry_run: bool = False,
    ) -> Json:
        query = {"fieldManager": STATUS_FIELD_MANAGER if status else FIELD_MANAGER}
        answer = await self._call(
            "patch",
            resource,
            resource.path(namespace, name) + ("/status" if status else ""),
            query=query | ({"dryRun": "All"} if dry_run else {}),
            body=patch,
            content_type=MERGE,
        )
        return _same(patch, answer)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        preconditions = {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = resource_version
        options: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": propagation,
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self._call("delete", resource, resource.path(namespace, name), body=options)
        except Rejected as error:
            if _says_absent(error):
                return False
            raise
        return True

    async def version(self, resource: Resource, namespace: str) -> int:
        query = tables.BARE | {"limit": "1"}
        path = resource.path(namespace)
        table = await self._call("list", resource, path, query=query, accept=tables.ACCEPT)
        return tables.version(f"list {path}", table)

    async def changes(
        self, resource: Resource, namespace: str, since: int
    ) -> AsyncGenerator[Change, None]:
        path = resource.path(namespace)
        call, begun = f"watch {path}", False
        try:
            async with self.transport.stream(
                path,
                tables.watch_from(since),
                accept=tables.ACCEPT,
                seconds=self._seconds,
                silent=tables.SILENT_SECONDS,
            ) as response:
                if response.status != 200:
                    patience = retry_after(response.headers.get("Retry-After"))
                    raise refusal(call, response.status, _parsed(await response.read()), patience)
                begun = True
                async for line in response.content:
                    yield tables.change(call, line)
        except LineTooLong:
            # The next watch must not begin before this line, or no later change would be seen.
            raise Unavailable(f"{call}: a line is too long") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # If the watch had begun, its changes stay valid, and the next watch continues there.
            if not begun:
                raise Unavailable(f"{call}: {str(error) or type(error).__name__}") from error

    async def _pages(self, resource: Resource, namespace: str | None, selector: str) -> Listing:
        items: list[Json] = []
        query = {"limit": str(PAGE)}
        if selector:
            query["labelSelector"] = selector
        while True:
            path = resource.path(namespace)
            page = await self._call("list", resource, path, query=query)
            try:
                items += [resource.named(item) for item in page.get("items") or []]
                metadata = page["metadata"]
                version, more = int(metadata["resourceVersion"]), metadata.get("continue")
            except (ValueError, LookupError, TypeError) as error:
                raise Unavailable(f"list {path}: no list: {error!r}") from None
            if not more:
                return Listing(items, version)
            query["continue"] = more

    async def _call(
        self,
        verb: str,
        resource: Resource,
        path: str,
        *,
        name: str = "",
        query: dict[str, str] | None = None,
        body: Json | bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Json:
        """Makes one call. `name` is used in messages only, where the path does not contain it."""
        started = time.monotonic()
        status = 0
        call = f"{verb} {path}/{name}" if name else f"{verb} {path}"
        turn = contextlib.nullcontext() if resource == LEASES else self._turns
        try:
            async with asyncio.timeout(self._seconds), turn:
                status, wait, data = await self.transport.send(
                    _METHODS[verb],
                    path,
                    query=query or {},
                    body=body,
                    content_type=content_type,
                    accept=accept,
                    seconds=self._seconds,
                )
        except TimeoutError:
            raise Unavailable(f"{call}: no answer within {self._seconds:g} s") from None
        except (aiohttp.ClientError, ApiException, OSError) as error:
            raise Unavailable(f"{call}: {str(error) or type(error).__name__}") from error
        finally:
            self._observe(verb, resource, status, time.monotonic() - started)
        answer = _parsed(data)
        if status < 400 and answer is not None:
            return answer
        raise refusal(call, status, answer, wait)


_METHODS = {
    "get": "GET",
    "list": "GET",
    "apply": "PATCH",
    "patch": "PATCH",
    "create": "POST",
    "delete": "DELETE",
}


def _object_path(resource: Resource, manifest: Json) -> str:
    metadata = manifest["metadata"]
    return resource.path(metadata.get("namespace"), metadata["name"])


def _says_absent(error: Rejected) -> bool:
    """Whether the API server says that the object does not exist. Raises Unavailable for a 404 of
    something before it, such as a load balancer: that an object is gone must not be believed of
    anyone else, because members count as lost by it."""
    if error.not_found and error.reason != "NotFound":
        raise Unavailable(str(error), status=error.status) from None
    return error.not_found


def _same(sent: Json, answer: Json) -> Json:
    """Returns the answer if it has the UID that was sent; else raises Conflict. The API server
    ignores the UID in a status (1.36), so a write to the wrong object is noticed only afterwards.
    """
    uid = (sent.get("metadata") or {}).get("uid")
    if uid is not None and uid != answer["metadata"].get("uid"):
        raise Conflict(f"written to another object of that name, not to {uid}", status=409)
    return answer


def _parsed(data: bytes) -> Json | None:
    try:
        answer = json.loads(data)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
