"""The Kubernetes API through `kubernetes.aio`: plain dictionaries, a deadline on every call.

Only the client's lower half is used: configuration and credentials, TLS, the connection pool. Its
generated methods would parse every answer into pydantic models (a hundred modules, ten times the
time of `json.loads`, and a `ValidationError` for an object that is merely unusual), and they retry
nothing and time out after five minutes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, Self

import aiohttp
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.client.rest import RESTClientObject

from etcd_operator.kube import (
    FIELD_MANAGER,
    STATUS_FIELD_MANAGER,
    Json,
    Listing,
    Rejected,
    Resource,
    Unavailable,
    refusal,
)

PAGE = 500
KEEPALIVE_SECONDS = 60.0
"""Below the API server's 90: a pass must not begin with a TLS handshake."""

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"

Observe = Callable[[str, Resource, int, float], None]
"""Told of each call: verb, resource, status (0: no answer), seconds."""


class _Rest(RESTClientObject):
    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, keepalive_timeout=KEEPALIVE_SECONDS
        )


class Client:
    """Implements `kube.Kubernetes`."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        seconds: float = 10.0,
        observe: Observe = lambda *_: None,
    ) -> None:
        self._configuration = configuration
        self._rest = _Rest(configuration)
        self._api = ApiClient(configuration)
        self._api.rest_client = self._rest
        self._api.user_agent = FIELD_MANAGER
        self._seconds = seconds
        self._observe = observe

    @classmethod
    async def connect(cls, *, seconds: float = 10.0, observe: Observe = lambda *_: None) -> Self:
        """As the pod's service account, its token read anew every minute; else by kubeconfig."""
        configuration = Configuration()
        try:
            kubernetes_config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
        except kubernetes_config.ConfigException:
            await kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
        return cls(configuration, seconds=seconds, observe=observe)

    @property
    def server(self) -> str:
        return str(self._configuration.host)

    def session(self, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        """A session of the same identity, for the watches; belongs to the running loop."""

        async def authorize(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            # With each request: a bound token is good for an hour, a session for ever.
            await self._api.update_params_for_auth(
                request.headers, [], ["BearerToken"], "", request.method, None
            )
            return await handler(request)

        connector = aiohttp.TCPConnector(limit=0, ssl=self._rest.ssl_context)
        return aiohttp.ClientSession(
            connector=connector,
            middlewares=(authorize,),
            trace_configs=list(traces),
            trust_env=True,
        )

    async def close(self) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        try:
            return await self._call("get", resource, resource.path(namespace, name))
        except Rejected as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, resource: Resource, namespace: str | None, selector: str = ""
    ) -> list[Json]:
        return (await self.list_at(resource, namespace, selector)).items

    async def list_at(
        self, resource: Resource, namespace: str | None, selector: str = ""
    ) -> Listing:
        for _ in range(3):
            try:
                return await self._pages(resource, namespace, selector)
            except Rejected as error:
                # 410: the snapshot that the pages come from was compacted away meanwhile.
                if error.status != 410:
                    raise
        raise Unavailable(f"list {resource.plural}: the pages expired three times", status=410)

    async def apply(self, resource: Resource, manifest: Json, *, status: bool = False) -> Json:
        manager = STATUS_FIELD_MANAGER if status else FIELD_MANAGER
        typed = {"apiVersion": resource.api_version, "kind": resource.kind} | manifest
        return await self._call(
            "apply",
            resource,
            _object_path(resource, manifest) + ("/status" if status else ""),
            query={"fieldManager": manager, "force": "true"},
            body=typed,
            content_type=APPLY,
        )

    async def create(self, resource: Resource, manifest: Json) -> Json:
        return await self._call(
            "create",
            resource,
            resource.path(manifest["metadata"].get("namespace")),
            query={"fieldManager": FIELD_MANAGER},
            body={"apiVersion": resource.api_version, "kind": resource.kind} | manifest,
        )

    async def merge_patch(
        self, resource: Resource, namespace: str, name: str, patch: Json, *, status: bool = False
    ) -> Json:
        return await self._call(
            "patch",
            resource,
            resource.path(namespace, name) + ("/status" if status else ""),
            query={"fieldManager": STATUS_FIELD_MANAGER if status else FIELD_MANAGER},
            body=patch,
            content_type=MERGE,
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        orphan: bool = False,
        grace_seconds: int | None = None,
    ) -> bool:
        preconditions = {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = resource_version
        options: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": "Orphan" if orphan else "Background",
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self._call("delete", resource, resource.path(namespace, name), body=options)
        except Rejected as error:
            if error.status == 404:
                return False
            raise
        return True

    async def _pages(self, resource: Resource, namespace: str | None, selector: str) -> Listing:
        items: list[Json] = []
        query = {"limit": str(PAGE)}
        if selector:
            query["labelSelector"] = selector
        while True:
            page = await self._call("list", resource, resource.path(namespace), query=query)
            # The items of a list come without a type of their own.
            typed = {"apiVersion": resource.api_version, "kind": resource.kind}
            items += [typed | item for item in page.get("items") or []]
            metadata = page["metadata"]
            if not metadata.get("continue"):
                return Listing(items, int(metadata["resourceVersion"]))
            query["continue"] = metadata["continue"]

    async def _call(
        self,
        verb: str,
        resource: Resource,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Json | None = None,
        content_type: str = JSON,
    ) -> Json:
        started = time.monotonic()
        status = 0
        try:
            async with asyncio.timeout(self._seconds):
                status, headers, data = await self._send(verb, path, query, body, content_type)
        except TimeoutError:
            raise Unavailable(f"{verb} {path}: no answer within {self._seconds:g} s") from None
        except (aiohttp.ClientError, ApiException, OSError) as error:
            raise Unavailable(f"{verb} {path}: {str(error) or type(error).__name__}") from error
        finally:
            self._observe(verb, resource, status, time.monotonic() - started)
        answer = _parsed(data)
        if status < 400 and answer is not None:
            return answer
        raise refusal(f"{verb} {path}", status, answer, _seconds(headers.get("Retry-After")))

    async def _send(
        self,
        verb: str,
        path: str,
        query: dict[str, str] | None,
        body: Json | None,
        content_type: str,
    ) -> tuple[int, Any, bytes]:
        method, url, headers, sent, _ = await self._api.param_serialize(
            _METHODS[verb],
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": JSON, "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        response = await self._api.call_api(
            method,
            url,
            headers,
            sent,
            _request_timeout=aiohttp.ClientTimeout(total=self._seconds),
        )
        data: bytes = await response.read()  # type: ignore[no-untyped-call]
        return response.status, response.headers, data


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


def _parsed(data: bytes) -> Json | None:
    try:
        answer = json.loads(data)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _seconds(retry_after: str | None) -> float | None:
    return float(retry_after) if retry_after and retry_after.isdigit() else None
