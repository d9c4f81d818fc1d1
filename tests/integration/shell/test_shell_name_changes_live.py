"""Watches of Secrets' names with the real API server: changes, and nothing of their content."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator

import pytest
from harness.slow import SLOW
from shell_live import until

from etcd_operator.kube import tables
from etcd_operator.kube.api import SECRETS, Json, Key
from etcd_operator.kube.client import Client
from etcd_operator.kube.name_changes import NameChanges

WORDS = "nobody but its owner should see this"


def secret(namespace: str, name: str, words: str = WORDS) -> Json:
    data = {"password": base64.b64encode(words.encode()).decode()}
    kept = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {"namespace": namespace, "name": name, "annotations": {kept: words}}
    return {"metadata": metadata, "data": data}


@contextlib.asynccontextmanager
async def listening(client: Client) -> AsyncIterator[tuple[NameChanges, list[Key]]]:
    looked: list[Key] = []
    changes = NameChanges(client, looked.append)
    task = asyncio.create_task(changes.run())
    try:
        yield changes, looked
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_change_is_reported_at_once_with_another_mark(
    client: Client, namespace: str
) -> None:
    made = await client.create(SECRETS, secret(namespace, "s"))
    cluster = (namespace, "a")
    async with listening(client) as (changes, looked):
        await until(lambda: changes.mark(SECRETS, cluster, "s") is not None, 10)
        await asyncio.sleep(0.5)
        before = changes.mark(SECRETS, cluster, "s")
        looked.clear()

        await client.create(SECRETS, secret(namespace, "another"))
        await asyncio.sleep(0.5)
        assert looked == []
        for write in (
            client.merge_patch(SECRETS, namespace, "s", {"data": {"password": None}}),
            client.delete(SECRETS, namespace, "s", uid=made["metadata"]["uid"]),
            client.create(SECRETS, secret(namespace, "s")),
        ):
            await write
            await until(lambda: looked == [cluster], 10)
            looked.clear()
            after = changes.mark(SECRETS, cluster, "s")
            assert after not in (None, before)
            before = after


async def test_the_watch_transmits_nothing_of_a_secret_but_its_name(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[bytes] = []
    read = tables.change

    def change(call: str, line: bytes) -> tables.Change:
        lines.append(line)
        return read(call, line)

    monkeypatch.setattr(tables, "change", change)
    since = await client.version(SECRETS, namespace)
    for name in ("s", "t"):
        await client.create(SECRETS, secret(namespace, name))
    watch = client.changes(SECRETS, namespace, since)
    async with asyncio.timeout(SLOW * 10), contextlib.aclosing(watch):
        told = [await anext(watch) for _ in range(2)]

    assert [one.name for one in told] == ["s", "t"]
    assert since < told[0].version < told[1].version
    encoded = base64.b64encode(WORDS.encode())
    assert lines
    assert not [line for line in lines if WORDS.encode() in line or encoded in line]
