"""What feeds the operators that the end-to-end tests kill."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, cast

import pytest
from harness.mortal import WATCHED, Dead, Fate, Lives, Mirror, MortalKube

from etcd_operator.kube.api import CLAIMS, PODS, SECRETS
from etcd_operator.kube.store import Store
from etcd_stateful import naming

if TYPE_CHECKING:
    from harness.api import Kube

    from etcd_operator.kube.client import Client


def added(number: int) -> dict[str, object]:
    metadata = {"namespace": "ns", "name": f"etcd-{number}", "uid": f"u{number}"}
    return {"type": "ADDED", "object": {"metadata": metadata | {"resourceVersion": f"{number}"}}}


class Watches:
    """Those of pods have events when the test puts some, all others never do."""

    def __init__(self):
        self.pods = queue.Queue()
        self.taken = threading.Semaphore(0)
        self.ended = threading.Event()

    def watch(self, kind, _namespace):
        if kind.path != PODS.plural:
            return
        try:
            while (event := self.pods.get(timeout=10)) is not None:
                yield event
                self.taken.release()
        finally:
            self.ended.set()

    def has(self, event):
        self.pods.put(event)
        assert self.taken.acquire(timeout=10)


@pytest.fixture
def watches():
    made = Watches()
    yield made
    made.pods.put(None)


def test_a_mirror_feeds_each_store_all_that_has_happened(watches):
    mirror = Mirror(cast("Kube", watches), "ns")
    assert PODS in WATCHED
    watches.has(added(1))
    store, another = Store(), Store()
    position = mirror.feed(store, 0)
    watches.has(added(2))
    mirror.feed(store, position)
    mirror.feed(another, 0)

    assert store.keys(PODS) == another.keys(PODS) == [("ns", "etcd-1"), ("ns", "etcd-2")]


def test_a_closed_mirror_keeps_nothing_and_stops_watching(watches):
    mirror = Mirror(cast("Kube", watches), "ns")
    watches.has(added(1))
    mirror.close()
    watches.pods.put(added(2))

    assert watches.ended.wait(10)
    store = Store()
    mirror.feed(store, 0)
    assert store.keys(PODS) == []


class Patched:
    async def merge_patch(self, *_words, **_options):
        return {}


async def test_records_that_were_written_with_labels_were_not_counted():
    """The patch of a bootstrap record puts the labels of its Secret back, so it was taken for the
    label of a pod: that it was written twice for one thing went unnoticed."""
    fate = Fate()
    kube = MortalKube(cast("Client", Patched()), fate)
    labels, notes = {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"annotations": {"a": "b"}}}
    touch = {"metadata": {"annotations": {naming.TOUCHED: "true"}}}
    made = ((SECRETS, labels), (CLAIMS, notes), (PODS, notes), (PODS, labels), (PODS, touch))
    for resource, patch in made:
        await kube.merge_patch(resource, "ns", "a", patch)
    lives = Lives(cast("Client", None), cast("Mirror", None), "image", happened=fate.happened)

    assert fate.writes[-2:] == ["note on Pod", "note on Pod"]
    assert lives.counts() == {"patch Secret": 1, "patch PersistentVolumeClaim": 1, "patch Pod": 1}


async def test_a_learner_that_etcd_refuses_for_seconds_was_counted_at_each_try():
    """The operator was to be killed at each write, and sixty of them were not enough."""
    fate = Fate(dies_at=3)

    async def refuses() -> None:
        raise ConnectionRefusedError

    for _ in range(5):
        with pytest.raises(ConnectionRefusedError):
            await fate.write("add a learner", refuses)
    await fate.write("add a learner", done)
    await fate.write("add a learner", done)
    assert fate.writes == ["add a learner"] * 2

    with pytest.raises(Dead):
        await fate.write("promote a learner", done)
    assert fate.happened == ["add a learner"] * 2


async def done() -> None:
    pass
