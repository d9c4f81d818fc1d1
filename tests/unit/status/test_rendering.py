"""The status: the coreos operator's fields and their meaning; no byte changes by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from views import without_status
from worlds import UID, World, body, drive, formed, until

from etcd_stateful.api.cluster import RefusedCluster, parse_cluster
from etcd_stateful.api.restore import EtcdRestore
from etcd_stateful.api.source import BackupRef
from etcd_stateful.backup.reference import NotRestorable
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Settled
from etcd_stateful.observed.members import MemberStatus
from etcd_stateful.observed.put_off import DELETION, PutOff
from etcd_stateful.status.outcome import Outcome
from etcd_stateful.status.rendering import render
from etcd_stateful.versions import parse_version

IDS = tuple(f"{member.member_id:016x}" for member in formed(3).record.members)
ROLES = ("leader", "voter", "voter")
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
COREOS = {
    "phase": "Running",
    "size": 3,
    "serviceName": "c-client",
    "clientPort": 2379,
    "members": {"ready": ["c-5xj8qzw2kd", "c-9vtl4m7r6p", "c-h2c8nn5bgs"]},
    "currentVersion": "3.2.13",
    "targetVersion": "",
    "conditions": [{"type": "Available", "status": "True", "reason": "Cluster available"}],
}
"""A status that the coreos operator has left."""


def status(world: World, now: str = NOW, **more: Any) -> dict[str, Any]:
    seen = world.observe()
    return render(world.body, Outcome(seen, decide(seen), **more), now)


def drive_until_recorded(world: World) -> None:
    world.apply(decide(world.observe()))
    assert not world.record.latched


def refused(stored: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    resource = body(status=stored, **spec)
    with pytest.raises(RefusedCluster) as caught:
        parse_cluster(resource)
    return render(resource, Outcome(refused=caught.value), NOW)


def test_the_whole_status_of_a_settled_cluster() -> None:
    found = status(formed(3))

    conditions = found.pop("conditions")
    assert [one["type"] for one in conditions] == [
        "Accepted",
        "Available",
        "Progressing",
        "Degraded",
        "Ready",
    ]
    assert found == {
        "observedGeneration": 1,
        "phase": "Running",
        "reason": "",
        "plan": "nothing to do",
        "controlPaused": False,
        "size": 3,
        "readyMembers": 3,
        "selector": (
            "app.kubernetes.io/instance=c,app.kubernetes.io/managed-by=etcd-operator,"
            "app.kubernetes.io/name=etcd"
        ),
        "serviceName": "c-client",
        "clientPort": 2379,
        "members": {"ready": ["c-0", "c-1", "c-2"], "unready": []},
        "memberStatus": [
            {"name": f"c-{ordinal}", "id": member, "role": role, "version": "3.7.3"}
            for ordinal, (member, role) in enumerate(zip(IDS, ROLES, strict=True))
        ],
        "currentVersion": "3.7.3",
        "targetVersion": "",
        "clusterID": f"{formed(3).record.cluster_id:016x}",
        "epoch": 1,
    }


@pytest.mark.parametrize("settled", [True, False])
def test_an_unchanged_status_has_the_same_bytes_at_any_time(settled: bool) -> None:
    world = formed(3) if settled else World(body(3))
    once = status(world)
    world.body["status"] = json.loads(json.dumps(once))

    assert status(world, LATER) == once
    assert json.dumps(status(world, LATER)) == json.dumps(once)


def test_it_is_json() -> None:
    found = status(formed(3))

    assert json.loads(json.dumps(found)) == found


class TestPhase:
    def test_creating_until_it_has_formed(self) -> None:
        world = World(body(3))
        world.cut_off = True
        drive(world)

        assert status(world)["phase"] == "Creating"

    def test_running_from_then_on_even_without_a_quorum(self) -> None:
        world = formed(3)
        for pod in world.pods.values():
            pod.where = "pending"

        assert status(world)["phase"] == "Running"

    def test_running_even_while_a_lost_secret_is_recreated(self) -> None:
        world = formed(3)
        world.body["status"] = status(world)
        world.lose_secret()

        assert status(world)["phase"] == "Running"

    def test_creating_again_when_the_record_says_that_it_has_not_formed(self) -> None:
        world = World(body(3, status={"phase": "Running"}))
        drive_until_recorded(world)

        assert status(world)["phase"] == "Creating"

    def test_failed_when_the_spec_is_refused(self) -> None:
        found = refused(size=9)

        assert found["phase"] == "Failed"
        assert found["reason"] == "InvalidSpec"
        assert found["plan"].startswith("nothing until the spec is fixed: spec.size: ")

    def test_failed_ends_when_the_spec_is_corrected(self) -> None:
        world = World(body(3, status=refused(size=9)))

        assert status(world)["phase"] == "Creating"

    def test_a_running_cluster_whose_spec_is_refused_is_still_running(self) -> None:
        stored = status(formed(3))

        assert refused(stored, size=9)["phase"] == "Running"

    def test_a_cluster_of_the_coreos_operator_counted_as_running_for_ever(self) -> None:
        """Its version was refused, and so was each supported one, by a rule of the CRD: that is a
        jump from what the members of a running cluster run."""
        found = refused(COREOS, version="3.2.13")

        assert found["phase"] == "Failed"
        [available] = [one for one in found["conditions"] if one["type"] == "Available"]
        assert available["reason"] == "NotAccepted"

    def test_a_cluster_of_the_coreos_operator_that_is_accepted_has_not_formed_here(self) -> None:
        assert status(World(body(3, status=COREOS)))["phase"] == "Creating"


class TestPlan:
    def test_the_next_step(self) -> None:
        assert status(World(body(3)))["plan"] == "a cluster of 3 begins"

    def test_what_is_waited_for(self) -> None:
        world = formed(3)
        world.pods[0].where = "pending"

        assert status(world)["plan"] == "waiting for pod c-0 to become ready"

    def test_that_a_human_has_to_act(self) -> None:
        world = formed(3).remake("new-uid")
        claims = "data-c-0, data-c-1, data-c-2"
        whose = "a deleted cluster of this name (UID 4be0f3a2-0b0e-4d8c-9a55-2f6f0a1c7d11)"

        assert status(world)["plan"] == (
            f"nothing until a human acts (RetainedClaims): claims {claims} hold the data of {whose}"
        )

    def test_that_a_write_was_refused(self) -> None:
        found = status(World(body(3)), failure="x" * 5000)

        assert found["plan"].startswith("retry: xxx")
        assert len(found["plan"]) == 1024

    def test_a_long_answer_of_a_webhook_had_the_whole_status_refused(self) -> None:
        """The CRD lets in 32,768 characters, and a webhook may answer as it likes."""
        refused = {(DELETION, "data-c-3"): PutOff({"metadata": {}}, "x" * 40_000)}
        world = formed(3)
        seen = replace(world.observe(), put_off=refused)

        found = render(world.body, Outcome(seen, decide(seen)), NOW)

        assert found["plan"].startswith("to be retried: xxx")
        assert len(found["plan"]) == 1024

    def test_without_a_step(self) -> None:
        world = formed(1)

        assert render(world.body, Outcome(world.observe()), NOW)["plan"] == "nothing to do"


class TestWhatIsNotKnownIsKept:
    def test_a_refused_spec_keeps_what_was_known_of_the_cluster(self) -> None:
        stored = status(formed(3))

        found = refused(stored, size=9)

        for key in ("size", "readyMembers", "selector", "serviceName", "clientPort", "members"):
            assert found[key] == stored[key]
        assert found["memberStatus"] == stored["memberStatus"]
        for key in ("currentVersion", "targetVersion", "clusterID"):
            assert found[key] == stored[key]

    def test_a_refused_spec_from_the_start_invents_nothing(self) -> None:
        found = refused(size=9)

        assert not found.keys() & {"members", "memberStatus"}
        assert (found["currentVersion"], found["clusterID"]) == ("", "")

    def test_a_silent_etcd_keeps_its_version(self) -> None:
        world = formed(3)
        world.body["status"] = status(world)
        world.cut_off = True

        found = status(world)

        assert found["currentVersion"] == "3.7.3"
        assert found["size"] == 3

    def test_a_lost_secret_keeps_the_cluster_id(self) -> None:
        """The record is rebuilt from it when the Secret is lost."""
        world = formed(3)
        stored = world.body["status"] = status(world)
        world.lose_secret()

        assert status(world)["clusterID"] == stored["clusterID"] != ""

    def test_no_cluster_id_is_reported_before_the_latch(self) -> None:
        world = World(body(3))
        world.cut_off = True
        drive(world)

        assert status(world)["clusterID"] == ""

    def test_what_others_wrote_into_the_status_is_dropped(self) -> None:
        world = formed(3)
        world.body["status"] = {"colour": "blue"}

        assert "colour" not in status(world)

    @pytest.mark.parametrize("stored", [None, {}, {"conditions": None}])
    def test_an_empty_status_is_none_to_keep(self, stored: dict[str, Any] | None) -> None:
        world = formed(1)
        world.body["status"] = {}
        seen = world.observe()
        resource = world.body | {"status": stored}

        assert render(resource, Outcome(seen, decide(seen)), NOW)["phase"] == "Running"


class TestMembers:
    def test_ready_and_unready_by_name(self) -> None:
        world = formed(3)
        world.pods[0].where = "pending"
        world.pods[2].deleting = True

        found = status(world)

        assert found["members"] == {"ready": ["c-1"], "unready": ["c-0", "c-2"]}
        assert found["readyMembers"] == 1

    def test_a_stateful_set_that_was_scaled_to_a_hundred_had_the_whole_status_refused(self) -> None:
        """The CRD takes 64 names, and no member can be in a pod beyond the seventh."""
        world = formed(3)
        seen = world.observe()
        more = (replace(seen.pods[0], ordinal=n, name=f"c-{n}", ready=False) for n in range(3, 100))
        outcome = Outcome(replace(seen, pods=(*seen.pods, *more)), Settled())

        found = render(world.body, outcome, NOW)

        assert found["members"]["ready"] == ["c-0", "c-1", "c-2"]
        assert found["members"]["unready"] == ["c-3", "c-4", "c-5", "c-6"]

    def test_size_is_that_of_the_member_list(self) -> None:
        """As in coreos: the number of etcd members. `kubectl scale` compares with it too."""
        world = formed(3)
        world.edit(size=5)

        assert status(world)["size"] == 3

    def test_size_is_as_last_known_while_etcd_is_silent(self) -> None:
        """The StatefulSet grows before the member list does."""
        world = formed(3)
        world.body["status"] = status(world)
        world.edit(size=5)
        step = until(world, "StatefulSet c")
        world.apply(step)
        world.cut_off = True
        assert world.observe().replicas == 5

        assert status(world)["size"] == 3

    @pytest.mark.parametrize("latched", [True, False])
    def test_size_is_that_of_the_stateful_set_where_nothing_is_known(self, latched: bool) -> None:
        world = formed(3) if latched else World(body(3, status={"size": 7}))
        world.cut_off = True
        drive(world)

        assert status(world)["size"] == 3


class TestVersions:
    def found(self, *versions: str) -> dict[str, Any]:
        world = formed(3, version="3.7.3")
        seen = world.observe()
        statuses: dict[int, MemberStatus] = {
            ordinal: replace(seen.statuses[0], version=version)
            for ordinal, version in enumerate(versions)
        }
        return render(world.body, Outcome(replace(seen, statuses=statuses), None), NOW)

    def test_there_is_no_target_where_the_spec_names_no_version(self) -> None:
        """A newer operator's default changes no cluster."""
        seen = formed(3).observe()
        newer = parse_version("3.8.0")
        assert newer is not None
        seen = replace(seen, cluster=replace(seen.cluster, version=newer))

        assert render(body(3), Outcome(seen), NOW)["targetVersion"] == ""

    @pytest.mark.parametrize(
        ("versions", "current", "target"),
        [
            (("3.7.3", "3.7.3", "3.7.3"), "3.7.3", ""),
            (("3.7.3", "3.6.14", "3.7.3"), "3.6.14", "3.7.3"),
            (("3.7.10", "3.7.9"), "3.7.9", "3.7.3"),
            (("", "3.7.3"), "3.7.3", ""),
            (("nonsense", "3.7.3"), "3.7.3", ""),
            (("nonsense",), "", ""),
            ((), "", ""),
        ],
    )
    def test_current_is_the_lowest_that_any_member_runs(
        self, versions: tuple[str, ...], current: str, target: str
    ) -> None:
        found = self.found(*versions)

        assert (found["currentVersion"], found["targetVersion"]) == (current, target)

    def test_an_upgrade_seemed_over_while_the_last_member_had_yet_to_come_back(self) -> None:
        """`targetVersion` was empty, by which clients of coreos's API see that."""
        world = formed(3, version="3.7.3")
        before = status(world)
        before["memberStatus"][0]["version"] = "3.6.14"

        seen = without_status(world.observe(), 0)
        found = render(world.body | {"status": before}, Outcome(seen), NOW)

        assert found["memberStatus"][0]["name"] == "c-0"
        assert (found["currentVersion"], found["targetVersion"]) == ("3.6.14", "3.7.3")


def test_a_held_restore_seemed_to_go_on_whenever_the_api_server_failed() -> None:
    """So it was never given up: the day after which it is began again each time."""
    world = formed(3)
    source, replaced = BackupRef("b"), world.record.cluster_id
    restore = EtcdRestore("default", "c", "uid-r", 1, source, replaces=replaced)
    seen = replace(world.observe(), restore=restore)
    held = replace(seen, backup=NotRestorable("EtcdBackup b does not exist"))
    before = render(world.body, Outcome(held, decide(held)), NOW)
    assert before["restore"]["state"] == "Held"

    failed = Outcome(replace(seen, etcd=None, statuses={}), failure="the API server keeps failing")
    found = render(world.body | {"status": before}, failed, LATER)

    assert found["restore"] == before["restore"]


@pytest.mark.parametrize(("spec", "told"), [({}, False), ({"paused": True}, True)])
def test_control_paused_says_what_the_spec_says(spec: dict[str, bool], told: bool) -> None:
    assert status(World(body(3, **spec)))["controlPaused"] is told


def test_a_pause_is_reported_beside_a_refusal() -> None:
    assert refused(size=9, paused=True)["controlPaused"] is True


def test_generation_is_the_observed_one() -> None:
    world = World(body(3))
    world.edit(size=3)

    found = status(world)

    assert found["observedGeneration"] == 2
    assert {one["observedGeneration"] for one in found["conditions"]} == {2}


def test_the_status_of_a_cluster_that_holds_names_the_uid() -> None:
    world = formed(3).remake("new-uid")
    found = status(world)
    blocked = next(one for one in found["conditions"] if one["type"] == "Blocked")

    assert UID in blocked["message"]
    assert found["phase"] == "Creating"
