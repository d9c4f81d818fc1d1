"""Runs the operator's code in this process, so that it can be killed between any two calls.

`Process` runs the real reconciler with the real clients against the real cluster. Its `Fate` counts
writes (API calls, start tickets and changes of etcd), and kills it either before the n-th write is
sent, or after it was sent and before its answer arrives. The kill is a BaseException: the operator
does not catch it, and no code of that process runs afterwards.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.configuration import Configuration
from urllib3.exceptions import HTTPError

from etcd_operator.cluster.assembly import make_reconciler
from etcd_operator.cluster.tickets import TcpStart
from etcd_operator.etcd.client import GrpcEtcd
from etcd_operator.kube import api as operator_kube
from etcd_operator.kube.api import Json, KubeError, Resource
from etcd_operator.kube.client import Client
from etcd_operator.kube.store import Store
from etcd_operator.settings import Settings
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.start.ticket import Answer, Receipt, Ticket
from harness.api import KUBECONFIG, ApiError, Kind, Kube

T = TypeVar("T")
Done = Callable[[], Awaitable[bool]]

WATCHED = (
    operator_kube.ETCD_CLUSTERS,
    operator_kube.STATEFUL_SETS,
    operator_kube.SERVICES,
    operator_kube.SECRETS,
    operator_kube.PODS,
    operator_kube.CLAIMS,
)
LOOK_SECONDS = 0.05


class Dead(BaseException):
    """The process has been killed."""


@dataclass
class Fate:
    """Decides at which write a process is killed."""

    dies_at: int | str | None = None
    """The number of the write, or the name of which the first counts; None: never."""

    when: Literal["before", "after"] = "before"
    writes: list[str] = field(default_factory=list)
    """A write that is refused and tried again is one: etcd may refuse a learner for five seconds,
    and is asked many times."""

    happened: list[str] = field(default_factory=list)
    """Writes that were not refused. A conflict, or a refusal of etcd, changes nothing."""

    dead: bool = False
    _refused: str = ""

    async def write(self, words: str, call: Callable[[], Awaitable[T]]) -> T:
        self._breathe()
        its_time = words != self._refused and self._is_next(words)
        if its_time and self.when == "before":
            self._die()
        self._refused = words
        try:
            answer = await call()
            self.happened.append(words)
            self._refused = ""
        finally:
            if its_time:
                self._die()
        return answer

    def _is_next(self, words: str) -> bool:
        """Counts a write; returns whether it is the one to die at."""
        self.writes.append(words)
        return self.dies_at in (len(self.writes), words)

    async def read(self, call: Callable[[], Awaitable[T]]) -> T:
        self._breathe()
        return await call()

    def _breathe(self) -> None:
        if self.dead:
            self._die()

    def _die(self) -> None:
        self.dead = True
        if task := asyncio.current_task():
            task.add_done_callback(_retrieve_exception)
        raise Dead


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Keeps asyncio from complaining about a task beside the passes, which nothing awaits. A task
    that is awaited still raises."""
    if not task.cancelled():
        task.exception()


class MortalKube:
    """`kube.Kubernetes` on the real client."""

    def __init__(self, client: Client, fate: Fate) -> None:
        self._client = client
        self._fate = fate

    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return await self._fate.read(lambda: self._client.get(resource, namespace, name))

    async def list(self, resource: Resource, namespace: str | None, selector: str = "") -> Any:
        return await self._fate.read(lambda: self._client.list(resource, namespace, selector))

    async def apply(self, resource: Resource, manifest: Json, *, status: bool = False) -> Json:
        words = f"{'status of' if status else 'apply'} {resource.kind}"
        return await self._fate.write(
            words, lambda: self._client.apply(resource, manifest, status=status)
        )

    async def create(self, resource: Resource, manifest: Json) -> Json:
        return await self._fate.write(
            f"create {resource.kind}", lambda: self._client.create(resource, manifest)
        )

    async def merge_patch(
        self, resource: Resource, namespace: str, name: str, patch: Json, *, status: bool = False
    ) -> Json:
        metadata = patch["metadata"]
        noted = "labels" in metadata or naming.TOUCHED in metadata.get("annotations", {})
        words = "note on" if noted and resource == operator_kube.PODS else "patch"
        return await self._fate.write(
            f"{words} {resource.kind}",
            lambda: self._client.merge_patch(resource, namespace, name, patch, status=status),
        )

    async def delete(self, resource: Resource, namespace: str, name: str, **options: Any) -> bool:
        return await self._fate.write(
            f"delete {resource.kind}",
            lambda: self._client.delete(resource, namespace, name, **options),
        )


class MortalStart:
    """`tickets.Start` over TCP."""

    def __init__(self, fate: Fate) -> None:
        self._start = TcpStart()
        self._fate = fate

    async def ask(self, address: str, pod_uid: str, key: bytes) -> Answer:
        return await self._fate.read(lambda: self._start.ask(address, pod_uid, key))

    async def push(self, address: str, pod_uid: str, key: bytes, ticket: Ticket) -> Receipt:
        return await self._fate.write(
            "push a ticket", lambda: self._start.push(address, pod_uid, key, ticket)
        )


class MortalEtcd:
    """`etcd.Etcd` over gRPC. Changes count as writes, all other calls as reads."""

    CHANGES: ClassVar = {
        "member_add_learner": "add a learner",
        "member_update": "change a member's URLs",
        "member_promote": "promote a learner",
        "member_remove": "remove a member",
        "move_leader": "move the leader",
        "disarm": "disarm an alarm",
        "defragment": "defragment a member",
        "enable_downgrade": "enable a downgrade",
        "cancel_downgrade": "cancel a downgrade",
    }

    def __init__(self, fate: Fate) -> None:
        self._etcd = GrpcEtcd()
        self._fate = fate

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method, words = getattr(self._etcd, name), self.CHANGES.get(name)

        async def call(*arguments: Any, **options: Any) -> Any:
            if words is None:
                return await self._fate.read(lambda: method(*arguments, **options))
            return await self._fate.write(words, lambda: method(*arguments, **options))

        return call


class Silence:
    """Emits no Events, which would count as writes, but are not steps."""

    async def emit(self, *_: Any) -> None:
        return


class Mirror:
    """The watch events of one namespace, from which every process is fed."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._lock = threading.Lock()
        self._events: list[tuple[Resource, str, Json]] = []
        self._closed = False
        self.clusters: dict[str, Json] = {}
        self.ever: dict[tuple[str, str], set[str]] = defaultdict(set)
        """UIDs of all objects that ever existed, by cluster and kind. Two UIDs of one object mean
        that it was recreated."""

        for resource in WATCHED:
            threading.Thread(target=self._watch, args=(resource,), daemon=True).start()

    def close(self) -> None:
        """Forgets all events, and ends each watch at its next one. Without this they would go on
        for an hour, and keep every event of the clusters that follow in the same namespace."""
        with self._lock:
            self._closed = True
            self._events.clear()

    def feed(self, store: Store, position: int) -> int:
        """Puts the events since `position` into the store; returns the new position."""
        with self._lock:
            news, end = self._events[position:], len(self._events)
        for resource, what, body in news:
            metadata = body["metadata"]
            if what == "DELETED":
                version = int(metadata["resourceVersion"])
                where = (metadata["namespace"], metadata["name"])
                store.remove(resource, *where, metadata["uid"], version)
            else:
                store.put(resource, body)
        return end

    def _watch(self, resource: Resource) -> None:
        kind = Kind(resource.plural, resource.api_version, resource.kind)
        try:
            for event in self._kube.watch(kind, self._namespace):
                if not self._take(resource, event):
                    return
        except (ApiError, HTTPError, OSError, ValueError, KeyError):
            return  # The namespace is gone, or the test is over.

    def _take(self, resource: Resource, event: Json) -> bool:
        """Returns whether more events are wanted."""
        metadata = event["object"]["metadata"]
        labels = metadata.get("labels") or {}
        with self._lock:
            if self._closed:
                return False
            self._events.append((resource, event["type"], event["object"]))
            if resource is operator_kube.ETCD_CLUSTERS:
                self.clusters[metadata["name"]] = event["object"]
            cluster = labels.get("app.kubernetes.io/instance", metadata["name"])
            self.ever[cluster, resource.kind].add(metadata["uid"])
        return True


class Process:
    """One process of the operator, for one cluster."""

    def __init__(self, client: Client, mirror: Mirror, image: str, fate: Fate) -> None:
        self._mirror = mirror
        self._store = Store()
        self._position = 0
        self._reconciler = make_reconciler(
            MortalKube(client, fate),
            self._store,
            Metrics(),
            Settings(operator_image=image),
            mark=lambda *_: None,
            start=MortalStart(fate),
            etcd=MortalEtcd(fate),
            events=Silence(),
        )

    async def run(self, namespace: str, name: str, done: Done) -> None:
        """Runs passes until it is done. Raises Dead if it is killed."""
        while not await done():
            self._position = self._mirror.feed(self._store, self._position)
            try:
                delay = await self._reconciler.reconcile((namespace, name))
            except KubeError:
                delay = 0.2
            await asyncio.sleep(LOOK_SECONDS if delay is None else min(delay, LOOK_SECONDS))


@dataclass
class Lives:
    """Starts one process of the operator after another, for one cluster, until it is done."""

    client: Client
    mirror: Mirror
    image: str
    writes: list[str] = field(default_factory=list)
    """The writes of all processes."""

    happened: list[str] = field(default_factory=list)
    deaths: int = 0

    async def run(self, cluster: tuple[str, str], fates: Iterator[Fate], done: Done) -> None:
        for fate in fates:
            with suppress(Dead):
                await Process(self.client, self.mirror, self.image, fate).run(*cluster, done)
            self.deaths += fate.dead  # A task beside the last pass may have been killed.
            self.writes += fate.writes
            self.happened += fate.happened
            if not fate.dead:
                return

    def counts(self) -> dict[str, int]:
        """How often each write happened, for writes whose number must not depend on kills.

        Other writes depend on timing: writes of status, labels of pods, and touching a pod or a
        StatefulSet whose kubelet or controller is slow. Moving the leader depends on which member
        leads, and etcd elects another one whenever a heartbeat is late."""
        beside = ("status of", "note on", "patch StatefulSet", MortalEtcd.CHANGES["move_leader"])
        return dict(Counter(one for one in self.happened if not one.startswith(beside)))


def always_dying() -> Iterator[Fate]:
    """Every process is killed after its first write."""
    while True:
        yield Fate(dies_at=1, when="after")


def once(number: int, when: Literal["before", "after"]) -> Iterator[Fate]:
    """The first process is killed at the write of this number, the next one is not."""
    yield Fate(dies_at=number, when=when)
    yield Fate()


def never() -> Iterator[Fate]:
    yield Fate()


async def connect() -> Client:
    configuration = Configuration()
    await kubernetes_config.load_kube_config(
        config_file=str(KUBECONFIG), client_configuration=configuration
    )
    return Client(configuration)
