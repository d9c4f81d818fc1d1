"""Watches of names only: what they request, and what happens when a watch ends."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from etcd_operator.kube import tables
from etcd_operator.kube.api import SECRETS, WATCH_SECONDS, Rejected, Unavailable
from etcd_operator.kube.client import Client
from etcd_operator.kube.tables import Change
from unit.kube.listening import listening

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def event(kind, name, version):
    cells = [name, "Opaque", 3, "1d"]
    table = {"metadata": {"resourceVersion": str(version)}, "rows": [{"cells": cells}]}
    return json.dumps({"type": kind, "object": table}) + "\n"


EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


class Server:
    """Answers a watch with these parts, and then ends it, breaks it off or falls silent."""

    def __init__(self):
        self.status, self.parts, self.end = 200, [], "ends"
        self.version = "17"
        self.asked = None

    async def handle(self, request):
        self.asked = request
        if self.status != 200 or "watch" not in request.query:
            metadata = {"resourceVersion": self.version}
            body = {"kind": "Status", "message": "no", "metadata": metadata}
            return web.json_response(body, status=self.status)
        response = web.StreamResponse()
        await response.prepare(request)
        for part in self.parts:
            await response.write(part.encode())
        if self.end == "breaks":
            request.transport.abort()
        elif self.end == "silent":
            await asyncio.sleep(30)
        return response


@pytest.fixture
async def server():
    server = Server()
    async with listening(server.handle) as served:
        server.url = served.url
        yield server


@pytest.fixture
async def client(server):
    client = Client(Configuration(host=server.url), seconds=5)
    yield client
    await client.close()


async def told(client, since=7):
    return [change async for change in client.changes(SECRETS, "ns", since)]


async def test_the_watch_never_requests_contents_or_annotations(client, server):
    assert await client.version(SECRETS, "ns") == 17
    asked = [server.asked]
    await told(client)
    asked.append(server.asked)

    for request in asked:
        assert request.path == "/api/v1/namespaces/ns/secrets"
        assert request.headers["Accept"] == TABLE
        assert request.query["includeObject"] == "None"
    assert asked[0].query["limit"] == "1"
    assert dict(asked[1].query) == {
        "includeObject": "None",
        "watch": "true",
        "resourceVersion": "7",
        "timeoutSeconds": str(WATCH_SECONDS),
        "allowWatchBookmarks": "true",
    }


@pytest.mark.parametrize("version", ["", None, {}])
async def test_a_list_without_a_resource_version_is_an_error_without_a_traceback(
    client, server, version
):
    server.version = version

    with pytest.raises(Unavailable, match="no table"):
        await client.version(SECRETS, "ns")


async def test_a_watch_yields_names_and_resource_versions(client, server):
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "30"}}}
    whole = event("MODIFIED", "s", 20) + event("DELETED", "t", 21) + json.dumps(bookmark) + "\n"
    server.parts = [whole[:40], whole[40:]]

    assert await told(client) == [Change("s", 20), Change("t", 21), Change("", 30)]


@pytest.mark.parametrize("end", ["ends", "breaks", "silent"])
async def test_the_end_of_a_watch_is_no_error_and_its_changes_are_kept(
    client, server, end, monkeypatch
):
    monkeypatch.setattr(tables, "SILENT_SECONDS", 1.0)
    server.parts, server.end = [event("ADDED", "s", 20)], end

    assert await told(client) == [Change("s", 20)]


async def test_a_secret_with_a_type_longer_than_the_line_limit_ended_the_whole_operator(
    client, server
):
    table = {"metadata": {"resourceVersion": "21"}, "rows": [{"cells": ["t", "x" * 600_000]}]}
    long = json.dumps({"type": "ADDED", "object": table}) + "\n"
    server.parts = [event("ADDED", "s", 20), long]

    # It must not look like the end of a watch, or the next watch would begin right before this
    # line.
    with pytest.raises(Unavailable, match="watch /api/v1/namespaces/ns/secrets: "):
        await told(client)


async def test_a_watch_from_an_expired_version_is_rejected(client, server):
    server.parts = [json.dumps({"type": "ERROR", "object": EXPIRED}) + "\n"]

    with pytest.raises(Rejected, match="too old") as refused:
        await told(client)
    assert refused.value.status == 410


@pytest.mark.parametrize(
    ("status", "kind"), [(403, Rejected), (410, Rejected), (429, Unavailable), (503, Unavailable)]
)
async def test_a_watch_that_is_refused_is_rejected(client, server, status, kind):
    server.status = status

    with pytest.raises(kind, match="watch /api/v1/namespaces/ns/secrets"):
        await told(client)


async def test_an_unreachable_server_is_not_taken_for_a_quiet_watch():
    client = Client(Configuration(host="http://127.0.0.1:1"), seconds=5)
    with pytest.raises(Unavailable):
        await told(client)
    await client.close()


@pytest.mark.parametrize(
    "line",
    [
        "<html>",
        "[]",
        "{}",
        '{"type": "ADDED", "object": {"metadata": {"resourceVersion": "1"}, "rows": []}}',
        '{"type": "ADDED", "object": {"metadata": {"resourceVersion": "x"}}}',
        '{"type": "ADDED", "object": null}',
    ],
)
async def test_a_response_that_is_not_a_table_is_an_error_without_a_traceback(client, server, line):
    server.parts = [line + "\n"]

    with pytest.raises(Unavailable, match=r"no (row of a )?table"):
        await told(client)
