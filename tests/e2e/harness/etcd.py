"""A client of etcd's JSON gateway, without any code of the operator."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from harness.address import Address, unconnected
from harness.credentials import Credentials

CONNECT_SECONDS = 1
ANSWER_SECONDS = 5
UNAVAILABLE = 503
READS = frozenset(
    {
        "/v3/kv/range",
        "/v3/cluster/member/list",
        "/v3/maintenance/status",
        "/v3/maintenance/hashkv",
    }
)


def ask_in_plaintext(where: Address) -> None:
    """Sends a request without TLS. Raises if the connection fails."""
    with closing(http.client.HTTPConnection(*where, timeout=ANSWER_SECONDS)) as connection:
        connection.request("POST", "/v3/maintenance/status", "{}")
        connection.getresponse()


class EtcdError(OSError):
    """etcd refused a request, or did not answer."""


class NoAnswer(EtcdError):
    """etcd did not answer, or cannot answer at present, so that the request may be tried again."""


@dataclass(frozen=True)
class Member:
    member_id: str
    name: str
    learner: bool
    peer_urls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Members:
    cluster_id: str
    members: tuple[Member, ...]

    @property
    def names(self) -> list[str]:
        return sorted(member.name for member in self.members)

    @property
    def ids(self) -> dict[str, str]:
        return {member.name: member.member_id for member in self.members}

    @property
    def hosts(self) -> list[str]:
        """The pods in the peer URLs, which identify a member before it has published its name."""
        urls = (member.peer_urls[0] for member in self.members)
        return sorted(url.partition("://")[2].partition(".")[0] for url in urls)


class Etcd:
    """One endpoint. `locate` is called for each request, as addresses of pods and ports change.

    With `patience`, requests without an answer are tried again for so many seconds, as by every
    client of a Service: for a moment kube-proxy leads to a pod that has died. Reads are also tried
    again if etcd says that it is unavailable, as by etcd's own clients, because it may be electing
    a leader. Other refusals are final. A change may thus be made twice, safe for puts only.
    """

    def __init__(
        self,
        locate: Callable[[], Address],
        patience: float = 0.0,
        credentials: Callable[[], Credentials | None] = lambda: None,
    ) -> None:
        self._locate = locate
        self._patience = patience
        self._credentials = credentials

    def put(self, key: str, value: str) -> None:
        self._post("/v3/kv/put", {"key": _encode(key), "value": _encode(value)})

    def get(self, key: str) -> str | None:
        found = self._post("/v3/kv/range", {"key": _encode(key)}).get("kvs")
        return base64.b64decode(found[0].get("value", "")).decode() if found else None

    def compact(self) -> None:
        """Drops all history."""
        revision = self._post("/v3/kv/range", {"key": _encode("any")})["header"]["revision"]
        self._post("/v3/kv/compaction", {"revision": revision, "physical": True})

    def members(self) -> Members:
        """The member list, from a linearizable read."""
        answer = self._post("/v3/cluster/member/list", {"linearizable": True})
        listed = tuple(
            Member(
                to_hex(one["ID"]),
                one.get("name", ""),
                bool(one.get("isLearner")),
                tuple(one.get("peerURLs", ())),
            )
            for one in answer["members"]
        )
        return Members(to_hex(answer["header"]["cluster_id"]), listed)

    def status(self) -> dict[str, Any]:
        """The status of the member itself, with IDs in hexadecimal added."""
        answer = self._post("/v3/maintenance/status", {})
        header = answer["header"]
        return {
            **answer,
            "cluster_id": to_hex(header["cluster_id"]),
            "member_id": to_hex(header["member_id"]),
            "leads": answer.get("leader") == header["member_id"],
        }

    def remove(self, member_id: str) -> None:
        """As `etcdctl member remove`, which nobody should run."""
        self._post("/v3/cluster/member/remove", {"ID": str(int(member_id, 16))})

    def add_learner(self, peer_url: str) -> None:
        self._post("/v3/cluster/member/add", {"peerURLs": [peer_url], "isLearner": True})

    def promote(self, member_id: str) -> None:
        self._post("/v3/cluster/member/promote", {"ID": str(int(member_id, 16))})

    def hand_over(self, member_id: str) -> None:
        """Transfers leadership to this member; only the leader accepts it."""
        self._post("/v3/maintenance/transfer-leadership", {"targetID": str(int(member_id, 16))})

    def hash_at(self, revision: int) -> tuple[int, int]:
        """The hash of all keys up to that revision, and the compact revision."""
        answer = self._post("/v3/maintenance/hashkv", {"revision": str(revision)})
        return int(answer["hash"]), int(answer.get("compact_revision", 0))

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._answer(path, body)
            except NoAnswer:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            status, text = self._once(path, body)
        except (http.client.HTTPException, OSError) as error:
            raise NoAnswer(f"{path}: {error!r}") from error
        if status == 200:
            return dict(json.loads(text))
        passing = status == UNAVAILABLE and path in READS
        raise (NoAnswer if passing else EtcdError)(f"{path}: {status} {text[:300]}")

    def _once(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        host, port = self._locate()
        connection = http.client.HTTPConnection(host, port)
        connection.sock = sock = self._socket((host, port))
        try:
            sock.settimeout(CONNECT_SECONDS)
            sock.connect((host, port))
            sock.settimeout(ANSWER_SECONDS)
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def _socket(self, where: Address) -> socket.socket:
        mine = self._credentials()
        sock = unconnected(where) if mine is None else mine.unconnected(where)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


def to_hex(decimal: str) -> str:
    """The gateway prints IDs as decimal text; we use 16 hexadecimal digits everywhere."""
    return f"{int(decimal):016x}"


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
