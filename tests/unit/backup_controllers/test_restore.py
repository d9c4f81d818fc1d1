"""Passes over an EtcdRestore: it recreates a deleted cluster, and leaves an existing one alone."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from fakes import FakeClock, FakeKube

from etcd_operator.backup_controllers.restore import Restores
from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    JOBS,
    PODS,
    SECRETS,
    Json,
    Rejected,
)
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store
from etcd_stateful import naming
from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.api.stores import Store as Place
from etcd_stateful.backup import order, outcome
from etcd_stateful.backup.outcome import Described, Failure
from etcd_stateful.backup.restores import AWAIT_SECONDS, GIVE_UP_SECONDS, replacing
from etcd_stateful.manifests.secret import BOOTSTRAP, start_secret
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap import Bootstrap
from unit.backup_controllers.outages import fail_until_reported

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


@pytest.fixture
def world() -> World:
    return World()


async def test_a_deleted_cluster_is_recreated_from_the_recorded_spec(world: World) -> None:
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
    assert {**world.condition(), "type": "Ready"} in world.status["conditions"]


async def test_an_altered_manifest_had_the_old_clusters_volumes_deleted(
    world: World,
) -> None:
    """Whoever can write to the store must not be able to decide that."""
    uid = "01234567-89ab-cdef-0123-456789abcdef"
    altered = {
        "retainedClaims": {"discard": uid},
        "recovery": {"survivor": "c-0"},
        "paused": True,
        "bootstrap": {"restore": {"storageType": "GCS", "gcs": {"path": "another/place"}}},
    }
    await world.settle()
    world.end(Described(OLD | altered, "3.7.3", 42))
    await world.settle()

    made = world.kube.live(ETCD_CLUSTERS, "c")["spec"]
    assert made == OLD | {"bootstrap": made["bootstrap"]}
    assert made["bootstrap"]["restore"]["s3"] == S3


async def test_whoever_may_write_to_a_store_decides_what_a_cluster_that_is_made_from_it_runs(
    world: World,
) -> None:
    """A mirror of the images is a part of the spec. The threat model says so."""
    await world.settle()
    world.end(Described(OLD | {"repository": "mirror.example.com/etcd"}, "3.7.3", 42))
    await world.settle()

    made = world.kube.live(ETCD_CLUSTERS, "c")["spec"]
    assert made["repository"] == "mirror.example.com/etcd"


async def test_without_a_version_in_the_spec_the_one_that_ran_is_restored(world: World) -> None:
    """The operator's default may have changed since, and may not be able to read the data."""
    await world.settle()
    world.end(Described({"size": 3}, "3.5.32", 42))
    await world.settle()

    assert world.kube.live(ETCD_CLUSTERS, "c")["spec"]["version"] == "3.5.32"


async def test_a_cluster_that_ran_a_private_build_could_not_be_recreated(world: World) -> None:
    """Its version was the one that its members had reported, which no EtcdCluster may have."""
    await world.settle()
    world.end(Described({"size": 3}, "3.6.14-acme.1", 42))
    await world.settle()

    assert world.kube.live(ETCD_CLUSTERS, "c")["spec"]["version"] == "3.6.14"


async def test_an_existing_cluster_is_never_touched(world: World) -> None:
    metadata = {"namespace": "default", "name": "c"}
    world.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
    world.serve()
    before = world.kube.live(ETCD_CLUSTERS, "c")

    assert await world.settle() == 30.0

    assert world.condition()["reason"] == "ClusterExists"
    assert world.kube.live(ETCD_CLUSTERS, "c") == before
    assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]
    assert "succeeded" not in world.status


async def test_words_in_quotes_were_to_be_the_id_of_a_cluster_that_has_not_formed(
    world: World,
) -> None:
    metadata = {"namespace": "default", "name": "c"}
    world.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
    await world.settle()

    words = "set spec.replace.clusterID to its status.clusterID, once it has one; or create a"
    assert words in world.condition()["message"]


async def test_a_restore_that_has_succeeded_does_not_act_again(world: World) -> None:
    """If the cluster is deleted later, it must not come back by itself with old data."""
    await world.succeed()
    world.kube.remove(ETCD_CLUSTERS, "default", "c")
    world.kube.remove(JOBS, "default", "c-backup-d1")

    assert await world.settle() is None
    assert world.kube.find(ETCD_CLUSTERS, "c") is None


async def test_kubectl_waited_for_ever_for_a_restore_that_was_edited_once_it_was_done(
    world: World,
) -> None:
    """`kubectl wait` looks at the generation that a condition is about."""
    await world.succeed()
    before = world.condition()
    world.edit(SPEC | {"pod": {"nodeSelector": {"disk": "ssd"}}})
    assert await world.settle() is None

    told = world.condition()
    assert told["observedGeneration"] == world.status["observedGeneration"] == 2
    same = ("status", "reason", "lastTransitionTime")
    assert [told[key] for key in same] == [before[key] for key in same]
    calls = world.kube.calls.copy()
    await world.settle()
    assert world.kube.calls == calls, "once said it costs nothing"


async def test_a_restore_seemed_to_have_restored_what_was_named_only_after_it_was_done(
    world: World,
) -> None:
    """Nothing was, and `Complete` was about the edited spec."""
    await world.succeed()
    before = world.condition()["message"]
    for path in ("mybucket/another", "mybucket/a-third"):
        world.edit(SPEC | {"s3": S3 | {"path": path}})
        await world.settle()

    told = world.condition()["message"]
    assert told.startswith(f"{before}. The spec was edited after that, which has no effect")
    assert told.count("delete this EtcdRestore") == 1


async def test_an_edit_of_a_restore_that_coreos_had_carried_out_did_nothing_without_a_word(
    world: World,
) -> None:
    """It is there if the custom resource definitions were replaced and their objects stayed."""
    body = world.kube.live(ETCD_RESTORES, "c")
    world.kube.put(ETCD_RESTORES, body | {"status": {"succeeded": True}})
    assert await world.settle() is None

    told = world.condition()
    assert (told["status"], told["reason"]) == ("True", "Restored")
    assert told["message"] == "it had succeeded under the coreos operator"
    world.edit(SPEC | {"s3": S3 | {"path": "mybucket/another"}})
    await world.settle()
    assert "The spec was edited after that, which has no effect" in world.condition()["message"]


async def test_the_job_only_describes_the_backup(world: World) -> None:
    await world.settle()

    job = world.kube.live(JOBS, "c-backup-d1")
    told = order.parse(job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"])
    assert told.action == "describe"
    assert told.endpoints == ()
    assert job["metadata"]["ownerReferences"][0]["kind"] == "EtcdRestore"


async def test_a_missing_object_is_reported_while_the_restore_is_retried(world: World) -> None:
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


async def test_a_wait_for_an_unreachable_node_was_not_reported(world: World) -> None:
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42), kind="")
    for kind, name in ((JOBS, "c-backup-d1"), (PODS, "p-c-backup-d1")):
        body = world.kube.live(kind, name)
        body["metadata"]["deletionTimestamp"] = world.clock.rfc3339()
        world.kube.put(kind, body)
    world.clock.now += 60
    await world.settle()

    assert "kubectl delete pod p-c-backup-d1 " in world.condition()["message"]


async def test_a_job_whose_pod_was_gone_too_early_ended_the_restore_for_good(
    world: World,
) -> None:
    """Its node was drained between the end of the pod and the next look."""
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    world.kube.remove(PODS, "default", "p-c-backup-d1")
    before = world.kube.live(JOBS, "c-backup-d1")["metadata"]["uid"]
    await world.settle()

    assert "succeeded" not in world.status
    assert world.condition()["reason"] == "Reading"
    assert world.kube.live(JOBS, "c-backup-d1")["metadata"]["uid"] != before
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    assert world.kube.live(ETCD_CLUSTERS, "c")["spec"]["size"] == 3


async def test_a_job_of_another_owner_was_reported_without_a_remedy(world: World) -> None:
    metadata = {"namespace": "default", "name": "c-backup-d1"}
    world.kube.put(JOBS, {"metadata": metadata})

    assert await world.settle() == 30.0

    assert world.condition()["reason"] == "JobOfAnother"
    assert "delete it" in world.condition()["message"]
    assert world.kube.calls["delete Job"] == 0


async def test_an_edit_of_the_spec_starts_another_attempt(world: World) -> None:
    """The earlier Job has failed for good, and only knows the earlier spec."""
    await world.settle()
    world.end(Failure("NoClusterRecorded", "spec.s3.path: nobody knows"), kind="Failed")
    await world.settle()
    other = S3 | {"path": "mybucket/other"}
    world.edit(SPEC | {"s3": other})
    await world.settle()

    assert world.condition()["reason"] == "Reading"
    assert "succeeded" not in world.status
    world.end(Described(OLD, "3.7.3", 42), job="c-backup-d2")
    await world.settle()
    made = world.kube.live(ETCD_CLUSTERS, "c")
    assert made["spec"]["bootstrap"]["restore"]["s3"] == other


async def test_an_edit_while_the_api_server_refuses_does_not_end_the_restore(world: World) -> None:
    await world.settle()
    world.end(Failure("NoClusterRecorded", "spec.s3.path: nobody knows"), kind="Failed")
    await world.settle()
    world.edit(SPEC | {"s3": S3 | {"path": "mybucket/other"}})
    world.kube.failures["create Job"] = [Rejected("quota", status=403)]
    assert await world.settle() == 30.0
    await world.settle()

    assert world.condition()["reason"] == "Reading"


async def test_what_a_human_must_do_for_the_cluster_is_reported_on_the_restore_too(
    world: World,
) -> None:
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    blocked = {"type": "Blocked", "status": "True", "message": "claims hold the data of a deleted"}
    world.serve(conditions=[blocked])
    await world.settle()

    assert world.condition()["reason"] == "ClusterBlocked"
    assert world.condition()["message"].startswith("EtcdCluster c is blocked: claims hold")
    assert "claims hold the data" in world.condition()["message"]


async def test_a_recorded_spec_that_is_no_longer_accepted_was_waited_for_without_a_word(
    world: World,
) -> None:
    """Such as one with a version of etcd that this operator does not run any more."""
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    why = "spec.version: etcd 3.4.30 is not supported"
    refused = {"type": "Accepted", "status": "False", "message": why}
    world.serve(conditions=[refused], plan="nothing until the spec is fixed")
    await world.settle()

    assert world.condition()["reason"] == "ClusterBlocked"
    assert world.condition()["message"].endswith(f"its spec is not accepted: {why}")
    assert world.condition()["status"] == "False"


def secret_with(cluster: EtcdCluster, record: Bootstrap) -> Json:
    secret = start_secret(cluster, record, base64.b64encode(bytes(32)).decode())
    text = secret.pop("stringData")[BOOTSTRAP]
    secret["data"][BOOTSTRAP] = base64.b64encode(text.encode()).decode()
    return secret


async def begins_by(world: World, record: Bootstrap, **edits: Any) -> None:
    """The cluster is created from the manifest, edited, begins with this record, and serves."""
    await world.settle()
    world.end(Described(OLD, "3.7.3", 42))
    await world.settle()
    body = world.kube.live(ETCD_CLUSTERS, "c")
    world.kube.put(ETCD_CLUSTERS, body | {"spec": body["spec"] | edits})
    cluster = parse_cluster(body)
    own = replace(record, cluster_uid=cluster.uid)
    world.kube.put(SECRETS, secret_with(cluster, own))
    world.serve()
    await world.settle()


FIRST = records.first_attempt("uid", {"c-0": "https://c-0:2380"}, "3.7.3")
FILLED = records.restored(
    records.restoring(records.first_attempt("uid", {"c-0": "https://c-0:2380"}, "3.7.3"), size=3), 3
)
FOUND = records.adopted("uid", 0xAB, "3.7.3", 3)
BEGUN = {
    "the field was removed, and it began empty": (records.latch(FIRST), {}),
    "claims of the one before were adopted": (
        FOUND,
        {"retainedClaims": {"adopt": "uid-of-before"}},
    ),
    "the field was removed, and the Secret lost later": (FOUND, {"bootstrap": {}}),
}


@pytest.mark.parametrize(("record", "edits"), BEGUN.values(), ids=BEGUN)
async def test_a_cluster_not_created_from_the_backup_was_reported_as_restored(
    world: World, record: Bootstrap, edits: Json
) -> None:
    await begins_by(world, record, **edits)

    assert world.condition()["reason"] == "BegunOtherwise"
    assert "does not have the data of the backup" in world.condition()["message"]
    assert world.status["succeeded"] is False


async def test_a_cluster_created_from_the_backup_is_reported_as_restored(world: World) -> None:
    await begins_by(world, FILLED)

    assert world.status["succeeded"] is True


async def test_a_restored_cluster_whose_secret_was_lost_was_reported_as_not_restored(
    world: World,
) -> None:
    """The record that is rebuilt does not tell of the backup, and only an edit of the spec could
    have led past it. The message asked for another restore, over what had been written since."""
    await begins_by(world, FOUND)

    assert world.status["succeeded"] is True


class TestEditedOnceItsClusterWasMade:
    """The path was corrected while the volume was being filled from the one before. The cluster
    served with what nobody asked for any more, and `succeeded` was true."""

    OTHER: ClassVar = S3 | {"path": "mybucket/corrected"}

    async def make(self, world: World) -> None:
        await world.settle()
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

    @pytest.mark.parametrize("how", ["by place", "by name"])
    async def test_another_backup_was_reported_as_restored(self, world: World, how: str) -> None:
        await self.make(world)
        edited = SPEC | {"s3": self.OTHER}
        if how == "by name":
            edited = {"etcdCluster": {"name": "c"}, "backupRef": {"name": "corrected"}}
        world.edit(edited)
        await world.settle()
        told = world.condition()
        assert (told["reason"], "succeeded" in world.status) == ("BegunOtherwise", False)
        assert "starts from s3://mybucket/etcd.backup" in told["message"]
        assert "corrected" in told["message"]

        world.serve()
        await world.settle()
        assert world.status["succeeded"] is False

    async def test_the_same_path_in_another_store_was_named_as_if_it_were_the_same_backup(
        self, world: World
    ) -> None:
        await self.make(world)
        world.edit(SPEC | {"s3": S3 | {"endpoint": "https://elsewhere.example.com"}})
        await world.settle()

        told, path = world.condition(), "s3://mybucket/etcd.backup"
        assert told["reason"] == "BegunOtherwise"
        assert f"not from {path} at https://elsewhere.example.com" in told["message"]

    async def test_a_cluster_that_is_to_begin_without_a_backup_is_waited_for(
        self, world: World
    ) -> None:
        """Until it has formed, the field may come back."""
        await self.make(world)
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        del cluster["spec"]["bootstrap"]
        world.kube.put(ETCD_CLUSTERS, cluster)
        await world.settle()

        assert world.condition()["reason"] == "Restoring"

    async def test_it_goes_on_once_the_cluster_is_edited_too(self, world: World) -> None:
        await self.make(world)
        world.edit(SPEC | {"s3": self.OTHER})
        await world.settle()
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        cluster["spec"]["bootstrap"]["restore"]["s3"] = self.OTHER
        world.kube.put(ETCD_CLUSTERS, cluster)
        await world.settle()
        assert world.condition()["reason"] == "Restoring"

        world.serve()
        await world.settle()
        assert world.status["succeeded"] is True

    async def test_another_edit_changes_nothing(self, world: World) -> None:
        await self.make(world)
        world.edit(SPEC | {"pod": {"nodeSelector": {"disk": "ssd"}}})
        world.serve()
        await world.settle()

        assert world.status["succeeded"] is True

    async def test_a_restore_in_place_of_its_own_cluster_was_reported_as_done(
        self, world: World
    ) -> None:
        await self.make(world)
        world.serve()
        replaced = {"replace": {"clusterID": "00000000000000ab"}}
        world.edit(SPEC | replaced | {"s3": self.OTHER})
        await world.settle()

        assert world.condition()["reason"] == "Restoring"
        assert "succeeded" not in world.status


async def test_a_refused_cluster_is_reported(world: World) -> None:
    await world.settle()
    world.end(Described({"size": 99}, "3.7.3", 42))
    world.kube.failures["create EtcdCluster"] = [Rejected("spec.size: 1 to 7", status=422)]
    assert await world.settle() == 30.0

    assert "1 to 7" in world.condition()["message"]


async def test_a_read_refused_by_the_api_server_is_reported(world: World) -> None:
    world.kube.failures["get EtcdCluster"] = [Rejected("c is forbidden", status=403)]

    assert await world.settle() == 30.0
    assert world.condition()["reason"] == "Refused"
    assert "forbidden" in world.condition()["message"]

    await world.settle()
    assert world.condition()["reason"] == "Reading"


async def test_a_refusal_was_logged_again_every_half_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    refused = Rejected("c is forbidden", status=403)
    for times in (3, 1):
        world.kube.failures["get EtcdCluster"] = [refused] * times
        for _ in range(times):
            assert await world.settle() == 30.0
        await world.settle()
    said = [one.getMessage() for one in caplog.records]

    assert sum("forbidden" in one for one in said) == 2, "once each time that it begins"


async def test_a_job_that_the_api_server_fails_to_create_is_reported(world: World) -> None:
    """A webhook was down, and the status said nothing for days."""
    await fail_until_reported(world, "create Job")
    await world.settle()

    assert world.condition()["reason"] == "Reading"


async def test_a_namespace_that_is_being_deleted_does_not_fail_the_restore(world: World) -> None:
    words = "unable to create: namespace default is being terminated"
    world.kube.failures["create Job"] = [Rejected(words, status=403)]

    assert await world.settle() == 30.0
    assert not world.kube.live(ETCD_RESTORES, "c").get("status")


async def test_a_restore_with_another_name_than_its_cluster_is_refused(world: World) -> None:
    body = world.kube.live(ETCD_RESTORES, "c")
    body["spec"] = SPEC | {"etcdCluster": {"name": "other"}}
    world.kube.put(ETCD_RESTORES, body)
    await world.settle()

    assert world.condition()["reason"] == "InvalidSpec"
    assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]


BY_NAME: Json = {"etcdCluster": {"name": "c"}, "backupRef": {"name": "nightly-1"}}
STORED = Place("S3", "mybucket", "a/nightly_1", "aws", "http://minio:9000")


def backup(**status: Any) -> Json:
    told = {"succeeded": True, "location": "s3://mybucket/a/nightly_1"} | status
    return {
        "metadata": {"namespace": "default", "name": "nightly-1", "uid": "uid-b"},
        "spec": {"clusterRef": {"name": "c"}, "storageType": "S3", "s3": S3},
        "status": told,
    }


class TestABackupByName:
    @pytest.fixture
    def world(self) -> World:
        world = World()
        body = world.kube.live(ETCD_RESTORES, "c")
        world.kube.put(ETCD_RESTORES, body | {"spec": BY_NAME})
        return world

    def jobs(self, world: World) -> list[str]:
        return [name for kind, *_, name in world.kube.objects if kind == JOBS]

    def told(self, world: World) -> Place:
        job = world.kube.live(JOBS, "c-backup-d1")
        environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
        return order.parse(environment[0]["value"]).store

    async def test_the_cluster_is_created_from_the_files_of_the_backup(self, world: World) -> None:
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        assert self.told(world) == STORED
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

        assert parse_cluster(world.kube.live(ETCD_CLUSTERS, "c")).restore == STORED

    async def test_the_store_column_shows_where_the_backup_is_stored(self, world: World) -> None:
        await world.settle()
        assert "backupStorageType" not in world.status
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        assert world.status["backupStorageType"] == "S3"

        world.kube.remove(ETCD_BACKUPS, "default", "nightly-1")
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()
        world.serve()
        await world.settle()
        assert world.status["succeeded"] is True
        assert world.status["backupStorageType"] == "S3"

    async def test_the_store_column_follows_an_edit(self, world: World) -> None:
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        world.edit({**BY_NAME, "backupRef": {"name": "another"}})
        await world.settle()
        assert "backupStorageType" not in world.status

    @pytest.mark.parametrize("then", ["deleted", "changed", "failed"])
    async def test_a_backup_that_changes_during_the_restore_does_not_affect_it(
        self, world: World, then: str
    ) -> None:
        """The Job's order is its record, and after that the cluster's own spec."""
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        if then == "deleted":
            world.kube.remove(ETCD_BACKUPS, "default", "nightly-1")
        elif then == "changed":
            other = backup(location="s3://another/b")
            other["spec"]["s3"] = S3 | {"path": "another/b"}
            world.kube.put(ETCD_BACKUPS, other)
        else:
            world.kube.put(ETCD_BACKUPS, backup(succeeded=False, location="", reason="full"))
        await world.settle()
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

        assert self.jobs(world) == ["c-backup-d1"]
        assert parse_cluster(world.kube.live(ETCD_CLUSTERS, "c")).restore == STORED

    @pytest.mark.parametrize(
        ("found", "status", "words"),
        [
            (None, "False", "EtcdBackup nightly-1 does not exist"),
            ({"succeeded": None}, "Unknown", "EtcdBackup nightly-1 to succeed"),
            ({"succeeded": False, "reason": "the store is full"}, "False", "the store is full"),
            ({"location": ""}, "False", "status.location"),
        ],
    )
    async def test_a_missing_backup_is_reported_and_nothing_is_created(
        self, world: World, found: Any, status: str, words: str
    ) -> None:
        if found is not None:
            world.kube.put(ETCD_BACKUPS, backup(**found))

        assert await world.settle() == AWAIT_SECONDS

        told = world.condition()
        assert (told["reason"], told["status"]) == ("BackupAwaited", status)
        assert told["message"].startswith("spec.backupRef.name: ")
        assert words in told["message"]
        assert not self.jobs(world)
        assert "succeeded" not in world.status
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        assert self.told(world) == STORED

    async def test_an_existing_cluster_is_reported_before_a_missing_backup(
        self, world: World
    ) -> None:
        """No backup should be needed to learn that nothing is done with it."""
        metadata = {"namespace": "default", "name": "c"}
        world.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
        await world.settle()

        assert world.condition()["reason"] == "ClusterExists"

    async def test_a_backup_in_another_namespace_is_not_found(self, world: World) -> None:
        other = backup()
        other["metadata"]["namespace"] = "other"
        world.kube.put(ETCD_BACKUPS, other)
        await world.settle()

        assert "does not exist" in world.condition()["message"]

    async def test_a_job_that_names_no_store_is_unreadable(self, world: World) -> None:
        """The EtcdBackup may have stored another backup by now."""
        world.kube.put(ETCD_BACKUPS, backup())
        await world.settle()
        job = world.kube.live(JOBS, "c-backup-d1")
        job["spec"]["template"]["spec"]["containers"][0]["env"] = []
        world.kube.put(JOBS, job)
        world.end(Described(OLD, "3.7.3", 42))
        await world.settle()

        assert world.condition()["reason"] == "JobUnreadable"
        assert world.kube.find(ETCD_CLUSTERS, "c") is None


class TestAPrivateRegistry:
    """The pod that reads the manifest had no registry credentials, and there was no way to give it
    any."""

    OWN: ClassVar[Json] = {
        "imagePullSecrets": [{"name": "own"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "own", "operator": "Exists"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }

    async def pod(self, spec: Json, of_backup: Json | None = None) -> Json:
        world = World()
        body = world.kube.live(ETCD_RESTORES, "c")
        world.kube.put(ETCD_RESTORES, body | {"spec": spec})
        stored = backup()
        stored["spec"]["pod"] = of_backup or {}
        world.kube.put(ETCD_BACKUPS, stored)
        await world.settle()
        pod: Json = world.kube.live(JOBS, "c-backup-d1")["spec"]["template"]["spec"]
        return pod

    def is_own(self, pod: Json) -> bool:
        [container] = pod["containers"]
        said = {key: pod.get(key) for key in self.OWN if key != "resources"}
        return said | {"resources": container["resources"]} == self.OWN

    @pytest.mark.parametrize("spec", [SPEC, BY_NAME], ids=["by place", "by name"])
    async def test_a_restore_sets_the_placement_and_pull_secrets_of_its_pod(
        self, spec: Json
    ) -> None:
        others = {key: [] if isinstance(value, list) else {} for key, value in self.OWN.items()}

        assert self.is_own(await self.pod({**spec, "pod": self.OWN}, others))

    async def test_omitted_settings_are_those_of_the_named_backup(self) -> None:
        assert self.is_own(await self.pod(BY_NAME, self.OWN))
        partly = {"imagePullSecrets": [{"name": "another"}]}
        pod = await self.pod({**BY_NAME, "pod": partly}, self.OWN)
        assert pod["imagePullSecrets"] == [{"name": "another"}]
        assert pod["nodeSelector"] == {"disk": "ssd"}

    async def test_the_labels_of_the_backups_pods_are_not_inherited(self) -> None:
        """They tell the user's own budgets and policies whose pod it is."""
        world = World()
        world.kube.put(ETCD_RESTORES, world.kube.live(ETCD_RESTORES, "c") | {"spec": BY_NAME})
        stored = backup()
        stored["spec"]["pod"] = {"labels": {"team": "a"}, "annotations": {"team": "a"}}
        world.kube.put(ETCD_BACKUPS, stored)
        await world.settle()

        described = world.kube.live(JOBS, "c-backup-d1")["spec"]["template"]["metadata"]
        assert "team" not in {*described["labels"], *described["annotations"]}

    async def test_an_invalid_placement_is_refused_with_its_field(self) -> None:
        world = World()
        world.edit({**BY_NAME, "pod": {"tolerations": ["all"]}})
        await world.settle()

        [accepted] = [one for one in world.status["conditions"] if one["type"] == "Accepted"]
        assert "spec.pod.tolerations[0]: must be an object" in accepted["message"]


class TestInPlace:
    """A cluster with that name that the restore has not created."""

    ID = "00000000000000ab"
    NEW_ID = "00000000000000cd"
    SSD: ClassVar = {"nodeSelector": {"disk": "ssd"}}

    @pytest.fixture
    def world(self) -> World:
        world = World()
        metadata = {"namespace": "default", "name": "c"}
        world.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
        world.serve()
        return world

    def confirm(self, world: World, named: str = ID) -> None:
        world.edit(SPEC | {"replace": {"clusterID": named}})

    def tell(self, world: World, state: str, message: str = "words", **said: Any) -> None:
        """What the cluster reports; without a generation once the restored one has taken over."""
        restore = {"uid": "uid-r", "generation": 2, "state": state, "message": message} | said
        its_id = self.ID if restore["generation"] else self.NEW_ID
        told = {key: one for key, one in restore.items() if one is not None}
        world.serve(restore=told, clusterID=its_id)

    async def test_without_confirmation_it_waits_and_names_the_id_and_the_field(
        self, world: World
    ) -> None:
        assert await world.settle() == 30.0

        told = world.condition()
        assert told["reason"] == "ClusterExists"
        assert f'set spec.replace.clusterID to "{self.ID}"' in told["message"]

    @pytest.mark.parametrize("spec", [SPEC, BY_NAME], ids=["by place", "by name"])
    async def test_the_store_column_is_set(self, world: World, spec: Json) -> None:
        world.kube.put(ETCD_BACKUPS, backup())
        world.edit({**spec, "replace": {"clusterID": self.ID}})
        await world.settle()
        assert world.status["backupStorageType"] == "S3"

    async def test_the_id_of_another_cluster_is_refused(self, world: World) -> None:
        self.confirm(world, "00000000000000cd")
        assert await world.settle() == 30.0

        told = world.condition()
        assert told["reason"] == "ClusterChanged"
        assert "names 00000000000000cd" in told["message"]
        assert self.ID in told["message"]
        assert "succeeded" not in world.status

    async def test_a_confirmed_replacement_does_not_create_a_missing_cluster(
        self, world: World
    ) -> None:
        world.kube.remove(ETCD_CLUSTERS, "default", "c")
        self.confirm(world)
        await world.settle()

        assert world.condition()["reason"] == "ClusterNotFound"
        assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]

    async def test_the_report_of_the_cluster_is_passed_on(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Working", "waiting for Job c-restore")
        assert await world.settle() == 2.0

        told = world.condition()
        assert (told["reason"], told["status"]) == ("Restoring", "Unknown")
        assert "Job c-restore" in told["message"]

    @pytest.mark.parametrize("begun", [True, False])
    async def test_a_cluster_whose_spec_had_become_wrong_seemed_to_be_restored(
        self, world: World, begun: bool
    ) -> None:
        """Nothing was done, and its pods may be stopped by then."""
        self.confirm(world)
        if begun:
            self.tell(world, "Working", "waiting for pods c-0 to stop")
        why = "spec.etcd.quotaBackend: must be a size"
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        refused = {"type": "Accepted", "status": "False", "message": why}
        cluster["status"]["conditions"] = [refused]
        world.kube.put(ETCD_CLUSTERS, cluster)
        assert await world.settle() == 2.0

        told = world.condition()
        assert (told["reason"], told["status"]) == ("Held", "False")
        assert told["message"].endswith(f"its spec is not accepted: {why}")

        world.clock.now += GIVE_UP_SECONDS
        assert await world.settle() is None
        assert world.status["succeeded"] is False

    async def test_the_right_id_is_not_refused_before_the_cluster_was_observed(
        self, world: World
    ) -> None:
        self.confirm(world)
        await world.settle()

        assert world.condition()["reason"] == "Restoring"
        assert world.condition()["message"].startswith(
            "EtcdCluster c has not begun the restore yet"
        )

    async def test_the_reason_for_waiting_is_reported_and_the_restore_is_not_over(
        self, world: World
    ) -> None:
        self.confirm(world)
        self.tell(world, "Held", "all 7 are used")
        assert await world.settle() == 2.0

        assert world.condition()["message"] == "all 7 are used"
        assert "succeeded" not in world.status

    async def test_an_unconfirmed_restore_brought_old_data_back_months_later(
        self, world: World
    ) -> None:
        """The cluster had been deleted for good."""
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS
        assert await world.settle() is None
        assert world.status["succeeded"] is False
        assert "given up" in world.status["reason"]
        world.kube.remove(ETCD_CLUSTERS, "default", "c")

        assert await world.settle() is None
        assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]
        world.edit(SPEC | {"pod": {"nodeSelector": {"disk": "ssd"}}})
        await world.settle()
        assert world.condition()["reason"] == "Reading"

    async def test_an_unconfirmed_restore_brought_old_data_back_when_the_operator_was_back(
        self, world: World
    ) -> None:
        """The cluster had been deleted for good while there was no operator."""
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS
        world.kube.remove(ETCD_CLUSTERS, "default", "c")

        assert await world.settle() is None
        assert world.status["succeeded"] is False
        assert world.status["reason"].startswith("there was an EtcdCluster c, which is gone by now")
        assert not [name for kind, *_, name in world.kube.objects if kind == JOBS]

    @pytest.mark.parametrize("waits", ["unconfirmed", "Held"])
    async def test_a_restore_that_began_to_wait_while_a_clock_was_ahead_waited_until_that_time(
        self, world: World, waits: str
    ) -> None:
        """And for a day more: it replaced newer data a month later."""
        if waits == "Held":
            self.confirm(world)
            self.tell(world, "Held", "all 7 are used")
        real = world.clock.now
        world.clock.now += 30 * GIVE_UP_SECONDS
        await world.settle()
        world.clock.now = real + GIVE_UP_SECONDS

        assert await world.settle() is None
        assert "given up" in world.status["reason"]
        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None

    async def test_an_unconfirmed_restore_begins_once_the_cluster_is_gone_within_the_day(
        self, world: World
    ) -> None:
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        world.kube.remove(ETCD_CLUSTERS, "default", "c")
        await world.settle()
        assert world.condition()["reason"] == "Reading"
        world.clock.now += 2 * GIVE_UP_SECONDS
        await world.settle()

        assert "succeeded" not in world.status

    async def test_a_held_restore_replaced_newer_data_months_later(self, world: World) -> None:
        """A cluster of seven became one of five, and nobody remembered the restore."""
        self.confirm(world)
        self.tell(world, "Held", "all 7 are used")
        await world.settle()
        assert replacing(world.kube.live(ETCD_RESTORES, "c"))
        world.clock.now += GIVE_UP_SECONDS
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert world.status["reason"].startswith("all 7 are used. This has not changed for a day")

    @pytest.mark.parametrize("waits", ["Working", "unseen", "ClusterNotFound", "ClusterChanged"])
    async def test_a_restore_that_waited_in_vain_replaced_newer_data_months_later(
        self, world: World, waits: str
    ) -> None:
        """No node had room for its Job's pod, its EtcdBackup had not succeeded, or the cluster with
        that ID was deleted and then created again with its claims."""
        self.confirm(world, self.ID if waits != "ClusterChanged" else "00000000000000cd")
        if waits == "ClusterNotFound":
            world.kube.remove(ETCD_CLUSTERS, "default", "c")
        if waits == "Working":
            self.tell(world, waits, "waiting for Job c-restore: 0/3 nodes are available")
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        await world.settle()
        assert replacing(world.kube.live(ETCD_RESTORES, "c"))
        world.clock.now += 1
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert (
            "This has not changed for a day, so this EtcdRestore is given up"
            in world.status["reason"]
        )

    async def test_a_restore_that_waited_for_a_node_was_never_given_up(self, world: World) -> None:
        """Whenever a node was added or removed the message changed, and the day began again."""
        self.confirm(world)
        for hour in range(25):
            told = f"waiting for Job c-restore: 0/{3 + hour % 2} nodes are available"
            self.tell(world, "Working", told)
            assert await world.settle() == (2.0 if hour < 24 else None)
            world.clock.now += 3600

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None

    async def test_a_restore_edited_while_its_cluster_was_not_observed_was_never_given_up(
        self, world: World
    ) -> None:
        """The spec of the EtcdCluster was refused, and its status stays as it was until that
        ends."""
        self.confirm(world)
        self.tell(world, "Working", "waiting for Job c-restore")
        await world.settle()
        world.edit(SPEC | {"pod": self.SSD, "replace": {"clusterID": self.ID}})
        assert await world.settle() == 2.0
        world.clock.now += GIVE_UP_SECONDS - 1
        assert await world.settle() == 2.0
        world.clock.now += 1
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert world.status["reason"].startswith("the cluster has not seen the edited spec")

    @pytest.mark.parametrize("waits", ["Held", "Working"])
    async def test_each_short_outage_of_the_api_server_restarted_the_day_of_waiting(
        self, world: World, waits: str
    ) -> None:
        """Something broke for a minute every night, and the restore was never given up."""
        self.confirm(world)
        self.tell(world, waits, "all 7 are used")
        for _ in range(3):
            assert await world.settle() == 2.0
            world.clock.now += GIVE_UP_SECONDS // 3
            world.kube.failures["get EtcdCluster"] = [Rejected("c is forbidden", status=403)]
            assert await world.settle() == 30.0
            assert world.condition()["reason"] == "Refused"
        assert await world.settle() == 2.0
        assert await world.settle() is None

        assert replacing(world.kube.live(ETCD_RESTORES, "c")) is None
        assert world.status["reason"].startswith("all 7 are used. This has not changed for a day")

    async def test_a_different_reason_to_wait_starts_another_day(self, world: World) -> None:
        self.confirm(world, "00000000000000cd")
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        self.tell(world, "Held", "all 7 are used")
        for _ in range(3):
            await world.settle()
            world.clock.now += GIVE_UP_SECONDS // 3 - 1

        assert replacing(world.kube.live(ETCD_RESTORES, "c"))

    async def test_an_edit_after_giving_up_is_tried(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Held", "all 7 are used")
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS
        await world.settle()
        world.edit(SPEC | {"pod": self.SSD, "replace": {"clusterID": self.ID}})
        self.tell(world, "Held", "all 7 are used", generation=3)

        for _ in range(3):
            assert await world.settle() == 2.0
        assert replacing(world.kube.live(ETCD_RESTORES, "c"))

    async def test_work_after_the_takeover_is_not_given_up(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Working", "c-3 to serve the restored data", generation=None)
        await world.settle()
        world.clock.now += 2 * GIVE_UP_SECONDS

        assert await world.settle() == 2.0
        assert "succeeded" not in world.status

    async def test_an_edit_starts_another_day(self, world: World) -> None:
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        world.edit(SPEC | {"pod": {"nodeSelector": {"disk": "ssd"}}})
        await world.settle()
        world.clock.now += GIVE_UP_SECONDS - 1
        assert await world.settle() == 30.0
        assert "succeeded" not in world.status

    async def test_a_restore_held_after_the_takeover_is_not_given_up(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Held", "spec.paused is true", generation=None)
        await world.settle()
        world.clock.now += 2 * GIVE_UP_SECONDS

        assert await world.settle() == 2.0
        assert "succeeded" not in world.status

    async def test_a_failure_ends_the_restore_and_reports_what_is_left(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Failed", "refused: etcd's hash")
        assert await world.settle() is None

        assert world.status["succeeded"] is False
        assert "keeps the data that it has" in world.status["reason"]

    async def test_a_failure_of_an_earlier_spec_does_not_end_the_restore(
        self, world: World
    ) -> None:
        self.confirm(world)
        self.tell(world, "Failed", generation=1)
        assert await world.settle() == 2.0

        assert "succeeded" not in world.status

    async def test_a_failure_after_the_takeover_is_not_the_end(self, world: World) -> None:
        """There is no way back then, but there may be a way forward."""
        self.confirm(world)
        self.tell(world, "Failed", "lost its volume before it served", generation=None)
        assert await world.settle() == 2.0

        assert "succeeded" not in world.status

    async def test_a_restore_succeeds_once_the_cluster_serves(self, world: World) -> None:
        self.confirm(world)
        source = "s3://mybucket/etcd.backup"
        self.tell(world, "Done", generation=None, source=source)
        cluster = world.kube.live(ETCD_CLUSTERS, "c")
        cluster["status"]["conditions"] = [{"type": "Available", "status": "False"}]
        world.kube.put(ETCD_CLUSTERS, cluster)
        assert await world.settle() == 2.0
        cluster["status"]["conditions"] = [{"type": "Available", "status": "True"}]
        world.kube.put(ETCD_CLUSTERS, cluster)

        assert await world.settle() is None
        assert world.status["succeeded"] is True
        assert "00000000000000cd" in world.condition()["message"]

    @pytest.mark.parametrize("spec", [SPEC | {"s3": S3 | {"path": "mybucket/corrected"}}, BY_NAME])
    async def test_a_backup_that_was_named_only_after_the_takeover_was_reported_as_restored(
        self, world: World, spec: Json
    ) -> None:
        """The first one proved to be the wrong one as soon as its data was there."""
        world.kube.put(ETCD_BACKUPS, backup())
        self.confirm(world)
        await world.settle()
        world.edit(spec | {"replace": {"clusterID": self.ID}})
        source = "s3://mybucket/etcd.backup"
        told: Json = {"generation": None, "source": source}
        self.tell(world, "Working", **told)
        await world.settle()
        assert world.condition()["reason"] == "BegunOtherwise"
        assert source in world.condition()["message"]
        assert "succeeded" not in world.status

        self.tell(world, "Done", **told)
        await world.settle()
        assert world.status["succeeded"] is False

    async def test_the_end_of_one_takeover_does_not_count_for_the_next(self, world: World) -> None:
        """Its ID was named when the first one had just come to its end."""
        self.confirm(world, self.NEW_ID)
        self.tell(world, "Done", generation=None, source="s3://mybucket/another")
        assert await world.settle() == 2.0

        assert world.condition()["reason"] == "Restoring"
        assert "has not begun the restore yet" in world.condition()["message"]

    async def test_the_result_of_another_restore_does_not_count(self, world: World) -> None:
        self.confirm(world)
        self.tell(world, "Done", uid="uid-other", generation=None)
        await world.settle()

        assert "succeeded" not in world.status

    @pytest.mark.parametrize("named", ["", "xyz", "0" * 17, "ab cd"])
    async def test_an_invalid_id_is_refused(self, world: World, named: str) -> None:
        self.confirm(world, named)
        await world.settle()

        assert world.condition()["reason"] == "InvalidSpec"
