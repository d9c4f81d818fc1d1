"""The pods of backup Jobs: the real programs, with a bucket and an etcd in memory.

A pod stands still at each of its requests to the bucket, and goes on when a test says so: in
between, anything may happen to the bucket, to the pod and to others that use the bucket.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.describing import describe
from etcd_operator.backup.process import Backup
from etcd_operator.backup.progress import Meter
from etcd_operator.backup.removal import remove
from etcd_operator.backup.source import Member, Unusable
from etcd_operator.backup.stored_manifest import read_manifest
from etcd_operator.timestamps import rfc3339
from etcd_stateful.backup import outcome
from etcd_stateful.backup.choice import EndpointStatus
from etcd_stateful.backup.foreign_files import File
from etcd_stateful.backup.manifest import BadManifest
from etcd_stateful.backup.measurement import Hash, Measured
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import (
    FINAL_EXIT,
    Described,
    Failure,
    Removed,
    Stored,
    Verified,
)


class Killed(BaseException):
    """A pod, or the operator, was killed."""


@dataclass
class Held:
    """A file in the bucket."""

    data: bytes
    modified: float
    of: str
    """UID of the object whose Job has written it; empty if somebody else has."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass
class Bucket:
    chance: random.Random
    now: Callable[[], float]
    files: dict[str, Held] = field(default_factory=dict)
    fails: str = ""
    """`StoreUnreachable`, or `StoreRefused` by wrong credentials; empty: it answers."""
    may_delete: bool = True
    forgets: float = 0.0
    """How often it does what it is asked to, and its answer is lost."""
    by_hand: set[str] = field(default_factory=set)
    """Keys that somebody has deleted or written."""
    ever: set[tuple[str, str, str]] = field(default_factory=set)
    """Key, SHA-256 and UID of all that Jobs have ever stored."""
    last: dict[str, str] = field(default_factory=dict)
    """By key, the UID of what a Job has stored there last; it may have been deleted since."""
    deleting: Callable[[Order, str], None] = lambda *_: None
    """Told of a deletion, just before it happens."""

    def put(self, key: str, data: bytes, of: str = "") -> None:
        self.files[key] = made = Held(data, self.now(), of)
        self.ever.add((key, made.sha256, of))
        self.last[key] = of


class Etcd:
    """The cluster that is backed up: each snapshot differs from all others."""

    def __init__(self) -> None:
        self.cluster_id, self.revision, self.answers = 10, 1, True

    async def __aenter__(self) -> Etcd:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def members(self) -> list[Member]:
        if not self.answers:
            raise Unusable(Failure("EtcdUnreachable", "spec.etcdEndpoints: nobody answers"))
        self.revision += 1
        told = (self.cluster_id, 2, 2)
        answer = EndpointStatus(
            "e", *told, learner=False, revision=self.revision, version="3.7.3", db_size=9
        )
        return [Member(answer, None)]

    async def caught_up(self, member: Member) -> Member:
        return member

    async def measured(self, member: Member) -> tuple[Member, Measured]:
        return member, Measured(1, (Hash(1, 1),))

    async def measure_again(self, _: Member, before: Measured) -> Measured:
        return before

    async def snapshot(self, member: Member) -> AsyncIterator[bytes]:
        body = f"{self.cluster_id} {self.revision} {id(member)}".encode().ljust(512, b".")
        yield body
        yield hashlib.sha256(body).digest()


class MemorySink:
    """`sink.Sink`, for a bucket in memory."""

    def __init__(self, bucket: Bucket, order: Order, turn: Callable[[], Awaitable[None]]) -> None:
        self._bucket, self._order, self._turn = bucket, order, turn

    async def _ask(self) -> None:
        await self._turn()
        if why := self._bucket.fails:
            raise StoreFailed(Failure(why, "spec.s3.path: the bucket fails"))

    def _answer(self) -> None:
        if self._bucket.chance.random() < self._bucket.forgets:
            raise StoreFailed(Failure("StoreUnreachable", "spec.s3.path: no answer"))

    async def check(self) -> None:
        await self._ask()

    async def clear(self) -> None:
        """A bucket has no unfinished files."""

    async def write(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        whole = b""
        async for piece in pieces:
            await self._ask()
            whole += piece
        await self.put(key, whole)

    async def put(self, key: str, data: bytes) -> None:
        await self._ask()
        self._bucket.put(key, data, self._order.owner_uid)
        self._answer()

    async def get(self, key: str, _: int) -> bytes | None:
        await self._ask()
        found = self._bucket.files.get(key)
        return found.data if found else None

    async def file(self, key: str) -> File | None:
        await self._ask()
        found = self._bucket.files.get(key)
        return File(key, len(found.data), rfc3339(found.modified)) if found else None

    async def size(self, key: str) -> int | None:
        found = await self.file(key)
        return found.size if found else None

    async def ends(self, key: str, size: int, tail: bytes) -> bool:
        await self._ask()
        found = self._bucket.files.get(key)
        return found is not None and len(found.data) == size and found.data.endswith(tail)

    async def read(self, key: str) -> AsyncGenerator[memoryview, None]:
        await self._ask()
        if key not in self._bucket.files:
            raise StoreFailed(Failure("StoreRefused", f"there is no {key}"))
        yield memoryview(self._bucket.files[key].data)

    async def names(self, start: str) -> list[str]:
        await self._ask()
        return [key for key in self._bucket.files if key.startswith(start)]

    async def pages(self, start: str) -> AsyncIterator[list[File]]:
        for key in await self.names(start):
            found = self._bucket.files.get(key)
            yield [File(key, len(found.data), rfc3339(found.modified))] if found else []

    async def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            await self._ask()
            if not self._bucket.may_delete:
                raise StoreFailed(Failure("StoreRefused", "spec.s3.path: denied"), forbidden=True)
            self._bucket.deleting(self._order, key)
            self._bucket.files.pop(key, None)
            self._answer()


class Pod:
    """One try of a Job."""

    def __init__(
        self, order: Order, bucket: Bucket, now: Callable[[], float], *, trusted: bool
    ) -> None:
        """
        Args:
            trusted: whether a trial restore finds what the cluster held.
        """
        self.order = order
        self.stopping = False
        self._gates: list[asyncio.Future[None]] = []
        self._killed = False
        self._trusted = trusted
        self._sink = MemorySink(bucket, order, self._turn)
        self._backup = Backup(order, self._sink, Meter(), wall_clock=now)  # type: ignore[arg-type]
        self._task = asyncio.ensure_future(self._work())

    async def _work(self) -> Stored | Removed | Described | Verified | Failure:
        match self.order.action:
            case "store":
                return await self._backup.run()
            case "delete":
                return await remove(self.order, self._sink)  # type: ignore[arg-type]
            case "describe":
                return await describe(self.order, self._sink)  # type: ignore[arg-type]
            case _:
                return await self._try()

    async def _try(self) -> Verified | Failure:
        """As `trial_restore` does, where etcd and etcdutl do as they should."""
        key, data = self.order.store.key, b""
        try:
            said = await read_manifest(self._sink, key)  # type: ignore[arg-type]
            async for piece in self._sink.read(key):
                data += piece
        except StoreFailed as error:
            return error.failure
        except BadManifest as error:
            return Failure("VerificationFailed", str(error), final=True)
        found = hashlib.sha256(data).hexdigest()
        if said is None or not found == said.sha256 == self.order.expected or not self._trusted:
            return Failure("VerificationFailed", f"{key} differs", final=True)
        return Verified("3.7.3", ("the number of keys",))

    async def _turn(self) -> None:
        if self._killed:
            raise Killed
        gate = asyncio.get_running_loop().create_future()
        self._gates.append(gate)
        await gate

    @property
    def ended(self) -> bool:
        return self._task.done()

    @property
    def said(self) -> tuple[int, str]:
        """Exit code and termination message."""
        if self._killed:
            return 137, ""
        found = self._task.result()
        if isinstance(found, Failure):
            return FINAL_EXIT if found.final else 1, outcome.serialise(found)
        return 0, outcome.serialise(found)

    async def step(self) -> None:
        """Serves one request of the pod, up to the next."""
        if waiting := self._waiting():
            waiting[0].set_result(None)
        await self._until_it_waits()

    def _waiting(self) -> list[asyncio.Future[None]]:
        self._gates = [one for one in self._gates if not one.done()]
        return self._gates

    async def _until_it_waits(self) -> None:
        while not self._task.done() and not self._waiting():
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """SIGTERM. Only a backup handles it."""
        self.stopping = True
        if self.order.action == "store":
            self._backup.stop(Failure("Interrupted", "the pod was told to stop"))
            await self._until_it_waits()
        else:
            await self.kill()

    def run_out_of_time(self) -> None:
        self._backup.stop(Failure("TimedOut", "it takes too long", final=True))

    async def kill(self) -> None:
        self._killed = True
        for gate in self._waiting():
            gate.set_exception(Killed())
        while not self._task.done():
            await asyncio.sleep(0)
        self._task.exception()
