"""Load: clients that write and read during a test, and checks of what they observed.

There are a few threads, each with its own client. A client uses one member as long as that answers
within a second, then another one, as etcd's own clients do. Its puts alternate between a register,
which the readers read, and a new key, which must exist at the end. It uses gRPC and etcd's protocol
only, and no code of the operator.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import grpc
from aetcd import rpc
from aetcd.utils import prefix_range_end

from harness.address import Address
from harness.api import ApiError
from harness.clusters import Cluster, state_of
from harness.history import (
    Gap,
    Operation,
    acknowledged,
    back_in_time,
    longest_gap,
    longest_wait,
)
from harness.linearizability import violations
from harness.waiting import PASSING, eventually

T = TypeVar("T")

WRITERS = 3
READERS = 2
RATE = 20
"""Operations per second and client: enough to hit every gap, and few enough for two cores."""

REGISTERS = 3
TRY_SECONDS = 1.0
LOOK_SECONDS = 0.2
ELECTS_SECONDS = 20.0
"""Within this time etcd has a new leader, even on a machine that runs other tests, where 7 s were
seen. How long clients really wait is measured by `make bench`, not here."""

PROMISED_SECONDS = 5.0
"""Within this time every write is done while certificates and authorities are replaced, with
ordinary retries. Tests of `make test` run beside too many others to be held to it."""

OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
)


class Addresses:
    """The present addresses of the members. They are looked up again, as clients ask DNS."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._known: list[Address] = []
        self._looked = 0.0

    def now(self) -> list[Address]:
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                with suppress(*PASSING):  # On an error the old addresses stay.
                    self._known = self._look()
                self._looked = time.monotonic()
            return list(self._known)

    def _look(self) -> list[Address]:
        found = []
        for name, pod in sorted(self.cluster.pods().items()):
            if state_of(pod, "etcd") == "running":
                try:
                    found.append(self.cluster.reach.pod(self.cluster.namespace, name, 2379))
                except ApiError:
                    continue  # The pod has just been deleted.
        return found


class Client:
    """Uses one member until that fails, then the next one."""

    def __init__(self, addresses: Addresses, first: int) -> None:
        self._addresses = addresses
        self._turn = first
        self._channel: Any = None
        self._stub: Any = None

    def ask(self, question: Callable[[Any], T]) -> T | None:
        """The answer; None if there is none, if etcd refuses, or if Kubernetes does not give us the
        certificate."""
        try:
            return question(self._connected())
        except (grpc.RpcError, LookupError, *PASSING):
            self.close()
            return None

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._stub = None

    def _connected(self) -> Any:
        if self._stub is None:
            known = self._addresses.now()
            if not known:
                raise LookupError("no member runs")
            self._turn += 1
            where = known[self._turn % len(known)]
            self._channel = self._addresses.cluster.channel(where, OPTIONS)
            self._stub = rpc.KVStub(self._channel)
        return self._stub


@dataclass
class Load:
    """The threads of the clients, and what they observed."""

    cluster: Cluster
    rate: int = RATE
    prefix: str = field(default_factory=lambda: f"load-{secrets.token_hex(3)}")
    history: list[Operation] = field(default_factory=list, repr=False)
    cluster_ids: set[str] = field(default_factory=set)
    began: float = 0.0
    ended: float = 0.0
    _asking: dict[int, float] = field(default_factory=dict)
    """When each writer sent the request that it is waiting for."""

    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def registers(self) -> list[str]:
        return [f"{self.prefix}/register-{number}" for number in range(REGISTERS)]

    @property
    def kept(self) -> str:
        return f"{self.prefix}/kept/"

    def start(self) -> Load:
        addresses = Addresses(self.cluster)
        self.began = time.monotonic()
        for number in range(WRITERS + READERS):
            work = self._write if number < WRITERS else self._read
            thread = threading.Thread(target=work, args=(number, Client(addresses, number)))
            self._threads.append(thread)
            thread.daemon = True
            thread.start()
        eventually("the load is served", lambda: acknowledged(self.history), seconds=10)
        self.began = time.monotonic()
        return self

    def stop(self) -> None:
        self.ended = time.monotonic()
        self._stop.set()
        for thread in self._threads:
            thread.join(TRY_SECONDS + 5)

    def now(self) -> float:
        """The present time on the clock of the history, for `gap` and `longest_wait`."""
        return time.monotonic()

    def gap(self, since: float = 0.0) -> Gap:
        """The longest time without an acknowledged put since that moment.

        The comparison publishes it, and the benchmarks measure it in the same way. It includes time
        in which this process sent no request, so tests check `was_served` instead.
        """
        return longest_gap(*self._since(since))

    def longest_wait(self, since: float = 0.0) -> Gap:
        """The longest time that a writer waited for an acknowledged put of its own, including its
        retries. A writer that still waits counts as well."""
        return longest_wait(*self._since(since))

    def was_served(self, since: float = 0.0, within: float = ELECTS_SECONDS) -> None:
        """Fails if a client waited for longer than is acceptable for a cluster with a quorum."""
        wait = self.longest_wait(since)
        assert wait.seconds <= within, (
            f"no put of one client was acknowledged for {wait.seconds:.1f} s while it asked, "
            f"{wait.began - self.began:.1f} s after the start; at most {within:g} s are good"
        )

    def _since(self, moment: float) -> tuple[list[Operation], float, float]:
        began, ended = max(moment, self.began), self.ended or time.monotonic()
        asking = [
            Operation("put", "", None, max(asked, began), None, client=number)
            for number, asked in list(self._asking.items())
        ]
        return [one for one in (*self.history, *asking) if one.asked >= began], began, ended

    def in_words(self) -> str:
        history = list(self.history)
        puts = sum(one.kind == "put" for one in history)
        gap = self.gap()
        return (
            f"{(self.ended or time.monotonic()) - self.began:.1f} s of load: {puts} puts, "
            f"{puts - len(acknowledged(history))} of them without an answer, "
            f"{len(history) - puts} gets; longest time without an acknowledged put "
            f"{gap.seconds:.2f} s, {gap.began - self.began:.1f} s after the start; "
            f"longest wait for one {self.longest_wait().seconds:.2f} s"
        )

    def check(self) -> None:
        """What clients may expect of any cluster: no acknowledged write is lost, the history is
        linearizable, revisions only grow, and only this etcd cluster has answered."""
        print(self.in_words())
        self._check_kept()
        self._read_once_more()
        wrong = violations(self.history)
        assert not wrong, f"not linearizable: {wrong[:5]}"
        wrong = back_in_time(self.history)
        assert not wrong, f"revisions went back: {wrong[:5]}"
        recorded = self.cluster.record()["clusterID"]
        assert self.cluster_ids == {recorded}, f"of {recorded}, {self.cluster_ids} have answered"

    def _read_once_more(self) -> None:
        client = Client(Addresses(self.cluster), 0)
        for key in self.registers:
            last = eventually(
                f"{key} is read",
                lambda it=key: self._got(client, it),
                lambda got: got.answered is not None,
                seconds=10,
            )
            self.history.append(last)
        client.close()

    def _check_kept(self) -> None:
        """Every member has every acknowledged put."""
        wanted = {
            one.key: one.value
            for one in acknowledged(self.history)
            if one.key.startswith(self.kept)
        }
        size = int(self.cluster.body()["spec"]["size"])
        for ordinal in range(size):
            eventually(
                f"{self.cluster.name}-{ordinal} has every acknowledged put",
                lambda o=ordinal: self._missing(o, wanted),
                lambda missing: not missing,
                seconds=5,
            )

    def _missing(self, ordinal: int, wanted: dict[str, str | None]) -> list[str]:
        where = self.cluster.reach.pod(
            self.cluster.namespace, f"{self.cluster.name}-{ordinal}", 2379
        )
        prefix = self.kept.encode()
        end = prefix_range_end(prefix)
        request = rpc.RangeRequest(key=prefix, range_end=end, serializable=True)
        with self.cluster.channel(where, OPTIONS) as channel:
            try:
                answer = rpc.KVStub(channel).Range(request, timeout=10)
            except grpc.RpcError as error:
                raise ApiError(0, f"{where}: {error}") from error
        found = {one.key.decode(): one.value.decode() for one in answer.kvs}
        return [key for key, value in wanted.items() if found.get(key) != value]

    # The work of the threads.

    def _write(self, number: int, client: Client) -> None:
        for turn in self._ticks():
            value = f"{number}-{turn}"
            register = self.registers[turn // 2 % REGISTERS]
            key = register if turn % 2 else f"{self.kept}{value}"
            request = rpc.PutRequest(key=key.encode(), value=value.encode())
            self._asking[number] = asked = time.monotonic()
            answer = client.ask(lambda stub, it=request: stub.Put(it, timeout=TRY_SECONDS))
            told = self._operation("put", key, value, asked, answer)
            self.history.append(replace(told, client=number))
            del self._asking[number]
        client.close()

    def _read(self, _: int, client: Client) -> None:
        for turn in self._ticks():
            got = self._got(client, self.registers[turn % REGISTERS])
            if got.answered is not None:
                self.history.append(got)
        client.close()

    def _got(self, client: Client, key: str) -> Operation:
        request = rpc.RangeRequest(key=key.encode())
        asked = time.monotonic()
        answer = client.ask(lambda stub: stub.Range(request, timeout=TRY_SECONDS))
        value = answer.kvs[0].value.decode() if answer is not None and answer.kvs else None
        return self._operation("get", key, value, asked, answer)

    def _operation(
        self, kind: Any, key: str, value: str | None, asked: float, answer: Any
    ) -> Operation:
        if answer is None:
            return Operation(kind, key, value, asked, None)
        answered = time.monotonic()
        self.cluster_ids.add(f"{answer.header.cluster_id:016x}")
        return Operation(kind, key, value, asked, answered, answer.header.revision)

    def _ticks(self) -> Iterator[int]:
        """Turns at the rate. A turn that was missed is not made up for."""
        turn, due = 0, time.monotonic()
        while not self._stop.is_set():
            yield turn
            turn, due = turn + 1, max(due + 1 / self.rate, time.monotonic())
            self._stop.wait(max(0.0, due - time.monotonic()))


@contextmanager
def under_load(cluster: Cluster, rate: int = RATE) -> Iterator[Load]:
    """Runs a block under load, and checks the load if the block succeeds."""
    load = Load(cluster, rate).start()
    try:
        yield load
    except BaseException:
        load.stop()
        print(load.in_words())
        raise
    load.stop()
    load.check()
