"""Converting API objects to the core's values."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from fakes import cluster_body, running

from etcd_operator.objects import reading
from etcd_operator.timestamps import rfc3339
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.tls import Trust
from etcd_stateful.records import bootstrap as records
from etcd_stateful.records.bootstrap_json import dump_bootstrap
from etcd_stateful.records.member import MemberRecord, member_annotations
from etcd_stateful.start.rules import FOUND_DATA, describe
from etcd_stateful.start.ticket import Finding
from etcd_stateful.versions import Version

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
RECORD = MemberRecord("uid-a", "uid-claim", 0xABC, 0xDEF)


def cluster(**spec):
    body = cluster_body(**spec)
    body["metadata"] |= {"uid": "uid-a", "generation": 1}
    return parse_cluster(body)


def pod(name="a-0", status=None, **metadata):
    return {
        "metadata": {
            "name": name,
            "uid": "uid-pod",
            "resourceVersion": "7",
            "creationTimestamp": "2025-12-31T23:59:55Z",
            **metadata,
        },
        "spec": {},
        "status": status or {},
    }


def claim(name="data-a-1", **metadata):
    labels = naming.labels("a")
    return {
        "metadata": {
            "name": name,
            "uid": "uid-claim",
            "resourceVersion": "9",
            "labels": labels,
            **metadata,
        },
        "status": {"phase": "Bound"},
    }


def secret(data):
    return {"metadata": {"name": "a-start", "resourceVersion": "5"}, "data": data}


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class TestPod:
    def test_a_pod_that_waits_in_start_is_recognised(self):
        seen = reading.pod(cluster(), pod(status=running("start", "10.0.0.1")), None, NOW)
        assert (seen.ordinal, seen.address, seen.age) == (0, "10.0.0.1", 5.0)
        assert seen.in_start
        assert not seen.etcd_started
        assert not seen.ready
        assert not seen.deleting

    def test_a_pod_that_runs_etcd_is_recognised(self):
        status = running("etcd", "10.0.0.1")
        status["conditions"] = [{"type": "Ready", "status": "True"}]
        seen = reading.pod(cluster(), pod(status=status), None, NOW)
        assert seen.etcd_started
        assert seen.ready
        assert not seen.in_start

    def test_etcd_that_ran_once_and_waits_to_be_restarted_has_started(self):
        status = running("etcd", "10.0.0.1")
        status["containerStatuses"][0] |= {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}},
        }
        assert reading.pod(cluster(), pod(status=status), None, NOW).etcd_started

    @pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
    def test_the_operators_image_is_distinguished_from_etcds(self, reason):
        waits = {"name": "start", "state": {"waiting": {"reason": reason}}}
        seen = reading.pod(cluster(), pod(status={"initContainerStatuses": [waits]}), None, NOW)
        assert (seen.start_missing, seen.image_missing) == (True, False)

    def test_a_new_pod_has_nothing_yet(self):
        seen = reading.pod(cluster(), pod(), None, NOW)
        found = (seen.in_start, seen.etcd_started, seen.ready, seen.address, seen.trouble)
        assert found == (False, False, False, "", "")

    def test_a_pod_that_is_being_deleted_is_recognised(self):
        raw = pod(deletionTimestamp="2026-01-01T00:00:30Z")
        assert reading.pod(cluster(), raw, None, NOW).deleting

    @pytest.mark.parametrize("name", ["a", "a-x", "a-01", "b-0", "a-client-0", "a--1"])
    def test_a_pod_with_another_name_is_not_ours(self, name):
        assert reading.pod(cluster(), pod(name), None, NOW) is None

    def test_a_record_counts_only_if_the_pod_holds_the_data(self):
        raw = pod(annotations=member_annotations(RECORD))
        assert reading.pod(cluster(), raw, None, NOW).record is None
        assert reading.pod(cluster(pod={"emptyDir": {}}), raw, None, NOW).record == RECORD

    def test_a_damaged_record_is_reported_and_no_exception(self):
        raw = pod(annotations={naming.MEMBER_ID: "abc"})
        seen = reading.pod(cluster(pod={"emptyDir": {}}), raw, None, NOW)
        assert seen.record is None
        assert "cannot be read" in seen.trouble


def etcd_container(restarts=0, state=None, last=None):
    status = running("etcd", "10.0.0.1")
    status["containerStatuses"][0] |= {
        "restartCount": restarts,
        "state": state or {"running": {}},
        "lastState": last or {},
    }
    return status


def ended(code=1, message=""):
    return {"terminated": {"exitCode": code, "reason": "Error", "message": message}}


WAITS = {"waiting": {"reason": "CrashLoopBackOff"}}
CRC = '{"level":"fatal","msg":"discovery failed","error":"walpb: crc mismatch"}'


class TestUnready:
    """A readiness gate that admission has added, and that nobody confirms. Nothing said so."""

    GATE = 'corresponding condition of pod readiness gate "elb" does not exist.'

    def unready(self, *, etcd, ready="False"):
        conditions = [{"type": "Ready", "status": ready, "message": self.GATE}]
        containers = [{"name": "etcd", "ready": etcd, "state": {"running": {}}}]
        raw = pod(status={"conditions": conditions, "containerStatuses": containers})
        return reading.pod(cluster(), raw, None, NOW).unready

    def test_is_what_the_kubelet_says_while_etcd_is_ready(self):
        assert self.unready(etcd=True) == self.GATE

    def test_is_empty_while_etcd_is_not_ready_itself_or_the_pod_is(self):
        assert self.unready(etcd=False) == ""
        assert self.unready(etcd=True, ready="True") == ""


class TestSpecHashAndImage:
    def test_spec_hash_and_image_are_read(self):
        raw = pod(annotations={naming.SPEC_HASH: "abc"})
        raw["spec"]["containers"] = [
            {"name": "theirs", "image": "theirs:1"},
            {"name": "etcd", "image": "quay.io/coreos/etcd:v3.7.3"},
        ]
        seen = reading.pod(cluster(), raw, None, NOW)
        assert (seen.spec_hash, seen.image) == ("abc", "quay.io/coreos/etcd:v3.7.3")

    def test_a_missing_spec_hash_and_image_are_empty(self):
        seen = reading.pod(cluster(), pod(), None, NOW)
        assert (seen.spec_hash, seen.image) == ("", "")


class TestLastWordsOfStart:
    def read(self, state):
        status = {"initContainerStatuses": [{"name": "start", "state": state}]}
        return reading.pod(cluster(), pod(status=status), None, NOW)

    def said(self, message):
        return self.read({"terminated": {"exitCode": 0, "message": message}})

    def test_data_that_is_started_without_a_ticket_is_read(self):
        seen = self.said(f"{FOUND_DATA} member 00000000000000aa")
        assert (seen.has_data, seen.ran_as) == (True, 0xAA)

    def test_a_ticket_for_an_empty_volume_is_read(self):
        seen = self.said("took a ticket: new, member 00000000000000aa of etcd cluster 01")
        assert (seen.has_data, seen.ran_as) == (False, 0xAA)

    def test_a_member_whose_data_was_only_found_before_start_was_killed_counted_as_running(self):
        """A node had come back with two disks swapped, and went down again while `start` waited.
        The pod's own member then counted as lost, and was removed."""
        found = Finding("foreign-data", "the marker names pod a-1", member_id=0xBB, cluster_id=1)
        said = f"waited for a ticket: {describe(found)}"
        seen = self.read({"terminated": {"exitCode": 255, "message": said}})
        assert (seen.has_data, seen.ran_as) == (False, 0)

    @pytest.mark.parametrize("state", [{}, {"running": {}}, {"terminated": {}}])
    def test_a_container_without_a_message_has_no_data(self, state):
        seen = self.read(state)
        assert (seen.has_data, seen.ran_as) == (False, 0)


class TestCrashing:
    def crashing(self, status):
        return reading.pod(cluster(), pod(status=status), None, NOW).crashing

    def test_is_a_container_that_waits_for_its_restart(self):
        assert self.crashing(etcd_container(3, WAITS, ended()))

    def test_is_a_container_that_has_just_ended_again(self):
        assert self.crashing(etcd_container(1, ended()))

    @pytest.mark.parametrize(
        "status",
        [
            etcd_container(0, ended()),
            etcd_container(3, ended(code=0)),
            etcd_container(3, {"running": {}}, ended()),
            running("start", "10.0.0.1"),
            {},
        ],
        ids=["once", "in order", "runs again", "in start", "new"],
    )
    def test_is_not_a_container_in_any_other_state(self, status):
        assert not self.crashing(status)

    def test_of_other_containers_is_not_etcds(self):
        status = etcd_container()
        sidecar = {"name": "theirs", "restartCount": 9, "state": WAITS, "lastState": ended()}
        status["containerStatuses"].append(sidecar)
        status["initContainerStatuses"][0] |= {"restartCount": 9, "state": WAITS}
        assert not self.crashing(status)


class TestDamage:
    def damage(self, status):
        return reading.pod(cluster(), pod(status=status), None, NOW).damage

    @pytest.mark.parametrize(
        "status",
        [
            etcd_container(2, WAITS, ended(message=CRC)),
            etcd_container(2, ended(message=CRC)),
        ],
        ids=["waits", "has ended"],
    )
    def test_is_reported_if_etcd_has_logged_it_repeatedly(self, status):
        assert self.damage(status) == "wal: crc mismatch"

    @pytest.mark.parametrize("restarts", [0, 1])
    def test_is_not_reported_after_a_single_exit(self, restarts):
        assert self.damage(etcd_container(restarts, WAITS, ended(message=CRC))) == ""

    def test_is_over_while_etcd_runs(self):
        """Somebody has repaired the files, and the kubelet still keeps the last message."""
        assert self.damage(etcd_container(7, {"running": {}}, ended(message=CRC))) == ""

    def test_is_judged_by_the_last_message(self):
        """It may be a full disk now, whatever it was before."""
        full = ended(message="write: no space left on device")
        assert self.damage(etcd_container(4, full, ended(message=CRC))) == ""

    def test_is_not_reported_after_a_clean_exit(self):
        assert self.damage(etcd_container(4, ended(0, CRC))) == ""

    def test_of_another_container_is_not_etcds(self):
        status = etcd_container()
        sidecar = {"name": "theirs", "restartCount": 9, "state": ended(message=CRC)}
        status["containerStatuses"].append(sidecar)
        assert self.damage(status) == ""


def last_run(seconds=1.0, code=1):
    times = {"startedAt": rfc3339(NOW - 3600), "finishedAt": rfc3339(NOW - 3600 + seconds)}
    return {"terminated": ended(code, CRC)["terminated"] | times}


def tried_again(restarts=3, since=1.0, last=None, **container):
    """A container in which etcd has been running again for so many seconds."""
    runs = {"running": {"startedAt": rfc3339(NOW - since)}}
    status = etcd_container(restarts, runs, last or last_run())
    status["containerStatuses"][0] |= container
    return status


class TestTriedAgain:
    """Between two crashes, the kubelet reports the container as running for a moment."""

    def read(self, status):
        return reading.pod(cluster(), pod(status=status), None, NOW)

    def test_the_report_about_a_pod_came_and_went_with_each_crash(self):
        loop = [
            tried_again(2),
            etcd_container(2, last_run()),
            etcd_container(2, WAITS, last_run()),
            tried_again(3, since=0.0),
            tried_again(3, since=29.0),
        ]
        seen = [self.read(status) for status in loop]

        words = "container etcd keeps failing: exit code 1: discovery failed: walpb: crc mismatch"
        assert {(one.trouble, one.damage) for one in seen} == {(words, "wal: crc mismatch")}
        assert [one.tried_again for one in seen] == [True, False, False, True, True]
        assert [one.is_stuck for one in seen] == [False, True, True, False, False]
        assert [one.crashing for one in seen] == [False, True, True, False, False]

    @pytest.mark.parametrize(
        "status",
        [
            tried_again(1, last=last_run(code=137)),
            tried_again(last=last_run(30.0, 137)),
            tried_again(ready=True),
            tried_again(since=30.0),
            tried_again(last=last_run(code=0)),
            tried_again(last=ended(message=CRC)),
        ],
        ids=[
            "killed once",
            "killed after it had run for long",
            "serves",
            "has run for a while",
            "ended in order",
            "nobody knows how long it ran",
        ],
    )
    def test_a_container_that_may_come_up_is_not_reported(self, status):
        seen = self.read(status)
        assert (seen.trouble, seen.damage, seen.tried_again) == ("", "", False)

    def test_of_another_container_is_not_etcds(self):
        status = tried_again(0)
        status["containerStatuses"] += tried_again(name="theirs")["containerStatuses"]
        assert not self.read(status).tried_again

    def test_other_trouble_counts_at_once(self):
        seen = self.read(tried_again() | {"phase": "Unknown"})
        assert "does not answer" in seen.trouble
        assert (seen.tried_again, seen.is_stuck, seen.damage) == (False, True, "")


class TestOverdue:
    @pytest.mark.parametrize(
        ("deletion", "overdue"),
        [
            (None, False),
            ("2026-01-01T00:00:30Z", False),
            ("2025-12-31T23:59:51Z", False),
            ("2025-12-31T23:59:49Z", True),
        ],
    )
    def test_is_ten_seconds_beyond_its_grace(self, deletion, overdue):
        raw = pod(**({"deletionTimestamp": deletion} if deletion else {}))
        assert reading.pod(cluster(), raw, None, NOW).overdue is overdue

    @pytest.mark.parametrize(("grace", "kept"), [(0, "mesh/a, mesh/b"), (30, "")])
    def test_finalizers_keep_it_once_its_grace_period_is_none(self, grace, kept):
        """The kubelet sets it to none when all containers have stopped."""
        told = {"finalizers": ["mesh/a", "mesh/b"], "deletionGracePeriodSeconds": grace}
        raw = pod(deletionTimestamp="2025-12-31T23:59:49Z", **told)
        assert reading.pod(cluster(), raw, None, NOW).kept_by == kept


class TestNodeGone:
    STATUS = {  # noqa: RUF012
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "message": "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's "
                "node affinity. preemption: 0/2 nodes are available: 2 Preemption is not helpful "
                "for scheduling.",
            }
        ]
    }

    def test_is_taken_from_the_message_of_the_scheduler(self):
        assert reading.pod(cluster(), pod(status=self.STATUS), None, NOW).node_gone
        assert not reading.pod(cluster(), pod(), None, NOW).node_gone


def test_whether_a_pod_is_crowded_out_is_taken_from_the_message_of_the_scheduler():
    words = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    unscheduled = {"type": "PodScheduled", "status": "False", "message": words}

    crowded = pod(status={"conditions": [unscheduled]})

    assert reading.pod(cluster(), crowded, None, NOW).crowded_out
    assert not reading.pod(cluster(), pod(), None, NOW).crowded_out


SET = {"metadata": {"name": "a", "uid": "uid-set"}}


class TestOwnPod:
    OURS = naming.selector("a")

    def owned(self, uid, labels=OURS):
        owner = {"kind": "StatefulSet", "uid": uid, "controller": True}
        return pod(ownerReferences=[owner], labels=labels)

    def test_is_one_of_our_stateful_set(self):
        assert reading.is_own_pod("a", self.owned("uid-set"), SET)

    def test_is_not_one_of_an_earlier_stateful_set_with_this_name(self):
        assert not reading.is_own_pod("a", self.owned("uid-older"), SET)
        assert not reading.is_own_pod("a", self.owned("uid-older"), None)

    @pytest.mark.parametrize("label", OURS)
    def test_is_not_one_that_the_stateful_set_does_not_select(self, label):
        assert not reading.is_own_pod("a", self.owned("uid-set", {**self.OURS, label: "x"}), SET)
        assert not reading.is_own_pod("a", pod(), SET)

    def test_an_orphan_is_about_to_be_adopted(self):
        assert reading.is_own_pod("a", pod(labels=self.OURS), SET)
        assert reading.is_own_pod("a", pod(labels=self.OURS), None)


def test_the_note_of_what_a_pod_was_started_to_trust_is_read():
    noted = pod(annotations={naming.TRUSTS: "abc-def-0"})

    assert reading.pod(cluster(), noted, None, NOW).noted_trust == Trust("abc", "def")
    assert reading.pod(cluster(), pod(), None, NOW).noted_trust == Trust()


def test_a_note_from_before_etcd_restarted_and_read_its_authorities_again_does_not_count():
    etcd = {"name": "etcd", "restartCount": 2}
    again = pod(annotations={naming.TRUSTS: "abc-def-1"}, status={"containerStatuses": [etcd]})

    assert reading.pod(cluster(), again, None, NOW).noted_trust == Trust()
    assert reading.pod(cluster(), again, None, NOW).restarts == 2


class TestClaim:
    def test_a_claim_is_read_with_its_record(self):
        raw = claim(annotations=member_annotations(RECORD))
        seen = reading.claim("a", raw)
        assert (seen.ordinal, seen.record, seen.cluster_uid) == (1, RECORD, "uid-a")
        assert (seen.phase, seen.deleting, seen.damage) == ("Bound", False, "")

    def test_a_claim_of_a_cluster_that_never_had_a_ticket_has_no_record(self):
        seen = reading.claim("a", claim(annotations={naming.CLUSTER_UID: "uid-old"}))
        assert (seen.record, seen.cluster_uid) == (None, "uid-old")

    @pytest.mark.parametrize(
        "annotations",
        [
            {naming.MEMBER_ID: "abc"},
            {**member_annotations(RECORD), naming.MEMBER_ID: "xyz"},
            {**member_annotations(RECORD), naming.CLUSTER_ID: "1" * 17},
        ],
    )
    def test_an_incomplete_record_is_damage(self, annotations):
        seen = reading.claim("a", claim(annotations=annotations))
        assert seen.record is None
        assert "cannot be read" in seen.damage

    @pytest.mark.parametrize("name", ["a-1", "data-a", "data-b-1", "data-a-1x", "data-a-01"])
    def test_a_claim_with_another_name_is_not_ours(self, name):
        assert reading.claim("a", claim(name)) is None


class TestSecret:
    RECORD = records.first_attempt("uid-a", {"a-0": "http://a-0:2380"}, "3.7.3")

    def test_a_valid_secret_is_read(self):
        data = {
            "key": coded(b"k" * 32),
            "bootstrap": coded(dump_bootstrap(self.RECORD).encode()),
        }
        seen = reading.secret(secret(data))
        assert (seen.bootstrap, seen.damage, seen.resource_version) == (self.RECORD, "", "5")
        assert reading.start_key(secret(data)) == b"k" * 32

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (None, "'key'"),
            ({}, "'key'"),
            ({"key": coded(b"k" * 31)}, "32 bytes"),
            ({"key": "?"}, "'key'"),
            ({"key": coded(b"k" * 32)}, "'bootstrap'"),
            ({"key": coded(b"k" * 32), "bootstrap": "?"}, "'bootstrap'"),
            ({"key": coded(b"k" * 32), "bootstrap": coded(b"{}")}, "cannot be read"),
            ({"key": coded(b"k" * 32), "bootstrap": coded(b"\xff\xfe")}, "utf-8"),
            ({"key": coded(b"k" * 32), "bootstrap": coded(b"[]")}, "cannot be read"),
        ],
    )
    def test_a_damaged_secret_is_reported_with_the_mistake(self, data, words):
        seen = reading.secret(secret(data))
        assert seen.bootstrap is None
        assert words in seen.damage
        assert not seen.newer

    def test_a_secret_of_a_newer_operator_is_distinguished_from_a_damaged_one(self):
        raw = json.loads(dump_bootstrap(self.RECORD)) | {"format": 2}
        data = {"key": coded(b"k" * 32), "bootstrap": coded(json.dumps(raw).encode())}
        seen = reading.secret(secret(data))
        assert (seen.bootstrap, seen.newer) == (None, True)
        assert "format 2" in seen.damage


class TestForeign:
    def owned(self, *owners, **metadata):
        return {"metadata": {"name": "a", "ownerReferences": list(owners), **metadata}}

    def owner(self, **fields):
        return {"kind": "EtcdCluster", "name": "a", "uid": "uid-a", "controller": True, **fields}

    def test_an_object_of_ours_is_not_foreign(self):
        assert reading.foreign(cluster(), "Service", self.owned(self.owner())) is None

    def test_an_object_of_ours_without_the_controller_flag_is_not_foreign(self):
        raw = self.owned(self.owner(controller=None))
        assert reading.foreign(cluster(), "Service", raw) is None

    def test_an_object_with_another_controller_is_foreign(self):
        other = self.owner(kind="Deployment", name="web", uid="uid-x")
        found = reading.foreign(
            cluster(), "Service", self.owned(self.owner(controller=None), other)
        )
        assert found.owner == "Deployment web"
        assert not found.passing

    def test_an_object_without_an_owner_is_foreign(self):
        found = reading.foreign(cluster(), "Service", {"metadata": {"name": "a"}})
        assert "no owner" in found.owner
        assert not found.passing

    def test_an_object_of_the_deleted_cluster_with_this_name_is_passing(self):
        found = reading.foreign(cluster(), "Service", self.owned(self.owner(uid="uid-old")))
        assert found.passing
        assert "uid-old" in found.owner

    def test_an_object_that_is_being_deleted_is_passing(self):
        raw = self.owned(
            self.owner(kind="Deployment", name="web", uid="x"),
            deletionTimestamp="2026-01-01T00:00:00Z",
        )
        assert reading.foreign(cluster(), "Service", raw).passing

    def test_a_service_of_the_coreos_operator_was_taken_over(self):
        """It has made it for this very EtcdCluster, if that was left when the operator changed."""
        of_coreos = {"app": "etcd", "etcd_cluster": "a"}
        labels = naming.labels("a")
        for owners in ([self.owner()], []):
            raw = self.owned(*owners, labels=of_coreos) | {"spec": {"selector": of_coreos}}
            found = reading.foreign(cluster(), "Service", raw)
            assert (found.owner, found.passing) == (
                "the coreos operator (it leads to its members)",
                False,
            )
        edited = self.owned(self.owner(), labels=labels) | {"spec": {"selector": of_coreos}}
        stripped = self.owned(self.owner()) | {"spec": {"selector": naming.selector("a")}}
        assert reading.foreign(cluster(), "Service", edited) is None
        assert reading.foreign(cluster(), "Service", stripped) is None

    def test_an_object_of_a_cluster_with_another_name_is_foreign(self):
        found = reading.foreign(cluster(), "Service", self.owned(self.owner(name="b", uid="x")))
        assert (found.owner, found.passing) == ("EtcdCluster b", False)


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (None, None),
        ({}, None),
        ({"clusterID": ""}, None),
        ({"clusterID": "00000000000000ff"}, 255),
        ({"clusterID": "nonsense"}, None),
        ({"clusterID": "0000000000000000"}, None),
        ({"clusterID": 7}, None),
    ],
)
def test_the_last_cluster_id_is_a_hint_that_others_may_have_altered(status, found):
    assert reading.last_cluster_id({"status": status}) == found


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (None, None),
        ({}, None),
        ({"currentVersion": ""}, None),
        ({"currentVersion": "3.6.14"}, Version(3, 6, 14)),
        ({"currentVersion": "nonsense"}, None),
        ({"currentVersion": 7}, None),
    ],
)
def test_the_last_version_is_a_hint_that_others_may_have_altered(status, found):
    assert reading.last_version({"status": status}) == found


def test_pods_without_a_relevant_difference_are_equal():
    """The observer compares them to decide whether an earlier answer of the network may be
    reused."""
    one = reading.pod(cluster(), pod(), None, NOW)
    other = reading.pod(cluster(), pod(resourceVersion="8"), None, NOW + 60)
    assert replace(one, resource_version="", age=0.0) == replace(
        other, resource_version="", age=0.0, trouble=""
    )


def test_how_long_conditions_have_been_true():
    def said(kind, status, since):
        return {"type": kind, "status": status, "lastTransitionTime": since}

    conditions = [said("Scaling", "True", rfc3339(NOW - 90)), said("Degraded", "False", "")]

    assert reading.true_for({"status": {"conditions": conditions}}, NOW) == {"Scaling": 90.0}
    assert reading.true_for({}, NOW) == {}
    assert reading.true_for({"status": {"conditions": [{"status": "True"}]}}, NOW) == {}
