"""Passes over a cluster whose etcd is in a crash loop: reported once, until it is over."""

from __future__ import annotations

import pytest
from fakes import running
from reconcile_bench import Bench

from etcd_operator.kube.api import ETCD_CLUSTERS, PODS
from etcd_operator.objects.trouble import STEADY_SECONDS
from etcd_operator.timestamps import rfc3339
from etcd_stateful import naming

FATAL = '{"level":"fatal","msg":"discovery failed","error":"no such release"}'


class CrashLoop:
    """The only pod of a cluster, as the kubelet reports it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.restarts = 0
        self.last: dict[str, object] = {}

    async def fails(self) -> None:
        """It runs for a second, ends, and waits to be started again."""
        await self.runs()
        began = rfc3339(self.bench.clock.now)
        self.bench.clock.now += 1
        ended = {"exitCode": 1, "reason": "Error", "message": FATAL}
        times = {"startedAt": began, "finishedAt": rfc3339(self.bench.clock.now)}
        self.last = {"terminated": ended | times}
        await self.looks(self.last)
        await self.looks({"waiting": {"reason": "CrashLoopBackOff"}})
        self.bench.clock.now += 10
        self.restarts += 1

    async def runs(self) -> None:
        await self.looks({"running": {"startedAt": rfc3339(self.bench.clock.now)}})

    async def looks(self, state: dict[str, object]) -> None:
        pod = self.bench.kube.live(PODS, "a-0")
        status = running(naming.ETCD_CONTAINER, pod["status"]["podIP"])
        told = {"restartCount": self.restarts, "state": state, "lastState": self.last}
        status["containerStatuses"][0] |= told | {"ready": False}
        self.bench.kube.put(PODS, pod | {"status": status})
        for _ in range(3):
            await self.bench.once()


@pytest.fixture
async def loop() -> CrashLoop:
    """One member whose version fails, and a spec that asks for a version it cannot change to
    now."""
    bench = Bench()
    bench.declare(size=1, version="3.6.14")
    await bench.run()
    bench.etcd.members.clear()
    found = CrashLoop(bench)
    await found.fails()
    spec = bench.body["spec"] | {"version": "3.7.3"}
    bench.kube.put(ETCD_CLUSTERS, bench.body | {"spec": spec})
    await found.fails()
    return found


async def test_conditions_came_and_went_with_each_crash(loop: CrashLoop) -> None:
    """The Event came and went too, and the status was written twice per crash."""
    bench = loop.bench
    said = {kind: bench.condition(kind) for kind in ("Blocked", "Degraded", "Progressing")}
    assert said["Blocked"]
    assert said["Blocked"]["reason"] == "VersionFails"
    assert "container etcd keeps failing: exit code 1: discovery" in said["Degraded"]["message"]
    bench.forget()

    for _ in range(3):
        await loop.fails()

    assert {kind: bench.condition(kind) for kind in said} == said
    assert bench.events.reasons() == []
    assert not bench.kube.writes()


async def test_a_container_that_keeps_running_is_not_reported_as_failing(loop: CrashLoop) -> None:
    """It may wait for other members, and not be Ready."""
    await loop.runs()
    assert loop.bench.condition("Blocked")

    await loop.bench.rest(STEADY_SECONDS + 1)

    assert loop.bench.condition("Blocked") is None
    assert "keeps failing" not in str(loop.bench.status)


async def test_a_container_that_comes_up_is_reported_at_once(loop: CrashLoop) -> None:
    await loop.runs()
    pod = loop.bench.kube.live(PODS, "a-0")
    pod["status"]["containerStatuses"][0]["ready"] = True
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    loop.bench.kube.put(PODS, pod)
    await loop.bench.once()

    assert "keeps failing" not in str(loop.bench.status)
    assert loop.bench.condition("Blocked") is None
