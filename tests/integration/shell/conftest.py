"""The real API server, and a namespace of its own for each test."""

from __future__ import annotations

import gc
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.kube.api import Resource
from etcd_operator.kube.client import Client
from localkube import providers

sys.path.insert(0, str(Path(__file__).parent))

from shell_live import Breakable, Informed

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


@pytest.fixture(autouse=True)
def kubeconfig(monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the local cluster unless another is asked for."""
    path = str(providers.kubeconfig())
    if not Path(path).exists():
        pytest.fail(f"no cluster: {path} is not there (make cluster)")
    monkeypatch.setenv("KUBECONFIG", path)
    return path


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[Client]:
    client = await Client.connect(kubeconfig=kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"shell-{uuid.uuid4().hex[:8]}"
    made = await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, "", name, uid=made["metadata"]["uid"])


@pytest.fixture
async def inform(client: Client) -> AsyncIterator[Callable[..., Informed]]:
    running: list[Informed] = []

    def make(namespace: str, connection: Breakable | None = None, **settings: Any) -> Informed:
        connection = connection or Breakable(client)
        informed = Informed(client, connection, watch_namespaces=(namespace,), **settings)
        running.append(informed)
        return informed

    yield make
    for each in running:
        await each.end()
    gc.collect()  # a connection left open is an error here, and not in whatever test comes next
