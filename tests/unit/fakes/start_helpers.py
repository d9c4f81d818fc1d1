"""Shared by the tests of `start`: WAL heads, settings, tickets, and the operator's side."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from etcd_stateful.start import marker, ticket
from etcd_stateful.start.configuration import Settings

KEY = bytes(range(32))
NONCE = "0123456789abcdef0123456789abcdef"
CHALLENGE = "c" * 64

MEMBER_ID = 3353805751882065064
"""The member ID in the log heads below."""
CLUSTER_ID = 17626386917375599569

FIRST_SEGMENT = bytes.fromhex(
    "040000000000008408041000000000001f00000000000081080110a0dea5b907"
    "1a1508a8c9deb4fe91c7c52e10d1c78f9eb4b0e0cef401000e00000000000082"
    "080510e1c8b1c1061a040800100000006c00000000000084080210e0a1fab802"
)
"""Head of the first segment of a real log; 3.5.35, 3.6.16 and 3.7.3 wrote the same bytes."""

LATER_SEGMENT = bytes.fromhex(
    "0700000000000081080410b2b7ba69001f00000000000081080110fff8fec50a"
    "1a1508a8c9deb4fe91c7c52e10d1c78f9eb4b0e0cef401001800000000000000"
)
"""Head of the second segment of that log (3.6.16). Its checksum continues the first segment's."""

SETTINGS = Settings(
    cluster_uid="4be0f3a2-uid",
    epoch=3,
    member="c-1",
    pod_uid="pod-uid",
    pod_ip="127.0.0.1",
    host="c-1.c.ns.svc",
    options={"quota-backend-bytes": 8589934592, "log-level": "info"},
)

MARKER = marker.Marker(SETTINGS.cluster_uid, 3, "c-1", MEMBER_ID, CLUSTER_ID)

TICKET = ticket.Ticket(
    challenge=CHALLENGE,
    cluster_uid=SETTINGS.cluster_uid,
    epoch=3,
    member="c-1",
    member_id=MEMBER_ID,
    cluster_id=CLUSTER_ID,
    state="new",
    initial_cluster="c-0=http://c-0.c.ns.svc:2380,c-1=http://c-1.c.ns.svc:2380",
    token="4be0f3a2-uid/1",
)


class Operator:
    """One connection of an operator to `start`."""

    def __init__(self, port: int, key: bytes = KEY, host: str = "127.0.0.1") -> None:
        self._key = key
        self._socket = connect(port, host)
        self._lines = self._socket.makefile("rb")

    def __enter__(self) -> Operator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def send(self, line: bytes) -> bytes:
        """The reply to a line; empty when `start` closes the connection instead."""
        try:
            self._socket.sendall(line)
            return self._lines.readline()
        except ConnectionError:
            return b""

    def greet(self, nonce: str | None = None) -> ticket.Answer:
        nonce = nonce or os.urandom(16).hex()
        answer = ticket.open_answer(self._key, self.send(ticket.greeting(nonce)))
        assert answer.nonce == nonce
        return answer

    def push(self, offered: ticket.Ticket) -> ticket.Receipt:
        line = self.send(ticket.seal(self._key, "ticket", offered))
        return ticket.open_receipt(self._key, line)


def push(port: int, offered: ticket.Ticket = TICKET, key: bytes = KEY) -> ticket.Receipt:
    """Greet, and send the ticket for the challenge of the answer."""
    with Operator(port, key) as operator:
        return operator.push(replace(offered, challenge=operator.greet().challenge))


def eventually(holds: Callable[[], object], seconds: float = 30) -> None:
    """Poll until `holds` is true; fails when it is not by then."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)


def connect(port: int, host: str = "127.0.0.1", seconds: float = 10) -> socket.socket:
    """A connection, without asking for a name."""
    peer = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    peer.settimeout(seconds)
    try:
        peer.connect((host, port))
    except OSError:
        peer.close()
        raise
    return peer


def listening(port: int, host: str = "127.0.0.1") -> bool:
    try:
        connect(port, host).close()
    except OSError:
        return False
    return True
