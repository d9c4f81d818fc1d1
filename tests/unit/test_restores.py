"""The passes over an EtcdRestore: it makes what is gone, and touches nothing that is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeClock, FakeKube
from worlds import body as cluster_body

from etcd_operator.events import Events
from etcd_operator.kube import ETCD_CLUSTERS, ETCD_RESTORES, JOBS, PODS, Json, Rejected
from etcd_operator.restores import Restores
from etcd_operator.store import Store
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.stores import Store as Place
from etcd_stateful.api.tls import MANAGED, NO_TLS, PLAINTEXT, Link, Links
from etcd_stateful.backup import order, outcome, recorded
from etcd_stateful.backup.outcome import Described, Failure

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
        )
        metadata = {"namespace": "default", "name": "c", "uid": "uid-r", "generation": 1}
        self.kube.put(ETCD_RESTORES, {"metadata": metadata, "spec": SPEC})

    async def settle(self) -> float | None:
        for _ in range(10):
            after = await self.restores.reconcile(KEY)
            if after != 0.0:
                return after
        raise AssertionError("it never comes to rest")

    @property
    def status(self) -> Json:
        return self.kube.live(ETCD_RESTORES, "c").get("status") or {}

    def condition(self) -> Json:
        return next(one for one in self.status["conditions"] if one["type"] == "Complete")

    def end(self, said: Any, kind: str = "Complete") -> None:
        job = self.kube.live(JOBS, "c-backup-describe")
        reference = {"kind": "Job", "uid": job["metadata"]["uid"], "controller": True}
        ended = {"terminated": {"exitCode": 0, "message": outcome.serialise(said)}}
        metadata = {
            "namespace": "default",
            "name": "p",
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


@pytest.fixture
def world() -> World:
    return World()


async def test_a_cluster_that_is_gone_is_made_from_what_was_recorded(world: World) -> None:
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()

    made = world.kube.live(ETCD_CLUSTERS, "c")
    assert {**OLD, "bootstrap": made["spec"]["bootstrap"]} == made["spec"]
    assert made["metadata"]["annotations"] == {naming.RESTORED_BY: "uid-r"}
    assert "ownerReferences" not in made["metadata"], "it must outlive the restore"
    wanted = Place("S3", "mybucket", "etcd.backup", "aws", "http://minio:9000")
    assert parse_cluster(made).restore == wanted
    assert world.condition()["reason"] == "Restoring"
    assert "succeeded" not in world.status

    world.serve()
    assert await world.settle() is None
    assert world.status["succeeded"] is True
    assert "00000000000000ab" in world.condition()["message"]


async def test_a_spec_without_a_version_means_the_one_that_ran(world: World) -> None:
    """The operator's default may be another by now, and need not take the data."""
    await world.settle()
    world.end(Described({"size": 3}, "3.5.32", 42))
    await world.settle()

    assert world.kube.live(ETCD_CLUSTERS, "c")["spec"]["version"] == "3.5.32"


async def test_a_cluster_that_is_there_is_never_touched(world: World) -> None:
    metadata = {"namespace": "default", "name": "c"}
    world.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
    world.serve()
    before = world.kube.live(ETCD_CLUSTERS, "c")

    assert await world.settle() == 30.0

    assert world.condition()["reason"] == "ClusterExists"
    assert world.kube.live(ETCD_CLUSTERS, "c") == before
    assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]
    assert "succeeded" not in world.status


async def test_once_it_has_succeeded_the_cluster_goes_its_own_way(world: World) -> None:
    """Deleted later, it must not come back by itself with old data."""
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    world.serve()
    await world.settle()
    world.kube.remove(ETCD_CLUSTERS, "default", "c")
    world.kube.remove(JOBS, "default", "c-backup-describe")

    assert await world.settle() is None
    assert world.kube.find(ETCD_CLUSTERS, "c") is None


async def test_the_job_only_looks(world: World) -> None:
    await world.settle()

    job = world.kube.live(JOBS, "c-backup-describe")
    told = order.parse(job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
    assert told.action == "describe"
    assert told.endpoints == ()
    assert job["metadata"]["ownerReferences"][0]["kind"] == "EtcdRestore"


async def test_what_is_missing_is_told_while_it_is_tried_again(world: World) -> None:
    await world.settle()
    failure = Failure("NoManifest", "spec.s3.path: there is no 'etcd.backup.manifest.json'")
    world.end(failure, kind="")
    await world.settle()

    assert world.condition()["reason"] == "NoManifest"
    assert "spec.s3.path" in world.condition()["message"]


async def test_a_failure_is_final_once_the_job_is(world: World) -> None:
    await world.settle()
    world.end(Failure("NoClusterRecorded", "spec.s3.path: nobody knows"), kind="Failed")
    assert await world.settle() is None

    assert world.status["succeeded"] is False
    assert world.status["reason"] == "spec.s3.path: nobody knows"
    assert await world.settle() is None


async def test_what_a_human_has_to_do_for_the_cluster_is_told_here_too(world: World) -> None:
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    blocked = {"type": "Blocked", "status": "True", "message": "claims hold the data of a deleted"}
    world.serve(conditions=[blocked])
    await world.settle()

    assert world.condition()["reason"] == "ClusterBlocked"
    assert "claims hold the data" in world.condition()["message"]


async def test_a_refused_cluster_is_told(world: World) -> None:
    await world.settle()
    world.end(Described({"size": 99}, "3.7.3", 42))
    world.kube.failures["create EtcdCluster"] = [Rejected("spec.size: 1 to 7", status=422)]
    assert await world.settle() == 30.0

    assert "1 to 7" in world.condition()["message"]


async def test_another_name_than_its_own_is_refused(world: World) -> None:
    body = world.kube.live(ETCD_RESTORES, "c")
    body["spec"] = SPEC | {"etcdCluster": {"name": "other"}}
    world.kube.put(ETCD_RESTORES, body)
    await world.settle()

    assert world.condition()["reason"] == "InvalidSpec"
    assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]


class TestWhatIsRecorded:
    def test_a_life_is_not_recorded_with_its_spec(self) -> None:
        one_life = {"paused": True, "recovery": {}, "retainedClaims": {}, "bootstrap": {}}

        assert recorded.record("c", OLD | one_life) == {"name": "c", "spec": OLD}

    def test_tls_is_kept_as_it_is_said_and_its_absence_where_it_is_not(self) -> None:
        def kept(links: Links, **spec: Any) -> Any:
            cluster = replace(parse_cluster(cluster_body(3, **spec)), links=links)
            return recorded.record("c", spec, cluster)["spec"].get("TLS")

        assert kept(Links(MANAGED, MANAGED)) is None
        assert kept(NO_TLS) == {"peer": "Plaintext", "client": "Plaintext"}
        assert kept(Links(MANAGED, PLAINTEXT)) == {"client": "Plaintext"}
        said = {"static": {"member": {"peerSecret": "p"}}}
        assert kept(Links(Link("Static", "p")), TLS=said) == said | {"client": "Plaintext"}
        assert kept(NO_TLS, TLS={"peer": "Managed"})["peer"] == "Managed", "the edit counts anew"

    @pytest.mark.parametrize(
        ("endpoint", "names"),
        [
            ("http://example-etcd-cluster-client:2379", ["example-etcd-cluster"]),
            ("http://c-client.ns:2379", ["c"]),
            ("https://c-client.ns.svc.cluster.local", ["c"]),
            ("http://c-0.c.ns.svc:2379", ["c"]),
            ("http://c-client.other.svc:2379", []),
            ("http://10.0.0.1:2379", []),
        ],
    )
    def test_a_cluster_is_found_by_its_endpoints(self, endpoint: str, names: list[str]) -> None:
        assert recorded.possible_names([endpoint], "ns") == names
