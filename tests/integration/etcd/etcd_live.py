"""Real etcd processes on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from addresses import own_address
from aetcd import rpc

from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused
from etcd_operator.etcd.client import GrpcEtcd, plaintext
from etcd_stateful import identity
from etcd_stateful.naming import CLIENT_PORT, PEER_PORT
from localkube.server import free_port

BINARIES = Path(__file__).parents[3] / "build" / "bin"
PATIENCE = 30.0
"""Deadline in seconds of client requests to a running etcd."""


@dataclass
class Member:
    """One etcd process. After `kill` it can `start` again with its data."""

    binary: Path
    name: str
    folder: Path
    client_port: int
    peer_port: int
    host: str
    flags: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def peer_url(self) -> str:
        return f"http://{self.url_host}:{self.peer_port}"

    @property
    def log(self) -> Path:
        return self.folder.parent / f"{self.name}.log"

    @property
    def last_words(self) -> str:
        said = self.log.read_text(errors="replace").splitlines()[-5:] if self.log.exists() else []
        ended = self.process.poll() if self.process else "killed"
        return "\n".join([f"{self.name} (ended: {ended}) said last:", *said])

    def start(self, initial_cluster: str, token: str, state: str) -> None:
        client_url = f"http://{self.url_host}:{self.client_port}"
        flags = {
            "name": self.name,
            "data-dir": self.folder,
            "listen-client-urls": client_url,
            "advertise-client-urls": client_url,
            "listen-peer-urls": self.peer_url,
            "initial-advertise-peer-urls": self.peer_url,
            "initial-cluster": initial_cluster,
            "initial-cluster-token": token,
            "initial-cluster-state": state,
            "log-level": "error",
            **self.flags,
        }
        command = [str(self.binary), *(f"--{name}={value}" for name, value in flags.items())]
        quiet = {**os.environ, "GOTRACEBACK": "none"}  # As in the pods, without stack traces.
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=quiet)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stops it cleanly, so that everything applied is in the database."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(10)
            self.process = None


@dataclass
class Cluster:
    """The initial members, and members that join later."""

    binary: Path
    folder: Path
    token: str
    members: list[Member] = field(default_factory=list)
    first: list[Member] = field(default_factory=list)

    def new_member(self, host: str | None = None) -> Member:
        name = f"m{len(self.members)}"
        host = host or own_address()
        # IPv6 has only one loopback address, which all tests share.
        ports = (free_port(), free_port()) if ":" in host else (CLIENT_PORT, PEER_PORT)
        member = Member(self.binary, name, self.folder / name, *ports, host)
        self.members.append(member)
        return member

    def begin(self, size: int, host: str | None = None, **flags: str) -> None:
        self.first = [self.new_member(host) for _ in range(size)]
        for member in self.first:
            member.flags = {name.replace("_", "-"): value for name, value in flags.items()}
            member.start(self.initial_cluster(self.first), self.token, "new")

    def initial_cluster(self, members: list[Member]) -> str:
        return ",".join(f"{member.name}={member.peer_url}" for member in members)

    def member_id(self, member: Member) -> int:
        return identity.member_id([member.peer_url], self.token)

    @property
    def minor(self) -> str:
        return self.binary.name.removeprefix("etcd-").rpartition(".")[0]

    def tool(self, name: str) -> str:
        """The path of another program of the same etcd version."""
        return str(BINARIES / self.binary.name.replace("etcd", name, 1))

    @property
    def cluster_id(self) -> int:
        return identity.cluster_id(self.member_id(member) for member in self.first)

    def at(
        self, member: Member, member_id: int | None = None, cluster_id: int | None = None
    ) -> Endpoint:
        if member_id is None and member in self.first:
            member_id = self.member_id(member)
        return Endpoint(
            member.host, cluster_id or self.cluster_id, member_id, port=member.client_port
        )

    async def ready(self) -> GrpcEtcd:
        """A client, once every initial member knows a leader."""
        etcd = GrpcEtcd()
        for member in self.first:
            await eventually(lambda member=member: self._knows_leader(etcd, member))
        return etcd

    async def _knows_leader(self, etcd: GrpcEtcd, member: Member) -> bool:
        return (await etcd.status(self.at(member))).leader_id != 0

    async def leader(self, etcd: GrpcEtcd) -> Member:
        found = list[Member]()

        async def is_known() -> bool:
            status = await etcd.status(self.at(self.first[0]))
            found[:] = [one for one in self.first if self.member_id(one) == status.leader_id]
            return bool(found)

        await eventually(is_known)
        return found[0]


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Waits until the check is true. A missing answer counts as not yet."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(NoAnswer, Refused):
            if await check():
                return
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.05)


@contextlib.contextmanager
def started(minor: str, folder: Path, token: str) -> Iterator[Cluster]:
    """A cluster of that minor, whose members all stop at the end of the test."""
    found = Cluster(binary(minor), folder, token)
    yield found
    for member in found.members:
        print(member.last_words)  # pytest shows this if the test has failed.
        member.kill()


def binary(minor: str) -> Path:
    found = sorted(BINARIES.glob(f"etcd-{minor}.*"))
    if not found:
        pytest.fail(f"no etcd {minor} in build/bin: build the binaries first (see the Makefile)")
    return found[-1]


async def put(member: Member, key: bytes, value: bytes) -> int:
    """Writes a key as a client would; returns the revision."""
    return await put_all(member, [(key, value)])


async def put_all(member: Member, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Writes keys one after the other; returns the last revision."""
    revision = 0
    async with plaintext(Endpoint(member.host, port=member.client_port)) as channel:
        for key, value in pairs:
            request = rpc.PutRequest(key=key, value=value)
            reply = await rpc.KVStub(channel).Put(request, timeout=PATIENCE)
            revision = int(reply.header.revision)
    return revision


async def fill(member: Member, keys: int, size: int = 1000) -> int:
    return await put_all(member, ((b"key-%d" % number, os.urandom(size)) for number in range(keys)))


async def compact(member: Member, revision: int) -> None:
    async with plaintext(Endpoint(member.host, port=member.client_port)) as channel:
        request = rpc.CompactionRequest(revision=revision, physical=True)
        await rpc.KVStub(channel).Compact(request, timeout=PATIENCE)


async def raise_alarm(member: Member, kind: int, member_id: int) -> None:
    async with plaintext(Endpoint(member.host, port=member.client_port)) as channel:
        request = rpc.AlarmRequest(action=rpc.AlarmRequest.ACTIVATE, memberID=member_id, alarm=kind)
        await rpc.MaintenanceStub(channel).Alarm(request, timeout=PATIENCE)
