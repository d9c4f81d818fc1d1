"""A server for lines of text: several short-lived connections, none of which can hold up another.

It runs in one thread and handles one line at a time. So if two operators send a ticket at once, one
comes first, without any lock.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

from etcd_stateful.start import ticket

MAX_CONNECTIONS: Final = 64
AT_ONCE: Final = 8
"""New connections that one round accepts. Under a flood there is always one more, but connections
have to be read before newer ones displace them."""

FIRST_LINE: Final = 5.0
"""Seconds until the first line must be there."""
NEXT_LINE: Final = 30.0
"""Seconds for the next one: between answer and ticket the operator writes to the API server."""


class Connection:
    """One peer. `state` belongs to the function that answers its lines."""

    __slots__ = ("buffer", "deadline", "socket", "state")

    def __init__(self, peer: socket.socket, deadline: float) -> None:
        self.socket = peer
        self.deadline = deadline
        self.buffer = b""
        self.state = ""


Respond = Callable[[Connection, bytes], bytes | None]
"""The reply to a line; None closes the connection."""


def listen(addresses: tuple[str, ...], port: int) -> socket.socket:
    """A listening socket on the first address that works; raises OSError when none does.

    `::` serves IPv4 as well; where IPv6 is off, the next address has its turn.
    """
    failure = OSError("no address to listen on")
    for address in addresses:
        try:
            return _listen(address, port)
        except OSError as error:
            failure = error
    raise failure


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in address:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
        listener.listen(4 * MAX_CONNECTIONS)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener


class LineServer:
    """Serves `respond` on a listening socket. `serve` does one round and is called in a loop."""

    def __init__(self, listener: socket.socket, respond: Respond) -> None:
        self._respond = respond
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        # In order of arrival: if there are too many, the oldest is closed.
        self._connections: dict[socket.socket, Connection] = {}

    def watch(self, descriptor: int) -> None:
        """Makes `serve` return as soon as the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ)

    def serve(self, until: float) -> bool:
        """Waits for something to do, at most until this `time.monotonic`, and does it.

        Returns whether a watched descriptor is readable.
        """
        soonest = min([until, *(each.deadline for each in self._connections.values())])
        woken = False
        for key, _ in self._selector.select(max(0.0, soonest - time.monotonic())):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.fileobj, socket.socket):
                self._read(key.fileobj)
            else:
                woken = True
        now = time.monotonic()
        for late in [each for each in self._connections.values() if each.deadline <= now]:
            self._close(late)
        return woken

    def close(self) -> None:
        """Closes everything, even if a signal has interrupted a round. Replies that were sent still
        arrive."""
        self._selector.close()
        self._listener.close()
        for peer in self._connections:
            peer.close()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                peer, _address = self._listener.accept()
            except OSError:
                return
            peer.settimeout(0)
            if len(self._connections) >= MAX_CONNECTIONS:
                self._close(next(iter(self._connections.values())))
            self._connections[peer] = Connection(peer, time.monotonic() + FIRST_LINE)
            self._selector.register(peer, selectors.EVENT_READ)

    def _read(self, peer: socket.socket) -> None:
        connection = self._connections.get(peer)
        if connection is None:
            return  # closed earlier in this round
        try:
            received = peer.recv(ticket.MAX_LINE)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        connection.buffer += received
        if not received or not self._answer(connection):
            self._close(connection)

    def _answer(self, connection: Connection) -> bool:
        """Replies to every complete line; False if the connection has to be closed."""
        while b"\n" in connection.buffer:
            line, connection.buffer = connection.buffer.split(b"\n", 1)
            reply = self._respond(connection, line) if len(line) <= ticket.MAX_LINE else None
            if reply is None or not _send(connection.socket, reply):
                return False
            connection.deadline = time.monotonic() + NEXT_LINE
        return len(connection.buffer) <= ticket.MAX_LINE

    def _close(self, connection: Connection) -> None:
        del self._connections[connection.socket]
        self._selector.unregister(connection.socket)
        connection.socket.close()


def _send(peer: socket.socket, reply: bytes) -> bool:
    """Sends a reply, which is short; False if the peer has no room for it, so does not read."""
    try:
        return peer.send(reply) == len(reply)
    except OSError:
        return False
