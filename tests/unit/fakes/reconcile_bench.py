"""A reconciler with fakes, and the loop that the work queue would run."""

from __future__ import annotations

from typing import Any, Literal

from fake_accounts import FakeAccounts
from fakes import FakeClock, FakeEtcd, FakeKube, FakeStart, Nodes, cluster_body

from etcd_operator.cluster.assembly import make_reconciler
from etcd_operator.cluster.reconcile import Reconciler
from etcd_operator.kube.api import ETCD_CLUSTERS, Json, Key, Resource, Unavailable
from etcd_operator.kube.store import Store
from etcd_operator.settings import Settings
from etcd_operator.telemetry.metrics import Metrics

KEY: Key = ("default", "a")


class FakeEvents:
    def __init__(self) -> None:
        self.posted: list[tuple[str, str, str]] = []

    async def emit(
        self, about: Json, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        assert about["kind"] == "EtcdCluster"
        self.posted.append((kind, reason, message))

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.posted]


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.start = FakeStart(self.clock)
        self.etcd = FakeEtcd()
        self.accounts = FakeAccounts()
        self.nodes = Nodes(self.kube, self.start, self.etcd)
        self.events = FakeEvents()
        self.marks: dict[str, int] | None = None
        """By name: the mark of the last change that a watch reported. None: nothing watches for
        changes."""

        self.begin_process()

    @classmethod
    async def settled(cls) -> Bench:
        """With a cluster that has formed and rests; what was asked until then is forgotten."""
        bench = cls()
        bench.declare()
        await bench.run()
        bench.forget()
        return bench

    def begin_process(self) -> None:
        """A new operator: nothing in memory, the store listed anew."""
        self.store = self.kube.store = Store()
        for name in self.kube.objects:
            self.kube.publish(name)
        self.metrics = Metrics()
        self.reconciler = self.make_reconciler(self.metrics)

    def make_reconciler(self, metrics: Metrics, **settings: Any) -> Reconciler:
        labels = (("app", "etcd-operator"),)
        return make_reconciler(
            self.kube,
            self.store,
            metrics,
            Settings(operator_image="operator:1", operator_pod_labels=labels, **settings),
            start=self.start,
            etcd=self.etcd,
            accounts=self.accounts,
            events=self.events,
            mark=lambda _, __, name: None if self.marks is None else self.marks.get(name, 0),
            clock=self.clock,
            wall_clock=self.clock,
        )

    def declare(self, **spec: Any) -> Json:
        return self.kube.put(ETCD_CLUSTERS, cluster_body(**spec))

    async def once(self) -> float | None:
        delay = await self.reconciler.reconcile(KEY)
        await self.reconciler.drain()
        return delay

    async def run(self, passes: int = 80) -> float | None:
        """Passes and turns of the world until the operator has nothing to do but wait long."""
        delay: float | None = 0.0
        for _ in range(passes):
            delay = await self.once()
            before = len(self.kube.log)
            self.nodes.turn()
            quiet = len(self.kube.log) == before
            if (delay is None or delay >= 5) and quiet and await self._nothing_new():
                return delay
            self.clock.now += delay if delay is not None else 1.0
        raise AssertionError(f"no rest after {passes} passes: {self.kube.log[-12:]}")

    async def delete_pods(self, *, passes: int) -> None:
        """Deletes all three, as a user would, and makes these passes before the world turns:
        kubelets start no pod before its Secrets are there."""
        for ordinal in range(3):
            self.nodes.kill(f"a-{ordinal}")
        for _ in range(passes):
            await self.once()

    async def rest(self, seconds: float) -> None:
        """Passes when they are due, in a world where nothing happens."""
        ends = self.clock.now + seconds
        while self.clock.now < ends:
            delay = await self.once()
            assert delay is not None, "nobody would look again"
            self.clock.now += delay

    async def until_failed(self) -> None:
        """Until a step is reported to fail."""
        while "StepFailed" not in self.events.reasons():
            self.clock.now += await self.once()

    async def missing_for(self, resource: Resource, name: str) -> float:
        """Deletes an object, and returns after how many seconds there is one again."""
        self.kube.remove(resource, "default", name)
        began = self.clock.now
        while not self.kube.find(resource, name):
            self.clock.now += await self.once()
        return self.clock.now - began

    def forget(self) -> None:
        """What was asked, changed and told so far."""
        for memory in (self.kube.calls, self.kube.log, self.etcd.calls, self.etcd.changes):
            memory.clear()
        self.events.posted.clear()

    def dies_at_creation(self, name: str, *, after: bool) -> list[Json | None]:
        """The API server loses the answer to the creation of this name, or never gets it; what is
        returned is empty until then."""
        create, killed = self.kube.create, list[Json | None]()

        async def dies(resource: Resource, manifest: Json) -> Json:
            if manifest["metadata"]["name"] == name and not killed:
                killed.append(await create(resource, manifest) if after else None)
                raise Unavailable("killed")
            return await create(resource, manifest)

        self.kube.create = dies  # type: ignore[method-assign]
        return killed

    async def _nothing_new(self) -> bool:
        before = self.kube.writes()
        await self.once()
        self.nodes.turn()
        return self.kube.writes() == before

    @property
    def body(self) -> Json:
        return self.kube.live(ETCD_CLUSTERS, "a")

    @property
    def status(self) -> Json:
        status: Json = self.body.get("status") or {}
        return status

    def condition(self, kind: str) -> Json | None:
        conditions = self.status.get("conditions") or []
        return next((one for one in conditions if one["type"] == kind), None)
