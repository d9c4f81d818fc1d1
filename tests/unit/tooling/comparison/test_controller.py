"""The control loop of the other approach, with an API server and an etcd that are dictionaries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "comparison"))

from harness.api import ApiError, Json, Kind
from random_names import manifests
from random_names.controller import GRACE_SECONDS, LOOP_SECONDS, Controller
from random_names.decide import Spec

from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused
from etcd_stateful.observed.members import EtcdView, Member

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u", "controller": True}
HOME = manifests.Home("ns", "c", OWNER, "helper:1", {})


class World:
    """Pods that run at once, and a member list that is always right."""

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.services: list[str] = []
        self.deleted: list[tuple[str, int]] = []
        self.members: dict[str, int] = {}
        self.calls: list[str] = []
        self.failing: Exception | None = None
        self.starting = False

    # The API server.

    def list(self, kind: Kind, namespace: str | None = None, selector: str = "") -> list[Json]:
        assert (kind.kind, namespace, selector) == ("Pod", "ns", "app=etcd,etcd_cluster=c")
        return [dict(pod) for pod in self.pods.values()]

    def create(self, kind: Kind, manifest: Json, _: str | None = None) -> Json:
        name = manifest["metadata"]["name"]
        self.calls.append(f"create {kind.kind}")
        if kind.kind == "Service":
            self.services.append(name)
            return manifest
        number = len(self.pods) + 1
        phase = "Pending" if self.starting else "Running"
        status = {"phase": phase, "podIP": f"10.0.0.{number}"}
        self.pods[name] = {**manifest, "status": status}
        if "existing" not in str(manifest):
            self.members[name] = number
        return manifest

    def patch(self, _: Kind, __: str | None, name: str, patch: Any) -> Json:
        self.calls.append(f"patch {name}")
        self.pods[name]["metadata"]["annotations"]["etcd.version"] = patch[1]["value"]
        return self.pods[name]

    def delete(self, _: Kind, __: str | None, name: str, **options: Any) -> None:
        self.deleted.append((name, options["gracePeriodSeconds"]))
        if self.pods.pop(name, None) is None:
            raise ApiError(404, "gone")

    # etcd.

    async def member_list(self, _: Endpoint) -> EtcdView:
        self._asked("list")
        listed = (
            Member(number, "", (f"http://{name}.c.ns.svc:2380",), learner=False)
            for name, number in self.members.items()
        )
        return EtcdView(1, tuple(listed))

    async def member_add(self, _: Endpoint, peer_url: str) -> int:
        self._asked("add")
        number = max(self.members.values()) + 1
        self.members[peer_url.removeprefix("http://").partition(".")[0]] = number
        return number

    async def member_remove(self, _: Endpoint, member_id: int) -> None:
        self._asked("remove")
        gone = [name for name, number in self.members.items() if number == member_id]
        assert gone, "theirs took this for success; the stand-in knows every ID"
        del self.members[gone[0]]

    def _asked(self, words: str) -> None:
        self.calls.append(words)
        if self.failing is not None:
            raise self.failing


@pytest.fixture
def world() -> World:
    return World()


def controller(world: World, size: int = 3, passes: int = 0) -> Controller:
    made = Controller(world, world, HOME, Spec(size, "3.7.2"))
    made.seed()
    for _ in range(passes):
        made.tick()
    return made


def test_a_pass_comes_eight_seconds_after_the_last():
    assert LOOP_SECONDS == 8.0


def test_an_edit_starts_the_eight_seconds_again(world: World, monkeypatch: pytest.MonkeyPatch):
    made, waits = controller(world), []

    def wait_for(_: object, seconds: float) -> None:
        waits.append(seconds)
        if len(waits) < 3:
            made.edit(size=5)

    monkeypatch.setattr(made._changed, "wait_for", wait_for)

    assert made._wait()
    assert waits == [LOOP_SECONDS] * 3


def test_the_seed_comes_first_and_then_the_services(world: World):
    controller(world)

    assert world.calls == ["create Pod", "create Service", "create Service"]
    assert sorted(world.services) == ["c", "c-client"]
    assert list(world.pods) == list(world.members)


def test_it_grows_by_a_member_and_then_its_pod_in_every_pass(world: World):
    made = controller(world)
    for size in (2, 3):
        world.calls.clear()
        made.tick()
        assert world.calls[-2:] == ["add", "create Pod"]
        assert len(world.pods) == len(world.members) == size

    world.calls.clear()
    made.tick()
    assert world.calls == []


def test_it_waits_while_a_pod_is_pending(world: World):
    made = controller(world)
    world.starting = True
    made.tick()
    world.calls.clear()

    made.tick()

    assert world.calls == []
    assert made.log[-1].words == "a pod is pending"


def test_a_dead_member_is_removed_in_one_pass_and_replaced_in_the_next(world: World):
    made = controller(world, passes=3)
    dead = next(iter(world.pods))  # the seed, whose ID the original did not know
    del world.pods[dead]

    made.tick()
    assert dead not in world.members
    assert len(world.pods) == 2
    made.tick()
    assert len(world.pods) == len(world.members) == 3
    assert dead not in world.pods


def test_a_pod_that_has_ended_is_deleted_with_its_member(world: World):
    made = controller(world, passes=3)
    dead = list(world.pods)[1]
    world.pods[dead]["status"]["phase"] = "Failed"

    made.tick()

    assert world.deleted == [(dead, GRACE_SECONDS)]
    assert dead not in world.members


def test_without_a_majority_nothing_happens_however_often_it_looks(world: World):
    made = controller(world, passes=3)
    for name in list(world.pods)[:2]:
        del world.pods[name]
    world.calls.clear()

    for _ in range(5):
        made.tick()

    assert set(world.calls) <= {"list"}
    assert len(world.pods) == 1


def test_with_all_pods_gone_nothing_happens(world: World):
    made = controller(world, passes=3)
    world.pods.clear()
    world.calls.clear()

    for _ in range(5):
        made.tick()

    assert world.calls == []
    assert made.log[-1].words == "all pods are dead"


def test_shrinking_removes_the_member_and_then_its_pod(world: World):
    made = controller(world, size=5, passes=5)
    made.edit(size=3)

    made.tick()
    assert len(world.members) == len(world.pods) == 4
    made.tick()
    assert len(world.members) == len(world.pods) == 3
    assert set(world.members) == set(world.pods)


def test_a_version_is_patched_into_one_live_pod_a_pass(world: World):
    made = controller(world, passes=3)
    made.edit(version="3.7.3")
    world.calls.clear()

    for count in (1, 2, 3, 3):
        made.tick()
        assert len([call for call in world.calls if call.startswith("patch")]) == count
    assert world.deleted == []


@pytest.mark.parametrize("error", [NoAnswer("nobody"), Refused("unhealthy cluster")])
def test_after_a_failure_the_members_are_listed_again(world: World, error: Exception):
    made = controller(world, passes=1)
    world.failing = error
    made.tick()
    world.failing = None
    world.calls.clear()

    made.tick()

    assert world.calls[0] == "list"
    assert len(world.pods) == 3


def test_a_member_that_was_added_without_a_pod_is_a_dead_one(world: World):
    """The controller died, or the answer was lost, after the member was added and before its pod
    was created."""
    made = controller(world, passes=2)
    world.members["c-neverstarted"] = 99
    world.failing = NoAnswer("nobody")
    made.edit(size=4)
    made.tick()
    world.failing = None

    made.tick()

    assert "c-neverstarted" not in world.members
