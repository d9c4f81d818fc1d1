"""Passes of a cluster that is bootstrapped from an EtcdBackup by name: look up, wait, report."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from fake_accounts import FakeAccounts
from fakes import FakeClock, FakeEtcd, FakeKube, FakeStart, no_looks
from reconcile_bench import Bench
from restore_world import FIELD, FIRST, LATER, RESTORE, backup, named, place
from worlds import body

from etcd_operator.cluster.observe import Observer
from etcd_operator.cluster.sweep import Network
from etcd_operator.kube.api import ETCD_BACKUPS, JOBS, SECRETS
from etcd_operator.kube.finder import ABSENT_SECONDS, Finder
from etcd_operator.kube.store import Store as Shelves
from etcd_stateful.api.cluster import parse_cluster


class TestTheLook:
    """What the shell requests, and how often."""

    def observer(self) -> tuple[FakeKube, Observer, FakeClock]:
        clock = FakeClock()
        kube = FakeKube(clock)
        shelves = kube.store = Shelves()
        network = Network(FakeStart(clock), FakeEtcd(), FakeAccounts(), clock)
        finder = Finder(kube, shelves, clock)
        observer = Observer(
            shelves,
            finder,
            network=network,
            operator_image="operator:1",
            operator=None,
            **no_looks(),
            wall_clock=clock,
            clock=clock,
        )
        return kube, observer, clock

    async def look(self, observer: Observer, **spec: Any) -> Any:
        declared = body(1, **({"bootstrap": named()} | spec))
        declared["metadata"]["namespace"] = "default"
        seen = await observer.observe(declared, parse_cluster(declared), quiet=False)
        return seen.observation.backup

    def asked(self, kube: FakeKube) -> int:
        return kube.calls["get EtcdBackup"]

    async def test_what_the_watch_has_reported_needs_no_request(self) -> None:
        kube, observer, _ = self.observer()
        kube.put(ETCD_BACKUPS, copy.deepcopy(backup()))

        assert await self.look(observer) == place(FIRST)
        assert self.asked(kube) == 0

    async def test_a_backup_in_another_namespace_is_not_found(self) -> None:
        kube, observer, _ = self.observer()
        other = backup()
        other["metadata"]["namespace"] = "other"
        kube.put(ETCD_BACKUPS, other)

        found = await self.look(observer)

        assert "does not exist" in found.why

    async def test_a_missing_backup_is_not_read_again_and_again(self) -> None:
        kube, observer, clock = self.observer()
        for _ in range(5):
            await self.look(observer)
        assert self.asked(kube) == 1

        clock.now += ABSENT_SECONDS + 1
        await self.look(observer)
        assert self.asked(kube) == 2

    async def test_nothing_is_requested_if_the_spec_names_a_store(self) -> None:
        kube, observer, _ = self.observer()

        assert await self.look(observer, bootstrap={"restore": RESTORE}) is None
        assert self.asked(kube) == 0


class TestThePasses:
    """The whole operator, with fakes."""

    async def passes(self, bench: Bench, seconds: float) -> int:
        """How many passes there are in that time, each after the delay that the one before asked
        for."""
        count, end = 0, bench.clock.now + seconds
        while bench.clock.now < end:
            delay = await bench.once()
            assert delay is not None, "nobody would look again"
            bench.clock.now += delay
            count += 1
        return count

    @pytest.mark.parametrize(
        ("found", "kind", "words"),
        [
            (None, "Blocked", "EtcdBackup b does not exist"),
            ({"succeeded": None, "lastSuccessDate": ""}, "Progressing", "EtcdBackup b to succeed"),
            ({"location": "gcs://mybucket/x"}, "Blocked", "gcs://mybucket/x"),
        ],
    )
    async def test_a_missing_backup_is_reported_once_and_nothing_is_written_meanwhile(
        self, found: Any, kind: str, words: str
    ) -> None:
        bench = Bench()
        if found is not None:
            bench.kube.put(ETCD_BACKUPS, backup(**found))
        bench.declare(bootstrap=named())
        await bench.once()
        before = bench.kube.writes()

        assert await self.passes(bench, 120) <= 25, "a hot loop"

        conditions = {one["type"]: one["message"] for one in bench.status["conditions"]}
        assert words in conditions[kind]
        assert FIELD in conditions[kind]
        assert bench.kube.writes() == before
        assert bench.events.reasons().count("BackupAwaited") <= 1
        assert not [name for resource, *_, name in bench.kube.objects if resource == SECRETS]

    async def test_once_the_backup_exists_the_cluster_is_created_and_a_new_operator_continues(
        self,
    ) -> None:
        bench = Bench()
        bench.declare(bootstrap=named())
        await bench.once()
        bench.kube.put(ETCD_BACKUPS, backup())
        await bench.once()
        bench.kube.put(ETCD_BACKUPS, backup(LATER))
        bench.begin_process()
        for _ in range(12):
            await bench.once()

        environment = bench.kube.live(JOBS, "a-restore")["spec"]["template"]["spec"]
        told = {one["name"]: one.get("value") for one in environment["initContainers"][0]["env"]}
        assert json.loads(told["RESTORE"])["store"]["key"] == FIRST
