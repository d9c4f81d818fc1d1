"""The end-to-end tests' client of etcd's gateway."""

from __future__ import annotations

import gc
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from harness.authority import Authority
from harness.credentials import Credentials
from harness.etcd import Etcd, NoAnswer

RESETS = struct.pack("ii", 1, 0)
"""SO_LINGER: closing a socket resets the connection."""


class Resetting:
    """Accepts connections and resets them at once, as a node does for a pod that has just gone."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        taken, _ = self._listener.accept()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
        taken.close()
        self.done.set()

    def close(self) -> None:
        self._thread.join(5)
        self._listener.close()


@pytest.fixture
def resetting() -> Iterator[Resetting]:
    server = Resetting()
    yield server
    server.close()


def test_a_connection_reset_before_its_handshake_leaves_no_socket_open(resetting: Resetting):
    """The member had just been replaced. The test failed because of the warning about an open
    socket."""
    mine = Credentials(Authority().pem, b"", b"", "etcd")

    def credentials() -> Credentials:
        resetting.done.wait(0.2)
        return mine

    with pytest.raises(NoAnswer):
        Etcd(lambda: resetting.address, 0, credentials).get("key")

    gc.collect()
