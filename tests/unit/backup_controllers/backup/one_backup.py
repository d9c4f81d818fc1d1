"""One EtcdBackup and its Jobs, with an API server in memory."""

from __future__ import annotations

from typing import Any

from fakes import FakeClock, FakeKube

from etcd_operator.backup_controllers.backup import Backups
from etcd_operator.kube.api import ETCD_BACKUPS, JOBS, PODS, Json
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.backup import outcome
from etcd_stateful.backup.outcome import Progress, Stored

KEY = ("default", "b")
SPEC: Json = {
    "etcdEndpoints": ["http://c:2379"],
    "storageType": "S3",
    "s3": {"path": "mybucket/etcd.backup", "awsSecret": "aws"},
}
STORED = Stored("s3://mybucket/etcd.backup", "0a", 42, "3.7.3", 1056, "ff", "etcd.backup")
LABELS = {naming.LABEL_NAME: "etcd-backup", naming.LABEL_MANAGED_BY: naming.MANAGER}


class Skewed(FakeClock):
    """A clock that is so many seconds ahead of another one."""

    def __init__(self, of: FakeClock, ahead: int) -> None:
        super().__init__()
        self._of, self._ahead = of, ahead

    def rfc3339(self) -> str:
        self.now = self._of.now + self._ahead
        return super().rfc3339()


class World:
    """One EtcdBackup. A test plays the Job controller."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.kube.store = Store()
        self.progress: Progress | None = None
        self.metrics = Metrics()
        self.backups = Backups(
            self.kube,
            self.kube.store,
            Events(self.kube, instance="test", clock=self.clock),
            self.metrics,
            operator_image="operator:1",
            ask=self._ask,
            wall_clock=self.clock,
        )

    async def _ask(self, address: str) -> Progress | None:
        assert address == "10.0.0.9"
        return self.progress

    def declare(self, generation: int = 1, uid: str = "uid-b", **changes: Any) -> None:
        spec = {k: v for k, v in (SPEC | changes).items() if v is not None}
        known = self.kube.find(ETCD_BACKUPS, "b") or {}
        metadata = {"namespace": "default", "name": "b", "generation": generation, "uid": uid}
        if known:
            metadata["creationTimestamp"] = known["metadata"]["creationTimestamp"]
        self.kube.put(ETCD_BACKUPS, {**known, "metadata": metadata, "spec": spec})

    async def settle(self) -> float | None:
        """Makes passes until one wants to wait."""
        for _ in range(10):
            after = await self.backups.reconcile(KEY)
            if after != 0.0:
                return after
        raise AssertionError("it never comes to rest")

    def measured(self) -> tuple[float | None, ...]:
        """The metrics of its interval: whether the last run succeeded, and when one did."""
        labels = {"namespace": "default", "name": "b"}
        names = ("last_run_succeeded", "last_success_timestamp_seconds")
        read = self.metrics.registry.get_sample_value
        return tuple(read(f"etcd_backup_interval_{one}", labels) for one in names)

    def jobs(self) -> list[str]:
        return sorted(name for kind, _, name in self.kube.objects if kind == JOBS)

    @property
    def status(self) -> Json:
        return self.kube.live(ETCD_BACKUPS, "b").get("status") or {}

    def condition(self, kind: str = "Complete") -> Json:
        return next(one for one in self.status["conditions"] if one["type"] == kind)

    def run_pod(
        self, *, name: str = "p1", message: str | None = None, code: int = 0, of: str = ""
    ) -> None:
        """The pod of a Job, by default of the newest: running, or ended with a message."""
        job = self.kube.live(JOBS, of or self.jobs()[-1])
        named = {key: job["metadata"][key] for key in ("name", "uid")}
        reference = {"kind": "Job", "controller": True} | named
        ended = {"terminated": {"exitCode": code, "message": message}}
        state = {"running": {}} if message is None else ended
        pod = {
            "metadata": {
                "namespace": "default",
                "name": name,
                "labels": LABELS,
                "annotations": {naming.BACKUP: "b"},
                "ownerReferences": [reference],
            },
            "status": {
                "phase": "Running" if message is None else "Succeeded" if code == 0 else "Failed",
                "podIP": "10.0.0.9",
                "containerStatuses": [{"name": "backup", "state": state}],
            },
        }
        self.kube.put(PODS, pod)

    def stop_pod(self, name: str = "p1", job: str = "b-backup-g1") -> None:
        """The pod of a Job that is being deleted stops, and then the Job is gone too."""
        assert "deletionTimestamp" in self.kube.live(JOBS, job)["metadata"]
        self.kube.remove(PODS, "default", name)
        self.kube.remove(JOBS, "default", job)

    def end_job(self, kind: str = "Complete", of: str = "", **words: str) -> None:
        job = self.kube.live(JOBS, of or self.jobs()[-1])
        job["status"] = {"conditions": [{"type": kind, "status": "True", **words}]}
        self.kube.put(JOBS, job)


async def made(world: World) -> None:
    await world.settle()
    world.run_pod(message=outcome.serialise(STORED))
    world.end_job()
    await world.settle()
