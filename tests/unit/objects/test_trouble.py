"""The messages about why a pod does not run."""

from __future__ import annotations

import pytest

from etcd_operator.objects.termination_message import cause, recognise
from etcd_operator.objects.trouble import (
    GRACE_SECONDS,
    SETUP_SECONDS,
    is_crowded_out,
    is_image_missing,
    is_node_gone,
    trouble,
)
from etcd_operator.timestamps import rfc3339

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
OLD = GRACE_SECONDS + 1


def pod(status=None, node=None, age=OLD, **metadata):
    return {
        "metadata": {"name": "a-0", "creationTimestamp": rfc3339(NOW - age), **metadata},
        "spec": {"nodeName": node},
        "status": status or {},
    }


def said(status=None, claim=None, age=OLD, node=None, **metadata):
    return trouble(pod(status, node, age, **metadata), claim, NOW)


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


def test_an_unschedulable_pod_is_reported_with_the_message_of_the_scheduler():
    assert said(UNSCHEDULABLE) == (
        "cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_a_pod_with_scheduling_gates_names_them():
    gated = pod({"conditions": [{"type": "PodScheduled", "status": "False"}]})
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}, {"name": "example.com/b"}]
    words = trouble(gated, None, NOW)
    assert words == (
        "held back by scheduling gates, until they are removed: example.com/quota, example.com/b"
    )
    assert trouble(gated, None, NOW - OLD + GRACE_SECONDS - 1) == ""


@pytest.mark.parametrize(
    "status", [UNSCHEDULABLE, waiting("ErrImagePull"), waiting("CreateContainerConfigError")]
)
def test_nothing_is_reported_within_the_grace_period(status):
    assert said(status, age=GRACE_SECONDS - 1) == ""
    assert said(status)


@pytest.mark.parametrize(
    "reason",
    [
        "ImagePullBackOff",
        "ErrImagePull",
        "RegistryUnavailable",
        "SignatureValidationFailed",
        "ErrImageNeverPull",
        "InvalidImageName",
    ],
)
def test_a_missing_image_is_named(reason):
    assert "image quay.io/coreos/etcd:v9 cannot be pulled" in said(waiting(reason))


def test_the_message_is_the_same_while_the_kubelet_alternates():
    """Each change of the message is a write of the status."""
    assert said(waiting("ImagePullBackOff")) == said(waiting("ErrImagePull"))


@pytest.mark.parametrize("reason", ["RegistryUnavailable", "SignatureValidationFailed"])
def test_an_image_that_cri_o_could_not_pull_passed_for_a_volume_that_is_not_set_up(reason):
    """Between two back-offs. And for that moment the image counted as there."""
    status = waiting(reason) | {"phase": "Pending"}

    assert said(status, age=SETUP_SECONDS + 1) == said(waiting("ImagePullBackOff"))
    assert is_image_missing(status["containerStatuses"][0])


def test_an_image_that_cannot_be_inspected_is_reported_with_the_message_of_the_kubelet():
    words = said(waiting("ImageInspectError", 'Failed to inspect image "etcd:v9": no space'))
    assert words == 'container etcd cannot be created: Failed to inspect image "etcd:v9": no space'


def test_a_missing_image_of_start_is_named():
    status = {"initContainerStatuses": waiting("ErrImagePull", name="start")["containerStatuses"]}
    assert "cannot be pulled" in said(status)


def test_a_configuration_error_is_reported_with_the_message_of_the_kubelet():
    words = said(waiting("CreateContainerConfigError", 'secret "x" not found'))
    assert words == 'container etcd cannot be created: secret "x" not found'


def test_a_crash_loop_is_reported_with_exit_code_and_last_message():
    status = waiting(
        "CrashLoopBackOff",
        restartCount=4,
        lastState={"terminated": {"exitCode": 1, "message": "first\nopen etcd.yaml: no such file"}},
    )
    assert said(status, age=1) == (
        "container etcd keeps failing: exit code 1: open etcd.yaml: no such file"
    )


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("etcd", "; raise spec.pod.resources.limits.memory"),
        ("start", "; raise spec.pod.resources.limits.memory"),
        ("injected-by-admission", ""),
    ],
)
def test_a_container_killed_for_memory_was_reported_without_the_field_to_raise(name, advice):
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = waiting("CrashLoopBackOff", name=name, restartCount=1, lastState=ended)
    assert said(status) == f"container {name} keeps failing: exit code 137 (OOMKilled){advice}"


def test_between_two_restarts_the_message_stays():
    ended = {"exitCode": 1, "message": "boom"}
    looping = waiting("CrashLoopBackOff", restartCount=2, lastState={"terminated": ended})
    down = {
        "containerStatuses": [{"name": "etcd", "restartCount": 2, "state": {"terminated": ended}}]
    }
    assert said(looping) == said(down) == "container etcd keeps failing: exit code 1: boom"


def test_a_first_exit_and_a_finished_init_container_are_not_reported():
    once = {"containerStatuses": [{"name": "etcd", "state": {"terminated": {"exitCode": 1}}}]}
    done = {"initContainerStatuses": [{"name": "start", "state": {"terminated": {"exitCode": 0}}}]}
    assert said(once) == said(done) == ""


def claim(phase="Pending", **spec):
    return {"metadata": {"name": "data-a-0"}, "spec": spec, "status": {"phase": phase}}


def test_a_cluster_without_any_storage_class_is_reported():
    words = said(UNSCHEDULABLE, claim())
    assert words == (
        "claim data-a-0 has no storage class and Kubernetes has no default one: mark a "
        "StorageClass as the default; or, if the cluster has no data yet, delete the EtcdCluster "
        "and its claims, and create it again with "
        "spec.pod.persistentVolumeClaimSpec.storageClassName"
    ), "a cluster that grows has data"


@pytest.mark.parametrize("spec", [{"storageClassName": "fast"}, {"storageClassName": ""}])
def test_with_a_storage_class_the_message_of_the_scheduler_is_used(spec):
    assert "cannot be scheduled" in said(UNSCHEDULABLE, claim(**spec))


MISTYPED = (
    ". If there is no such class, create it; or, if the cluster has no data yet, delete the "
    "EtcdCluster and its claims, and create it again with another "
    "spec.pod.persistentVolumeClaimSpec.storageClassName"
)


@pytest.mark.parametrize(
    ("chosen", "words", "way_out"),
    [("nope", "of storage class nope", MISTYPED), ("", "that was created by hand", "")],
)
def test_a_storage_class_that_provisions_nothing_is_reported(chosen, words, way_out):
    """The scheduler's own message for it ends in `not found`, without saying what. Nothing said
    what to do about a mistyped class, which no edit can correct."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    }
    said_of_it = said({"conditions": [condition]}, claim(storageClassName=chosen))
    why = "none is provisioned: kubectl describe pvc data-a-0 says why"
    assert said_of_it == f"claim data-a-0 waits for a volume {words}, and {why}{way_out}"


@pytest.mark.parametrize("then", ["", "no new claims to deallocate, "])
def test_the_scheduler_s_message_about_preemption_is_left_out(then):
    """Of Kubernetes 1.34 and newer a part of it was left."""
    message = f"0/1 nodes are available: 1 Insufficient cpu. {then}preemption: 0/1 nodes: x"
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    assert said({"conditions": [condition]}) == (
        "cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_a_lost_claim_is_reported_and_a_bound_one_is_not():
    assert said(claim=claim("Bound")) == ""
    assert said(claim=claim("Lost", storageClassName="x")) == "claim data-a-0 has lost its volume"


def test_an_unreachable_node_is_reported():
    assert said({"phase": "Unknown"}, node="node-1") == "node node-1 does not answer"
    assert said({"reason": "NodeLost"}, node="node-1", age=0) == "node node-1 does not answer"


def test_a_pod_whose_stop_its_node_does_not_confirm_is_reported():
    overdue = said(node="node-1", deletionTimestamp="2025-12-31T23:59:00Z")
    assert overdue == "it was deleted and node node-1 has not confirmed that it stopped"
    assert said(node="node-1", deletionTimestamp="2026-01-01T00:00:20Z") == ""


def test_the_node_was_blamed_for_a_pod_that_a_finalizer_keeps():
    stopped = {"deletionTimestamp": "2025-12-31T23:59:00Z", "deletionGracePeriodSeconds": 0}
    kept = said(node="node-1", finalizers=["mesh/a"], **stopped)
    assert kept == "it was deleted, and its finalizer mesh/a keeps it"
    assert "has not confirmed" in said(finalizers=["foregroundDeletion"], **stopped)


def test_an_evicted_pod_is_reported():
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
    assert said(status, age=0) == "failed: Evicted The node was low on memory."


def test_volumes_that_do_not_mount_are_reported_after_a_longer_grace_period():
    status = {"phase": "Pending", **waiting("PodInitializing"), "initContainerStatuses": []}
    assert said(status, age=SETUP_SECONDS - 1) == ""
    assert "not set up yet" in said(status, age=SETUP_SECONDS + 1)
    status["initContainerStatuses"] = [{"name": "start", "state": {"running": {}}}]
    assert said(status, age=SETUP_SECONDS + 1) == ""


def test_the_message_is_truncated():
    assert len(said(waiting("CreateContainerError", "x" * 5000))) == 300


def test_nothing_in_the_message_changes_by_itself():
    """With restart counts or times, each change would be a write of the status."""
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}
    few = waiting("CrashLoopBackOff", restartCount=1, lastState=ended)
    many = waiting("CrashLoopBackOff", restartCount=99, lastState=ended)
    assert said(few) == said(many, age=10_000)


def unscheduled(message):
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {"conditions": [condition]}


AFFINITY = "node(s) didn't match PersistentVolume's node affinity"


@pytest.mark.parametrize(
    "message",
    [
        f"0/2 nodes are available: 2 {AFFINITY}. preemption: 0/2 nodes are available: 2 x.",
        f"0/1 nodes are available: 1 {AFFINITY}.",
        f"0/12 nodes are available: 12 {AFFINITY}. no new claims to deallocate, preemption: x",
        "0/3 nodes are available: 3 node(s) had volume node affinity conflict.",
    ],
)
def test_the_node_is_gone_if_no_node_may_use_the_volume(message):
    assert is_node_gone(unscheduled(message))


@pytest.mark.parametrize(
    "message",
    [
        # The node with the volume may be the one that is cordoned, tainted or not ready.
        f"0/3 nodes are available: 1 node(s) were unschedulable, 2 {AFFINITY}.",
        f"0/3 nodes are available: 1 node(s) had untolerated taint {{a/b: }}, 2 {AFFINITY}. x",
        f"0/3 nodes are available: 1 Insufficient cpu, 2 {AFFINITY}.",
        f"0/3 nodes are available: 2 {AFFINITY}.",
        f"0/2 nodes are available: 2 {AFFINITY}, 2 node(s) were unschedulable.",
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        "0/2 nodes are available: 2 Insufficient cpu.",
        f"0/0 nodes are available: 0 {AFFINITY}.",
        "no nodes available to schedule pods",
        "",
    ],
)
def test_a_node_that_may_come_back_is_not_gone(message):
    assert not is_node_gone(unscheduled(message))


def test_a_pod_that_is_scheduled_has_its_node():
    condition = {"type": "PodScheduled", "status": "True"}
    assert not is_node_gone({"conditions": [condition]})
    assert not is_node_gone({})


@pytest.mark.parametrize(
    "message",
    [
        # Of etcd 3.5 to 3.7, as `tests/integration/etcd` has them say it.
        '"msg":"discovery failed","error":"wal: crc mismatch","stacktrace":"x"}',
        '"msg":"discovery failed","error":"walpb: crc mismatch: expected: 75a55741 computed: 3",',
        '"msg":"discovery failed","error":"proto: illegal wireType 7","stacktrace":"x"}',
        '"msg":"discovery failed","error":"proto:\u00a0cannot parse invalid wire-format data"',
        '"msg":"failed to read WAL, cannot be repaired","error":"unexpected EOF: [wal] max entry"',
        '"msg":"failed to open database","path":"/var/etcd/x/db","error":"invalid database"',
        '"error":"failed to find database snapshot file (snap: snapshot file does not exist)"',
        "panic: assertion failed: Page expected to be: 43, but self identifies as 4438333429925",
        "panic: tocommit(12) is out of range [lastIndex(5)]. Was the raft log corrupted, truncated",
        # With `log-format: console`.
        'discovery failed\t{"error": "walpb: crc mismatch"}',
        'failed to open database\t{"path": "/x/db", "error": "invalid database"}',
    ],
)
def test_messages_that_mean_damage(message):
    assert recognise(f"earlier words\n{message}\nlater words")


@pytest.mark.parametrize(
    "error",
    [
        "open /x/0.wal: permission denied",
        "read /x/0.wal: input/output error",
        "write /x/0.wal: no space left on device",
        "file too large",
        "is a directory",
        "cannot fetch cluster info from peer urls: could not retrieve cluster information",
        "member count is unequal",
        "listen tcp 127.0.0.1:2380: bind: address already in use",
        "wal: max entry size limit exceeded",
        "context deadline exceeded",
        "file size too small 4096",
    ],
)
@pytest.mark.parametrize(
    "what",
    ["discovery failed", "failed to open database", "failed to read WAL, cannot be repaired"],
)
def test_other_messages_do_not_mean_damage(what, error):
    assert recognise(f'{{"level":"fatal","msg":"{what}","error":"{error}"}}') == ""


@pytest.mark.parametrize(
    "message",
    [
        "",
        "unexpected fault address 0x7f152bc2b000\nfatal error: fault\n[signal SIGBUS: bus error]",
        "the member has been permanently removed from the cluster",
        "panic: runtime error: invalid memory address or nil pointer dereference",
        "panic: cannot use none as id",
        "received signal; shutting down",
    ],
)
def test_other_exits_do_not_mean_damage(message):
    assert recognise(message) == ""


def test_messages_of_damage_contain_no_numbers():
    """They are put into conditions, and one more attempt must not be one more status write."""
    one = recognise("Page expected to be: 43, but self identifies as 1")
    assert one == recognise("Page expected to be: 7, but self identifies as 2")


FATAL = (
    '{"level":"fatal","ts":"2026-11-21T09:02:27.821986Z","msg":"discovery failed",'
    '"error":"member count is unequal","stacktrace":"x"}'
)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (FATAL, "discovery failed: member count is unequal"),
        (
            f"cut off\n{FATAL}\npanic: discovery failed\n",
            "discovery failed: member count is unequal",
        ),
        ('{"level":"info","msg":"stopping"}\npanic: boom\n\ngoroutine 1 [running]:', "panic: boom"),
        ('{"level":"info","ts":"x","msg":"stopped"}', "stopped"),
        ("first\nopen etcd.yaml: no such file\n", "open etcd.yaml: no such file"),
        ('{"a": 1}', '{"a": 1}'),
        # It raised UnicodeEncodeError where it was put into an Event.
        (r'{"msg": "\ud800"}', r'{"msg": "\ud800"}'),
        ("", ""),
        (" \n", ""),
    ],
)
def test_the_cause_of_an_exit(message, words):
    assert cause(message) == words


def test_the_time_of_an_exit_is_not_in_the_message():
    """Each change of the message is a write of the status, and a crash loop makes many."""
    ended = {"terminated": {"exitCode": 1, "message": FATAL}}
    later = {"terminated": {"exitCode": 1, "message": FATAL.replace("09:02", "09:07")}}
    one = said(waiting("CrashLoopBackOff", restartCount=4, lastState=ended))
    assert one == said(waiting("CrashLoopBackOff", restartCount=5, lastState=later))
    assert one == (
        "container etcd keeps failing: exit code 1: discovery failed: member count is unequal"
    )


@pytest.mark.parametrize(
    ("why", "crowded"),
    [
        ("1 Insufficient cpu, 2 node(s) had untolerated taint(s).", True),
        ("3 Too many pods.", True),
        ("3 node(s) didn't match pod anti-affinity rules.", True),
        ("3 node(s) didn't satisfy existing pods anti-affinity rules.", True),
        (f"3 {AFFINITY}.", False),
        ("3 node(s) were unschedulable.", False),
        ("3 x. preemption: 0/3 nodes are available: 3 Insufficient cpu.", False),
    ],
)
def test_whether_other_pods_take_the_room_of_a_pod(why, crowded):
    assert is_crowded_out(unscheduled(f"0/3 nodes are available: {why}")) is crowded


def test_a_pod_with_a_node_is_not_crowded_out():
    condition = {"type": "PodScheduled", "status": "True", "message": "1 Insufficient cpu."}
    assert not is_crowded_out({"conditions": [condition]})
