"""Kubernetes Events: sent once, counted across operators, and never in the way."""

import re

import pytest

from etcd_operator.kube.api import EVENTS, Conflict, Rejected, Unavailable
from etcd_operator.kube.events import MAX_MESSAGE, REPEAT_SECONDS, Events

CLUSTER = {
    "apiVersion": "etcd.database.coreos.com/v1beta2",
    "kind": "EtcdCluster",
    "metadata": {"name": "a", "namespace": "ns", "uid": "u1", "resourceVersion": "7"},
}


class Kube:
    def __init__(self):
        self.events = {}
        self.created = []
        self.trouble = None

    async def create(self, resource, manifest):
        assert resource is EVENTS
        self.created.append(manifest)
        if self.trouble:
            raise self.trouble
        name = manifest["metadata"]["name"]
        if name in self.events:
            raise Conflict("exists", status=409, reason="AlreadyExists")
        self.events[name] = manifest
        return manifest

    async def get(self, _resource, _namespace, name):
        return self.events.get(name)

    async def merge_patch(self, _resource, _namespace, name, patch):
        self.events[name] = self.events[name] | patch
        return self.events[name]


@pytest.fixture
def kube():
    return Kube()


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def events(kube, now):
    return Events(kube, instance="operator-0", clock=lambda: now[0])


async def test_an_event_refers_to_its_object(kube, events):
    await events.emit(CLUSTER, "Warning", "QuorumLost", "two of three are gone")

    [event] = kube.events.values()
    assert event["involvedObject"] == {
        "apiVersion": "etcd.database.coreos.com/v1beta2",
        "kind": "EtcdCluster",
        "namespace": "ns",
        "name": "a",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert event["metadata"]["namespace"] == "ns"
    assert (event["type"], event["reason"]) == ("Warning", "QuorumLost")
    assert event["message"] == "two of three are gone"
    assert event["count"] == 1
    assert event["reportingInstance"] == "operator-0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event["lastTimestamp"])


async def test_a_repeated_event_is_posted_once_until_it_is_old(kube, events, now):
    for _ in range(5):
        await events.emit(CLUSTER, "Normal", "Grown", "to 3")
    assert len(kube.created) == 1

    now[0] += REPEAT_SECONDS
    await events.emit(CLUSTER, "Normal", "Grown", "to 3")
    assert len(kube.created) == 2
    [event] = kube.events.values()
    assert event["count"] == 2


@pytest.mark.parametrize(
    "other",
    [
        ({"metadata": CLUSTER["metadata"] | {"uid": "u2"}}, "Normal", "Grown", "to 3"),
        ({}, "Warning", "Grown", "to 3"),
        ({}, "Normal", "Shrunk", "to 3"),
        ({}, "Normal", "Grown", "to 5"),
    ],
)
async def test_a_different_event_is_posted(kube, events, other):
    change, *rest = other
    await events.emit(CLUSTER, "Normal", "Grown", "to 3")
    await events.emit(CLUSTER | change, *rest)

    assert len(kube.events) == 2


async def test_a_restarted_operator_raises_the_count_of_an_earlier_event(kube):
    for _ in range(3):
        await Events(kube, instance="x").emit(CLUSTER, "Normal", "Grown", "to 3")

    [event] = kube.events.values()
    assert event["count"] == 3


@pytest.mark.parametrize(
    "trouble", [Unavailable("away"), Rejected("namespace is terminating", status=403)]
)
async def test_an_event_that_cannot_be_posted_is_logged_and_not_retried(
    kube, events, caplog, trouble
):
    caplog.set_level("INFO")
    kube.trouble = trouble
    for _ in range(5):
        await events.emit(CLUSTER, "Normal", "Grown", "to 3")

    assert len(kube.created) == 1
    [record] = caplog.records
    assert (record.levelname == "WARNING") == isinstance(trouble, Unavailable)
    assert "Grown was not posted" in record.getMessage()


async def test_an_event_that_is_deleted_between_conflict_and_count_is_dropped(kube, events):
    kube.trouble = Conflict("exists")

    await events.emit(CLUSTER, "Normal", "Grown", "to 3")

    assert kube.events == {}


async def test_an_event_about_an_object_with_the_longest_name_was_refused(kube, events):
    """The API server refused every Event about such an EtcdBackup."""
    name = f"{'a' * 235}.{'b' * 17}"
    about = {**CLUSTER, "metadata": {**CLUSTER["metadata"], "name": name}}
    await events.emit(about, "Normal", "Stored", "it is stored")

    [event] = kube.events.values()
    assert event["involvedObject"]["name"] == name
    assert re.fullmatch(r"a{235}\.[0-9a-f]{16}", event["metadata"]["name"])


async def test_long_messages_are_truncated_to_the_limit_of_the_api_server(kube, events):
    await events.emit(CLUSTER, "Normal", "Long", "x" * 5000)

    [event] = kube.events.values()
    assert len(event["message"]) == MAX_MESSAGE


async def test_the_name_of_an_event_is_valid(kube, events):
    await events.emit(CLUSTER, "Normal", "Odd", "Ünïcode / spaces\nlines")

    [name] = kube.events
    assert re.fullmatch(r"a\.[0-9a-f]{16}", name)
