"""What a pod waits for, in words."""

from __future__ import annotations

import pytest

from etcd_operator.trouble import GRACE_SECONDS, SETUP_SECONDS, trouble

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
OLD = GRACE_SECONDS + 1


def pod(status=None, node=None, **metadata):
    return {
        "metadata": {"name": "a-0", **metadata},
        "spec": {"nodeName": node},
        "status": status or {},
    }


def said(status=None, claim=None, age=OLD, node=None, **metadata):
    return trouble(pod(status, node, **metadata), claim, age, NOW)


def waiting(reason, message="", name="etcd", image="quay.io/coreos/etcd:v9", **more):
    return {
        "containerStatuses": [
            {
                "name": name,
                "image": image,
                "state": {"waiting": {"reason": reason, "message": message}},
                **more,
            }
        ]
    }


UNSCHEDULABLE = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu.",
        }
    ]
}


def test_unschedulable_in_the_words_of_the_scheduler():
    assert said(UNSCHEDULABLE) == (
        "cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu."
    )


@pytest.mark.parametrize(
    "status", [UNSCHEDULABLE, waiting("ErrImagePull"), waiting("CreateContainerConfigError")]
)
def test_within_the_grace_all_is_as_expected(status):
    assert said(status, age=GRACE_SECONDS - 1) == ""
    assert said(status)


@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"]
)
def test_a_missing_image_is_named(reason):
    assert "image quay.io/coreos/etcd:v9 cannot be had" in said(waiting(reason))


def test_the_kubelet_alternates_and_the_words_do_not():
    """Each change of words is a write of the status."""
    assert said(waiting("ImagePullBackOff")) == said(waiting("ErrImagePull"))


def test_a_missing_image_of_start():
    status = {"initContainerStatuses": waiting("ErrImagePull", name="start")["containerStatuses"]}
    assert "cannot be had" in said(status)


def test_a_configuration_error_in_the_kubelets_words():
    words = said(waiting("CreateContainerConfigError", 'secret "x" not found'))
    assert words == 'container etcd cannot be made: secret "x" not found'


def test_a_crash_loop_with_exit_code_and_the_last_words():
    status = waiting(
        "CrashLoopBackOff",
        restartCount=4,
        lastState={"terminated": {"exitCode": 1, "message": "first\nopen etcd.yaml: no such file"}},
    )
    assert said(status, age=1) == (
        "container etcd keeps failing: exit code 1: open etcd.yaml: no such file"
    )


def test_killed_for_memory():
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = waiting("CrashLoopBackOff", restartCount=1, lastState=ended)
    assert said(status) == "container etcd keeps failing: exit code 137 (OOMKilled)"


def test_between_two_restarts_the_words_stay():
    ended = {"exitCode": 1, "message": "boom"}
    looping = waiting("CrashLoopBackOff", restartCount=2, lastState={"terminated": ended})
    down = {
        "containerStatuses": [{"name": "etcd", "restartCount": 2, "state": {"terminated": ended}}]
    }
    assert said(looping) == said(down) == "container etcd keeps failing: exit code 1: boom"


def test_a_first_end_is_no_loop_and_a_done_init_container_no_failure():
    once = {"containerStatuses": [{"name": "etcd", "state": {"terminated": {"exitCode": 1}}}]}
    done = {"initContainerStatuses": [{"name": "start", "state": {"terminated": {"exitCode": 0}}}]}
    assert said(once) == said(done) == ""


def claim(phase="Pending", **spec):
    return {"metadata": {"name": "data-a-0"}, "spec": spec, "status": {"phase": phase}}


def test_no_storage_class_at_all():
    words = said(UNSCHEDULABLE, claim())
    assert words == (
        "claim data-a-0 has no storage class and the cluster has no default one: set "
        "persistentVolumeClaimSpec.storageClassName or mark a default"
    )


@pytest.mark.parametrize("spec", [{"storageClassName": "fast"}, {"storageClassName": ""}])
def test_with_a_class_the_scheduler_knows_better(spec):
    assert "cannot be scheduled" in said(UNSCHEDULABLE, claim(**spec))


@pytest.mark.parametrize(
    ("chosen", "words"), [("nope", "of storage class nope"), ("", "that was made by hand")]
)
def test_a_class_that_provides_nothing(chosen, words):
    """The scheduler's own words for it end in `not found`, without saying what."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    }
    said_of_it = said({"conditions": [condition]}, claim(storageClassName=chosen))
    assert said_of_it == f"claim data-a-0 waits for a volume {words}, and none is provided"


def test_what_preemption_would_do_is_left_out():
    message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: x"
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    assert said({"conditions": [condition]}) == (
        "cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_a_bound_claim_is_no_trouble_and_a_lost_one_is():
    assert said(claim=claim("Bound")) == ""
    assert said(claim=claim("Lost", storageClassName="x")) == "claim data-a-0 has lost its volume"


def test_a_node_that_does_not_answer():
    assert said({"phase": "Unknown"}, node="node-1") == "node node-1 does not answer"
    assert said({"reason": "NodeLost"}, node="node-1", age=0) == "node node-1 does not answer"


def test_a_stop_that_nobody_confirms():
    overdue = said(node="node-1", deletionTimestamp="2025-12-31T23:59:00Z")
    assert overdue == "it was deleted and node node-1 has not confirmed that it stopped"
    assert said(node="node-1", deletionTimestamp="2026-01-01T00:00:20Z") == ""


def test_evicted():
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
    assert said(status, age=0) == "failed: Evicted The node was low on memory."


def test_volumes_that_do_not_mount_after_a_longer_grace():
    status = {"phase": "Pending", **waiting("PodInitializing"), "initContainerStatuses": []}
    assert said(status, age=SETUP_SECONDS - 1) == ""
    assert "not set up yet" in said(status, age=SETUP_SECONDS + 1)
    status["initContainerStatuses"] = [{"name": "start", "state": {"running": {}}}]
    assert said(status, age=SETUP_SECONDS + 1) == ""


def test_words_are_bounded():
    assert len(said(waiting("CreateContainerError", "x" * 5000))) == 300


def test_nothing_in_the_words_changes_by_itself():
    """Restart counts and times would be a status write each."""
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}
    few = waiting("CrashLoopBackOff", restartCount=1, lastState=ended)
    many = waiting("CrashLoopBackOff", restartCount=99, lastState=ended)
    assert said(few) == said(many, age=10_000)
