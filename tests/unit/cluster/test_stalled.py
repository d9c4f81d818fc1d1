"""A StatefulSet controller in back-off is woken, so that no pod waits for its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeClock, FakeKube
from reconcile_bench import KEY, Bench
from views import without_status
from worlds import formed

from etcd_operator.cluster.missing_pods import FIRST_SECONDS, LAST_SECONDS, MissingPods
from etcd_operator.kube.api import CLAIMS, ETCD_CLUSTERS, PODS, STATEFUL_SETS, Rejected
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.store import Store
from etcd_stateful import naming
from etcd_stateful.membership import put_off
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import MemberRemove, TouchStatefulSet
from etcd_stateful.observed.put_off import PutOff
from unit.membership.test_replace import emptied

TOUCH = "patch StatefulSet"


@pytest.fixture
async def bench() -> Bench:
    """A formed cluster. From here on, nothing recreates its pods."""
    return await Bench.settled()


@pytest.fixture
def touches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays from now at which the StatefulSet is touched, in seconds."""
    began, found, patch = bench.clock.now, list[float](), bench.kube.merge_patch

    async def noted(resource: Any, namespace: str, name: str, body: Any, **more: Any) -> Any:
        if resource is STATEFUL_SETS:
            found.append(round(bench.clock.now - began, 2))
        return await patch(resource, namespace, name, body, **more)

    monkeypatch.setattr(bench.kube, "merge_patch", noted)
    return found


def lose(bench: Bench, ordinal: int) -> None:
    bench.nodes.kill(f"a-{ordinal}")


def alter(bench: Bench, resource: Any, name: str, change: Callable[[Any], None]) -> None:
    obj = bench.kube.live(resource, name)
    change(obj)
    bench.kube.put(resource, obj)


async def test_a_pod_was_missing_for_as_long_as_its_controller_slept(bench, touches):
    """Up to 1000 s. The touches become rarer, because what keeps the pod away may last."""
    lose(bench, 1)
    await bench.rest(82)

    assert touches == [0.25, 1.25, 5.25, 21.25, 51.25, 81.25]
    assert ("Normal", "StatefulSetTouched") in {one[:2] for one in bench.events.posted}
    assert not [words for _, reason, words in bench.events.posted if reason == "StepFailed"]
    assert set(bench.kube.writes()) <= {TOUCH, "apply EtcdCluster/status"}


async def test_each_touch_wrote_the_status_twice_for_as_long_as_a_pod_was_missing(bench, touches):
    """As above a quota: that it was touched, and then what is awaited as before."""
    lose(bench, 1)
    await bench.rest(LAST_SECONDS)
    bench.forget()
    already = len(touches)

    await bench.rest(10 * LAST_SECONDS)

    assert len(touches) > already
    assert set(bench.kube.writes()) == {TOUCH}


async def test_each_touch_changes_the_stateful_set(bench, touches):
    """A write that changes nothing would wake nothing."""
    lose(bench, 1)
    versions = set[str]()
    for _ in range(4):
        await bench.rest(LAST_SECONDS)
        versions.add(bench.kube.live(STATEFUL_SETS, "a")["metadata"]["annotations"][naming.TOUCHED])

    assert len(versions) == 4
    assert len(touches) >= 4


async def test_a_pod_that_its_controller_makes_by_itself_costs_no_write(bench, touches):
    lose(bench, 1)
    await bench.once()
    bench.nodes.turn()
    await bench.run()
    await bench.rest(60)

    assert touches == []


async def test_a_claim_being_deleted_is_waited_for_and_then_the_stateful_set_is_touched_at_once(
    bench, touches
):
    hold = {"finalizers": ["kubernetes.io/pvc-protection"], "deletionTimestamp": "2026-01-01"}
    alter(bench, CLAIMS, "data-a-1", lambda claim: claim["metadata"].update(hold))
    lose(bench, 1)
    await bench.rest(60)
    assert touches == []

    bench.kube.remove(CLAIMS, "default", "data-a-1")
    await bench.rest(FIRST_SECONDS + 0.01)
    assert len(touches) == 1


async def test_a_controller_that_has_yet_to_see_an_edit_is_not_hurried(bench, touches):
    def edited(live: Any) -> None:
        live["metadata"]["generation"] = 2
        live["status"] = {"observedGeneration": 1}

    alter(bench, STATEFUL_SETS, "a", edited)
    lose(bench, 1)
    await bench.rest(60)
    assert touches == []

    alter(bench, STATEFUL_SETS, "a", lambda live: live["status"].update(observedGeneration=2))
    await bench.rest(1)
    assert len(touches) == 1


async def test_another_missing_pod_is_requested_without_delay(bench, touches):
    lose(bench, 1)
    await bench.rest(30)
    bench.forget()
    already = len(touches)

    lose(bench, 2)
    await bench.rest(0.5)

    assert len(touches) == already + 1
    assert "a-1, a-2" in bench.events.posted[0][2]


async def test_a_second_pod_that_is_missing_does_not_make_the_first_one_look_new() -> None:
    clock = FakeClock()
    seen, pods = formed(3).observe(), MissingPods(Finder(FakeKube(), Store()), clock)
    first = replace(seen, pods=seen.pods[:2])
    both = replace(seen, pods=seen.pods[:1])

    assert (await pods.onto(KEY, first)).missing == {"c-2": 0.0}
    clock.now += 40
    assert (await pods.onto(KEY, both)).missing == {"c-1": 0.0, "c-2": 40.0}
    clock.now += 2
    assert (await pods.onto(KEY, first)).missing == {"c-2": 42.0}
    assert (await pods.onto(KEY, seen)).missing == {}


async def test_nothing_is_touched_while_the_cluster_is_paused(bench, touches):
    alter(bench, ETCD_CLUSTERS, "a", lambda body: body["spec"].update(paused=True))
    lose(bench, 1)
    for _ in range(100):
        await bench.reconciler.reconcile(KEY)
        bench.clock.now += 1

    assert touches == []


async def test_a_recreated_stateful_set_with_the_same_name_is_not_touched(bench, touches):
    """The write has the UID of the StatefulSet that was observed, so it cannot reach another."""
    lose(bench, 1)
    await bench.once()
    bench.clock.now += FIRST_SECONDS
    real = bench.kube.live(STATEFUL_SETS, "a")["metadata"]["uid"]

    def swapped() -> None:
        alter(bench, STATEFUL_SETS, "a", lambda live: live["metadata"].update(uid="another"))

    bench.kube.before[TOUCH] = swapped
    await bench.once()

    live = bench.kube.live(STATEFUL_SETS, "a")["metadata"]
    assert live["uid"] != real
    assert naming.TOUCHED not in live["annotations"]


async def test_a_refused_touch_is_reported_and_retried(bench: Bench) -> None:
    """For example by a webhook that allows no change of the StatefulSet."""
    bench.kube.failures[TOUCH] = [Rejected("denied by policy", status=403)] * 99
    lose(bench, 1)
    await bench.rest(5)

    told = bench.condition("Progressing")
    assert told is not None
    assert told["reason"] == "Waiting"
    assert "denied by policy" in told["message"]
    assert bench.kube.calls[TOUCH] == 1
    await bench.rest(100)
    assert 3 <= bench.kube.calls[TOUCH] <= 5
    bench.nodes.turn()
    await bench.run()
    assert "denied" not in str(bench.status)


def test_a_refused_touch_kept_a_lost_member_from_being_replaced() -> None:
    world = formed(5)
    emptied(world, 1)
    world.turn()
    seen = without_status(world.observe(), 4)
    others = tuple(pod for pod in seen.pods if pod.ordinal != 4)
    seen = replace(seen, pods=others, stalled=True)
    touch = decide(seen)
    assert isinstance(touch, TouchStatefulSet)
    assert put_off.may_wait(seen, touch)

    off = {put_off.name_of(touch): PutOff(put_off.made_by(touch), "denied")}

    assert isinstance(decide(replace(seen, put_off=off)), MemberRemove)


def stripped(pod: Any) -> None:
    """Somebody has removed its labels, so that its StatefulSet lets go of it."""
    pod["metadata"] |= {"labels": {}, "ownerReferences": []}


async def test_a_pod_without_its_labels_was_awaited_for_ever_and_nothing_said_why(bench, touches):
    """The name is taken, and the StatefulSet controller posts no Event about that."""
    alter(bench, PODS, "a-1", stripped)
    await bench.rest(60)

    told = bench.condition("Progressing")["message"]
    assert "pod a-1 to be created; there is a pod of this name without the labels" in told
    assert f"kubectl label pod a-1 --overwrite {naming.LABEL_NAME}=etcd " in told
    assert "a-1 (no pod: another one has its name)" in bench.condition("Degraded")["message"]
    assert bench.kube.calls["get Pod"] == len(touches), "looked up once for each touch"
    assert set(bench.kube.writes()) <= {TOUCH, "apply EtcdCluster/status"}


async def test_a_pod_that_gets_its_labels_back_is_ours_again(bench):
    labels = bench.kube.live(PODS, "a-1")["metadata"]["labels"]
    alter(bench, PODS, "a-1", stripped)
    await bench.rest(60)

    alter(bench, PODS, "a-1", lambda pod: pod["metadata"].update(labels=labels))

    await bench.run()
    assert bench.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("lost", [naming.LABEL_NAME, naming.LABEL_INSTANCE])
async def test_a_pod_that_no_service_selects_passed_for_a_member(bench, lost):
    """Neither clients nor other members find it, and its StatefulSet cannot replace it."""

    def relabelled(pod: Any) -> None:
        pod["metadata"] |= {"ownerReferences": []}
        pod["metadata"]["labels"][lost] = "other"

    alter(bench, PODS, "a-1", relabelled)
    await bench.rest(60)

    assert "without the labels" in bench.condition("Progressing")["message"]


async def test_a_pod_of_another_owner_was_awaited_without_naming_it(bench):
    owner = {"kind": "ReplicaSet", "name": "other", "uid": "u", "controller": True}
    alter(bench, PODS, "a-1", lambda pod: pod["metadata"].update(ownerReferences=[owner]))
    await bench.rest(60)

    told = bench.condition("Progressing")["message"]
    assert "a pod of this name belongs to ReplicaSet other: delete it" in told


async def test_the_node_was_blamed_for_a_left_over_pod_that_a_finalizer_keeps(bench):
    """Of the previous StatefulSet. Nor are pods above it created, so no member may serve."""
    owner = {"kind": "StatefulSet", "name": "a", "uid": "before", "controller": True}
    stopped = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    left = {"ownerReferences": [owner], "finalizers": ["mesh/a"], **stopped}
    alter(bench, PODS, "a-1", lambda pod: pod["metadata"].update(left))
    await bench.rest(60)

    told = bench.condition("Progressing")["message"]
    assert "another pod of this name is being deleted, and its finalizer mesh/a keeps it" in told
    assert "off for good" not in told


async def test_a_pod_that_the_watch_has_yet_to_show_is_not_in_the_way(bench):
    labels = bench.kube.live(PODS, "a-1")["metadata"]["labels"]
    alter(bench, PODS, "a-1", stripped)
    bench.kube.watching = False
    alter(bench, PODS, "a-1", lambda pod: pod["metadata"].update(labels=labels))
    await bench.rest(2)
    bench.kube.watching = True

    await bench.run()
    assert bench.condition("Ready")["status"] == "True"
