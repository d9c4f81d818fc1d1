"""One EtcdRestore and its cluster, with an API server in memory."""

from __future__ import annotations

import base64
from typing import Any

from fakes import FakeClock, FakeKube

from etcd_operator.backup_controllers.restore import Restores
from etcd_operator.kube.api import ETCD_CLUSTERS, ETCD_RESTORES, JOBS, PODS, Json
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster
from etcd_stateful.backup import outcome
from etcd_stateful.backup.outcome import Described
from etcd_stateful.manifests.secret import BOOTSTRAP, start_secret
from etcd_stateful.records.bootstrap import Bootstrap

KEY = ("default", "c")
S3 = {"path": "mybucket/etcd.backup", "awsSecret": "aws", "endpoint": "http://minio:9000"}
SPEC: Json = {"etcdCluster": {"name": "c"}, "backupStorageType": "S3", "s3": S3}
OLD = {"size": 3, "version": "3.7.3", "pod": {"labels": {"team": "a"}}}
LABELS = {naming.LABEL_NAME: "etcd-backup", naming.LABEL_MANAGED_BY: naming.MANAGER}


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.kube.store = Store()
        events = Events(self.kube, instance="test", clock=self.clock)
        self.restores = Restores(
            self.kube,
            self.kube.store,
            events,
            operator_image="operator:1",
            wall_clock=self.clock,
            clock=self.clock,
        )
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        self.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": SPEC})

    async def settle(self) -> float | None:
        for _ in range(10):
            after = await self.restores.reconcile(KEY)
            if after != 0.0:
                return after
        raise AssertionError("it never comes to rest")

    async def succeed(self) -> None:
        """The backup is described, and the cluster that is made from it serves."""
        await self.settle()
        self.end(Described(OLD, "3.7.3", 42))
        await self.settle()
        self.serve()
        await self.settle()

    @property
    def status(self) -> Json:
        return self.kube.live(ETCD_RESTORES, "c").get("status") or {}

    def condition(self) -> Json:
        return next(one for one in self.status["conditions"] if one["type"] == "Complete")

    def edit(self, spec: Json) -> None:
        body = self.kube.live(ETCD_RESTORES, "c")
        body["metadata"]["generation"] += 1
        self.kube.put(ETCD_RESTORES, body | {"spec": spec})

    def end(self, said: Any, kind: str = "Complete", job: str = "c-backup-d1") -> None:
        self._end(said, kind, self.kube.live(JOBS, job))

    def _end(self, said: Any, kind: str, job: Json) -> None:
        reference = {"kind": "Job", "uid": job["metadata"]["uid"], "controller": True}
        ended = {"terminated": {"exitCode": 0, "message": outcome.serialise(said)}}
        metadata = {
            "namespace": "default",
            "name": f"p-{job['metadata']['name']}",
            "labels": LABELS,
            "annotations": {naming.RESTORE: "c"},
            "ownerReferences": [reference],
        }
        states = [{"name": "backup", "state": ended}]
        self.kube.put(PODS, {"metadata": metadata, "status": {"containerStatuses": states}})
        if kind:
            job["status"] = {"conditions": [{"type": kind, "status": "True"}]}
            self.kube.put(JOBS, job)

    def serve(self, **status: Any) -> None:
        cluster = self.kube.live(ETCD_CLUSTERS, "c")
        cluster["status"] = {
            "clusterID": "00000000000000ab",
            "conditions": [{"type": "Available", "status": "True"}],
        } | status
        self.kube.put(ETCD_CLUSTERS, cluster)


def secret_with(cluster: EtcdCluster, record: Bootstrap) -> Json:
    secret = start_secret(cluster, record, base64.b64encode(bytes(32)).decode())
    text = secret.pop("stringData")[BOOTSTRAP]
    secret["data"][BOOTSTRAP] = base64.b64encode(text.encode()).decode()
    return secret


BY_NAME: Json = {"etcdCluster": {"name": "c"}, "backupRef": {"name": "nightly-1"}}


def backup(**status: Any) -> Json:
    told = {"succeeded": True, "location": "s3://mybucket/a/nightly_1"} | status
    return {
        "metadata": {"namespace": "default", "name": "nightly-1", "uid": "uid-b"},
        "spec": {"clusterRef": {"name": "c"}, "storageType": "S3", "s3": S3},
        "status": told,
    }
