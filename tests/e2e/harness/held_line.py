"""A TCP proxy that forwards a number of bytes and then stalls until it is released."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

from harness.address import family
from localkube.addresses import in_url

PIECE = 64 * 1024


class HeldLine(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, target: tuple[str, int], most: int) -> None:
        """
        Args:
            most: bytes that are forwarded to the server before it stalls, over all connections.
        """
        self.address_family = family(host)
        super().__init__((host, 0), _Both)
        self.target = target
        self.let_go = threading.Event()
        self._left = most
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{in_url(str(host))}:{port}"

    def passing(self, count: int) -> None:
        """Counts bytes, and blocks once there are too many."""
        with self._lock:
            self._left -= count
            wait = self._left < 0
        if wait:
            self.let_go.wait()


class _Both(socketserver.BaseRequestHandler):
    server: HeldLine

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as there:
            answers = threading.Thread(target=_copy, args=(there, self.request), daemon=True)
            answers.start()
            with contextlib.suppress(OSError):
                while piece := self.request.recv(PIECE):
                    self.server.passing(len(piece))
                    there.sendall(piece)
                there.shutdown(socket.SHUT_WR)
            answers.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def held_line(host: str, target: tuple[str, int], most: int) -> Iterator[HeldLine]:
    with HeldLine(host, target, most) as line:
        threading.Thread(target=line.serve_forever, daemon=True).start()
        try:
            yield line
        finally:
            line.let_go.set()
            line.shutdown()
