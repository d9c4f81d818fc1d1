"""One EtcdBackupSchedule and its backups, with an API server in memory."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fakes import FakeClock, FakeKube

from etcd_operator.backup_controllers.schedule import AGAIN_SECONDS, Schedules
from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_SCHEDULES, Json
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming

KEY = ("default", "s")
UID = "0a1b2c3d-1111"
START = datetime.fromisoformat("2026-11-21T02:59:00Z").timestamp()
SPEC: Json = {
    "schedule": "* * * * *",
    "jitterSeconds": 0,
    "template": {
        "clusterRef": {"name": "c"},
        "storageType": "S3",
        "s3": {"path": "mybucket/etcd", "awsSecret": "aws"},
    },
}


class World:
    """One schedule. A test plays the passes over its backups."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.kube = FakeKube(self.clock)
        self.kube.store = Store()
        self.begin()

    def begin(self) -> None:
        """Starts an operator that knows only what is stored."""
        events = Events(self.kube, instance="test", clock=self.clock)
        self.metrics = Metrics()
        self.schedules = Schedules(
            self.kube, self.kube.store, events, self.metrics, wall_clock=self.clock
        )

    def declare(self, uid: str = UID, **changes: Any) -> None:
        known = self.kube.find(ETCD_SCHEDULES, "s") or {}
        metadata = {"namespace": "default", "name": "s", "uid": uid, "generation": 1}
        if known:
            metadata["creationTimestamp"] = known["metadata"]["creationTimestamp"]
        self.kube.put(ETCD_SCHEDULES, {**known, "metadata": metadata, "spec": SPEC | changes})

    async def settle(self) -> float | None:
        """Makes passes until one wants to wait."""
        for _ in range(30):
            made = self.kube.calls["create EtcdBackup"]
            after = await self.schedules.reconcile(KEY)
            created = self.kube.calls["create EtcdBackup"] > made and after == AGAIN_SECONDS
            if after != 0.0 and not (created and self.kube.watching):
                return after
        raise AssertionError("it never comes to rest")

    async def until(self, text: str) -> None:
        """Runs passes at the times that they request."""
        end = datetime.fromisoformat(f"2026-11-21T{text}Z").timestamp()
        while self.clock.now < end:
            after = await self.settle()
            assert after
            self.clock.now = min(self.clock.now + after, end)
        await self.settle()

    def backups(self) -> list[str]:
        """The times that the backups are for."""
        found = [self.kube.live(kind, name) for kind, _, name in self.kube.objects
                 if kind == ETCD_BACKUPS]  # fmt: skip
        notes = (one["metadata"]["annotations"] for one in found)
        return sorted(note[naming.SCHEDULED_TIME][11:16] for note in notes)

    def name(self, minute: str) -> str:
        for kind, _, name in self.kube.objects:
            if kind == ETCD_BACKUPS:
                notes = self.kube.live(kind, name)["metadata"]["annotations"]
                if minute in notes[naming.SCHEDULED_TIME]:
                    return name
        raise KeyError(minute)

    def end(self, minute: str, *, good: bool = True, verified: bool = True) -> None:
        """The backup of that minute is over."""
        body = self.kube.live(ETCD_BACKUPS, self.name(minute))
        told: Json = {"succeeded": good, "reason": "" if good else "no bucket"}
        if good:
            told |= {"lastSuccessDate": self.clock.rfc3339(), "location": f"s3://{minute}"}
        if good and verified:
            told["verified"] = "Hash"
        self.kube.put(ETCD_BACKUPS, body | {"status": told})

    async def runs(self, *minutes: str, **how: bool) -> None:
        for minute in minutes:
            await self.until(f"{minute}:00")
            self.end(minute, **how)
        await self.settle()

    @property
    def status(self) -> Json:
        return self.kube.live(ETCD_SCHEDULES, "s").get("status") or {}

    def gauge(self, name: str) -> float | None:
        labels = {"namespace": "default", "name": "s"}
        return self.metrics.registry.get_sample_value(f"etcd_backup_schedule_{name}", labels)

    def condition(self, kind: str = "LastRun") -> Json:
        return next(one for one in self.status["conditions"] if one["type"] == kind)


def at(text: str) -> float:
    return datetime.fromisoformat(f"2026-11-21T{text}Z").timestamp()
