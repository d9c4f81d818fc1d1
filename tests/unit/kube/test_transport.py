"""How a connection is set up, and what is left when a session is closed and its peer does not
answer."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from harness.authority import Authority
from kubernetes.aio.client.configuration import Configuration

from etcd_operator.kube import transport
from etcd_operator.kube.transport import Connector, load_configuration

ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
"""No chunk follows, as in a watch without events."""


class Silent:
    """Answers one request over TLS, and then neither reads nor closes: a busy API server."""

    def __init__(self, folder: Path) -> None:
        certificate, key = Authority().sign("server", "localhost")
        file = folder / "server.pem"
        file.write_bytes(certificate + key)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(file)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        taken, _ = self._listener.accept()
        with suppress(OSError), taken, self._tls.wrap_socket(taken, server_side=True) as spoken:
            spoken.recv(65536)
            spoken.sendall(ANSWER)
            self._over.wait(10)

    def close(self) -> None:
        self._over.set()
        socket.create_connection(self._listener.getsockname()).close()  # nobody may have come
        self._thread.join(5)
        self._listener.close()


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Silent]:
    server = Silent(tmp_path)
    yield server
    server.close()


def test_a_watch_whose_server_never_closes_leaves_no_socket_open(silent: Silent):
    async def watch() -> None:
        async with aiohttp.ClientSession(connector=Connector(context=False)) as session:
            (await session.get(silent.url)).close()

    asyncio.run(watch())
    gc.collect()


@pytest.mark.parametrize("rounds", range(12))
def test_a_connection_cancelled_at_any_moment_leaves_no_socket_open(silent: Silent, rounds: int):
    async def begin_to_watch() -> None:
        async with aiohttp.ClientSession(connector=Connector(context=False)) as session:
            task = asyncio.create_task(session.get(silent.url))
            for _ in range(rounds):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                (await task).close()

    asyncio.run(begin_to_watch())
    gc.collect()


async def test_a_named_kubeconfig_gave_way_to_the_service_account_of_a_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tests that ran in a runner's pod made and deleted namespaces in the runner's own cluster."""

    async def load(file: str, configuration: Configuration) -> None:
        configuration.host = f"https://server.of{file}"

    monkeypatch.setattr(transport, "load_incluster_config", lambda **_: None)
    monkeypatch.setattr(transport, "_load_kubeconfig", load)

    assert (await load_configuration("/named")).host == "https://server.of/named"
