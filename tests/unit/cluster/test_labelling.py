"""Notes on pods beside the passes: once for each pod, by its UID, without delaying a pass."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from reconcile_bench import KEY, Bench

from etcd_operator.cluster.labelling import MOST_WRITES, REFUSED_SECONDS, UNANSWERED_SECONDS
from etcd_operator.cluster.observe import BEGIN_SECONDS
from etcd_operator.kube.api import ETCD_CLUSTERS, PODS, Rejected, Unavailable
from etcd_operator.kube.store import Owner
from etcd_operator.rate_limit import BURST, SECONDS_PER_WRITE
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.membership.observation import Observation


@pytest.fixture
def bench() -> Bench:
    return Bench()


def labels(bench: Bench) -> dict[str, str]:
    pods = {name[2]: one for name, one in bench.kube.objects.items() if name[0] is PODS}
    return {name: one["metadata"]["labels"].get(naming.MEMBER_ID, "") for name, one in pods.items()}


def owners_woken(bench: Bench) -> list[Owner]:
    """Whom the store wakes from now on."""
    woken: list[Owner] = []
    bench.store._wake = woken.append
    return woken


async def test_each_pod_is_labelled_with_its_member_once(bench):
    bench.declare()
    await bench.run()

    assert {int(label, 16) for label in labels(bench).values()} == set(bench.etcd.listed)
    assert bench.kube.calls["patch Pod"] == 3


async def test_a_running_cluster_of_an_older_operator_gets_its_labels(bench):
    bench.declare()
    await bench.run()
    without_labels(bench)
    await bench.run()

    assert all(labels(bench).values())


async def test_no_pass_waits_for_a_label(bench, monkeypatch):
    bench.declare()
    await bench.run()
    without_labels(bench)
    held, asked, patch = asyncio.Event(), list[str](), bench.kube.merge_patch

    async def slow(resource, namespace, name, *words, **more):
        asked.append(name)
        await held.wait()
        return await patch(resource, namespace, name, *words, **more)

    monkeypatch.setattr(bench.kube, "merge_patch", slow)
    for _ in range(3):
        await bench.reconciler.reconcile(KEY)
        await asyncio.sleep(0)
    assert sorted(asked) == ["a-0", "a-1", "a-2"], "none is asked for twice meanwhile"
    assert not any(labels(bench).values())

    held.set()
    await bench.reconciler.drain()
    assert all(labels(bench).values())


async def test_a_change_of_a_pod_that_came_with_the_answer_to_its_label_was_seen_by_no_pass(bench):
    """The watch was later than the answer, so for the store its event was no news."""
    bench.declare()
    await bench.run()
    without_labels(bench)
    woken = owners_woken(bench)

    def not_ready() -> None:
        pod = bench.kube.live(PODS, "a-0")
        pod["status"]["conditions"] = []
        bench.kube.watching = False
        bench.kube.put(PODS, pod)

    bench.kube.before["patch Pod"] = not_ready
    await bench.once()

    assert bench.store.get(PODS, "default", "a-0")["status"]["conditions"] == []
    assert Owner(ETCD_CLUSTERS, KEY) in woken


async def test_a_label_that_somebody_removes_each_time_was_written_as_fast_as_possible(bench):
    bench.declare(size=1)
    await bench.run()
    bench.clock.now += 600
    bench.forget()
    for _ in range(40):
        pod = bench.kube.live(PODS, "a-0")
        pod["metadata"]["labels"].pop(naming.MEMBER_ID, None)
        bench.kube.put(PODS, pod)
        await bench.once()
    assert bench.kube.calls["patch Pod"] == BURST

    bench.clock.now += SECONDS_PER_WRITE
    await bench.once()
    assert all(labels(bench).values()), "it is still tried again"


async def test_a_label_whose_event_was_faster_than_the_answer_queues_nothing_more(bench):
    bench.declare()
    await bench.run()
    without_labels(bench)
    woken = owners_woken(bench)
    await bench.once()

    assert all(labels(bench).values())
    assert not woken


async def test_a_refusal_is_logged_once_and_not_tried_again(bench, monkeypatch, caplog):
    asked = refuse(bench, monkeypatch, Rejected("no, 403", status=403))
    bench.declare()
    await bench.run()
    for _ in range(3):
        await bench.once()

    assert len(asked) == 3
    assert [one.levelno for one in caplog.records].count(logging.WARNING) == 3


async def test_a_pod_whose_label_a_policy_had_refused_stayed_without_it(bench, monkeypatch, caplog):
    with monkeypatch.context() as meanwhile:
        asked = refuse(bench, meanwhile, Rejected("no, 403", status=403))
        bench.declare()
        await bench.run()
        bench.clock.now += REFUSED_SECONDS
        await bench.once()
    assert len(asked) == 6
    assert [one.levelno for one in caplog.records].count(logging.WARNING) == 3, "said once"

    bench.clock.now += REFUSED_SECONDS
    await bench.once()

    assert all(labels(bench).values())


def replaced(bench: Bench, **status: str) -> None:
    """A pod was deleted, and its successor has a node."""
    pod = bench.kube.live(PODS, "a-1")
    pod["metadata"]["uid"] = "another"
    bench.kube.put(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n"}, "status": status})
    bench.forget()


def touched(bench: Bench) -> bool:
    return naming.TOUCHED in bench.kube.live(PODS, "a-1")["metadata"].get("annotations", {})


async def test_a_pod_waited_a_quarter_of_a_minute_for_a_kubelet_that_had_been_refused_its_claim():
    bench = await Bench.settled()
    replaced(bench)
    await bench.rest(BEGIN_SECONDS - 0.1)
    assert not touched(bench), "most kubelets are only a moment late"

    await bench.rest(0.2)
    assert touched(bench)

    await bench.rest(60)
    assert bench.kube.calls["patch Pod"] == 1


async def test_a_pod_whose_touch_was_refused_went_without_its_label_for_ten_minutes():
    bench = await Bench.settled()
    serving = bench.kube.live(PODS, "a-1")["status"]
    replaced(bench)
    bench.kube.failures["patch Pod"] = [Rejected("no pods that have not begun", status=403)]
    await bench.rest(BEGIN_SECONDS + 0.1)
    assert not bench.kube.failures["patch Pod"]

    pod = bench.kube.live(PODS, "a-1")
    del pod["metadata"]["labels"][naming.MEMBER_ID]
    bench.kube.put(PODS, pod | {"status": serving})
    await bench.rest(1)

    assert all(labels(bench).values())


async def test_a_pod_that_has_begun_is_left_alone():
    bench = await Bench.settled()
    replaced(bench, podIP="10.0.0.9")
    await bench.rest(60)

    assert not bench.kube.calls["patch Pod"]


async def test_refused_pods_were_remembered_long_after_they_were_gone(bench, monkeypatch):
    refuse(bench, monkeypatch, Rejected("no, 403", status=403))
    body = bench.declare()
    await bench.run()
    labelling = bench.reconciler._labels
    assert labelling._refused

    labelling.write(Observation(parse_cluster(body), None, None, None, None))

    assert not labelling._refused


async def test_a_deleted_cluster_was_remembered_for_its_refused_pods(bench, monkeypatch):
    refuse(bench, monkeypatch, Rejected("no, 403", status=403))
    bench.declare()
    await bench.run()
    bench.kube.remove(ETCD_CLUSTERS, *KEY)

    await bench.once()

    assert not bench.reconciler._labels._refused


@pytest.mark.parametrize(
    "answer", [Rejected("no, 403", status=403), Unavailable("failed calling webhook", status=500)]
)
async def test_a_cluster_deleted_while_a_label_was_under_way_was_remembered_for_good(
    bench, monkeypatch, answer
):
    bench.declare()
    await bench.run()
    without_labels(bench)
    held = asyncio.Event()

    async def late(*_, **__):
        await held.wait()
        raise answer

    monkeypatch.setattr(bench.kube, "merge_patch", late)
    await bench.reconciler.reconcile(KEY)
    await asyncio.sleep(0)
    bench.kube.remove(ETCD_CLUSTERS, *KEY)
    await bench.reconciler.reconcile(KEY)
    held.set()
    await bench.reconciler.drain()

    labelling = bench.reconciler._labels
    assert not labelling._refused
    assert not labelling._unanswered
    assert not labelling._under_way


async def test_a_deleted_pod_is_no_reason_for_a_warning(bench, monkeypatch, caplog):
    refuse(bench, monkeypatch, Rejected("gone", status=404))
    bench.declare()
    await bench.run()

    assert logging.WARNING not in [one.levelno for one in caplog.records]


async def test_after_no_answer_a_later_pass_tries_again(bench, monkeypatch):
    with monkeypatch.context() as meanwhile:
        refuse(bench, meanwhile, Unavailable("no answer"))
        bench.declare()
        await bench.run()
        await bench.reconciler.drain()
    bench.clock.now += UNANSWERED_SECONDS
    await bench.once()
    await bench.reconciler.drain()

    assert all(labels(bench).values())


async def test_while_a_webhook_was_down_every_pass_wrote_every_label(bench, monkeypatch):
    bench.declare()
    await bench.run()
    without_labels(bench)
    asked = refuse(bench, monkeypatch, Unavailable("failed calling webhook", status=500))
    for _ in range(60):
        await bench.once()
        bench.clock.now += 1

    assert len(asked) == 3 * 60 / UNANSWERED_SECONDS


async def test_labels_of_a_fleet_that_hung_at_a_webhook_kept_the_lease_from_being_renewed(
    bench, monkeypatch
):
    """They used up all connections to the API server."""
    bench.declare()
    await bench.run()
    without_labels(bench)
    held, asked = asyncio.Event(), list[str]()

    async def hangs(resource, namespace, name, *words, **more):
        asked.append(name)
        await held.wait()
        raise Unavailable("context deadline exceeded", status=500)

    monkeypatch.setattr(bench.kube, "merge_patch", hangs)
    cluster = parse_cluster(bench.body)
    seen = (await bench.reconciler._observer.observe(bench.body, cluster, quiet=False)).observation
    for number in range(50):
        pods = tuple(replace(one, uid=f"{number} {one.uid}") for one in seen.pods)
        bench.reconciler._labels.write(replace(seen, pods=pods))
    await asyncio.sleep(0)

    assert len(asked) == MOST_WRITES
    held.set()
    await bench.reconciler.drain()


async def test_labels_and_events_under_way_were_written_after_the_lease_was_lost(
    bench, monkeypatch
):
    bench.declare()
    await bench.run()
    without_labels(bench)
    held, late, patch = asyncio.Event(), list[str](), bench.kube.merge_patch

    async def slow(resource, namespace, name, *words, **more):
        await held.wait()
        late.append(name)
        return await patch(resource, namespace, name, *words, **more)

    async def emit(about, kind, reason, message):
        await held.wait()
        late.append(reason)

    monkeypatch.setattr(bench.kube, "merge_patch", slow)
    monkeypatch.setattr(bench.events, "emit", emit)
    bench.reconciler._reporter.event(bench.body, "Normal", "Formed", "words")
    await bench.reconciler.reconcile(KEY)
    await asyncio.sleep(0)
    await bench.reconciler.abandon()
    held.set()
    await asyncio.sleep(0.01)

    assert late == []


def without_labels(bench: Bench) -> None:
    """Pods as an older operator left them, seen by a new one."""
    for name, pod in bench.kube.objects.items():
        if name[0] is PODS:
            del pod["metadata"]["labels"][naming.MEMBER_ID]
    bench.begin_process()


def refuse(bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[str]:
    asked, patch = list[str](), bench.kube.merge_patch

    async def refused(resource, namespace, name, *words, **more):
        if resource is PODS:
            asked.append(name)
            raise error
        return await patch(resource, namespace, name, *words, **more)

    monkeypatch.setattr(bench.kube, "merge_patch", refused)
    return asked
