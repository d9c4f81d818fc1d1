"""An EtcdRestore recreates a deleted cluster, and leaves an existing one alone."""

from __future__ import annotations

from etcd_operator.kube.api import ETCD_CLUSTERS, ETCD_RESTORES, JOBS, PODS, Rejected
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.stores import Store as Place
from etcd_stateful.backup import order
from etcd_stateful.backup.outcome import Described, Failure
from unit.backup_controllers.restore.one_restore import OLD, S3, SPEC, World


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
