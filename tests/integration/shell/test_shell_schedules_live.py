"""The steps of a schedule with the real API server: created once, reported, deleted.

The clock of the test is hours ahead. An operator in the cluster would undo what is counted by such
a clock. So the object is being deleted in the API server, which makes that operator ignore it; the
operator under test is told that it is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from etcd_operator.backup_controllers.schedule import AGAIN_SECONDS, Schedules
from etcd_operator.kube.api import ETCD_BACKUPS, ETCD_SCHEDULES, Rejected
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.backup.deletion import FINALIZER

pytestmark = pytest.mark.integration

SPEC = {
    "schedule": "30 * * * *",
    "timeZone": "Europe/Berlin",
    "jitterSeconds": 0,
    "retention": {"count": 1},
    "template": {
        "clusterRef": {"name": "nobody"},
        "storageType": "Volume",
        "volume": {"claimName": "nothing", "path": "daily/etcd"},
    },
}

HOUR = 3600
DELETED = "deletionTimestamp"


def undeleted(resource, found):
    if not found or resource != ETCD_SCHEDULES:
        return found
    metadata = {key: found["metadata"][key] for key in found["metadata"] if key != DELETED}
    return found | {"metadata": metadata}


class UndeletedInStore(Store):
    def get(self, resource, namespace, name):
        return undeleted(resource, super().get(resource, namespace, name))


class UndeletedAsRead:
    """The client, but for what it reads of the schedule."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def get(self, resource, namespace, name):
        return undeleted(resource, await self._client.get(resource, namespace, name))


class Operator:
    """One that has just begun, with what a LIST shows."""

    def __init__(self, client, namespace, now):
        self.client, self.namespace, self.now = UndeletedAsRead(client), namespace, now
        self.store = UndeletedInStore()
        self.schedules = Schedules(
            self.client,
            self.store,
            Events(client, instance="test"),
            Metrics(),
            wall_clock=lambda: self.now,
        )

    async def rests(self, passes=20):
        for _ in range(passes):
            listing = await self.client.list(ETCD_BACKUPS, self.namespace)
            self.store.replace(ETCD_BACKUPS, self.namespace, listing.items, listing.version)
            known = await self.client.get(ETCD_SCHEDULES, self.namespace, "nightly")
            self.store.put(ETCD_SCHEDULES, known)
            if await self.schedules.reconcile((self.namespace, "nightly")) > AGAIN_SECONDS:
                return
        raise AssertionError("it never comes to rest")


async def made(client, namespace):
    found = await client.list(ETCD_BACKUPS, namespace)
    return {one["metadata"]["annotations"][naming.SCHEDULED_TIME]: one for one in found.items}


@pytest.fixture
async def nightly(client, namespace) -> AsyncIterator[dict]:
    """The schedule, which has been deleted and stays until the test is over."""
    body = {
        "metadata": {"namespace": namespace, "name": "nightly", "finalizers": ["example.com/test"]},
        "spec": SPEC | {"suspend": True},
    }
    made = await client.create(ETCD_SCHEDULES, body)
    where = (ETCD_SCHEDULES, namespace, "nightly")
    await client.delete(*where, uid=made["metadata"]["uid"])
    yield await client.merge_patch(*where, {"spec": {"suspend": None}})
    # Or the namespace would stay for ever, where no operator lets them go.
    for one in (await client.list(ETCD_BACKUPS, namespace)).items:
        await let_go(client, ETCD_BACKUPS, one)
    await let_go(client, ETCD_SCHEDULES, made)


async def let_go(client, resource, body):
    place = (body["metadata"]["namespace"], body["metadata"]["name"])
    with contextlib.suppress(Rejected):  # gone by now
        await client.merge_patch(resource, *place, {"metadata": {"finalizers": None}})


async def test_each_run_is_created_once_and_the_oldest_is_deleted(client, namespace, nightly):
    created = nightly["metadata"]["creationTimestamp"]
    second = (datetime.fromisoformat(created).timestamp() // HOUR + 3) * HOUR

    operator = Operator(client, namespace, second)
    await operator.rests()
    first = await made(client, namespace)
    assert len(first) == 1, "one makes up for those before"
    [(moment, backup)] = first.items()
    assert moment[14:16] == "30"
    assert backup["spec"]["volume"]["path"].startswith(f"daily/etcd_{moment[:10]}-")
    assert backup["spec"]["verify"] == "Restore"

    await Operator(client, namespace, second + 5).rests()
    again = await made(client, namespace)
    assert {one["metadata"]["uid"] for one in again.values()} == {backup["metadata"]["uid"]}

    for later in (1, 2):
        for one in (await client.list(ETCD_BACKUPS, namespace)).items:
            await client.merge_patch(
                ETCD_BACKUPS, namespace, one["metadata"]["name"],
                {"status": {"succeeded": True, "verified": "Restore", "location": "volume://a/b"}},
                status=True,
            )  # fmt: skip
        await Operator(client, namespace, second + later * HOUR).rests()

    left = await made(client, namespace)
    assert len(left) in (2, 3), "the newest, the one of before, and the oldest until it is gone"
    if moment in left:
        assert FINALIZER in left[moment]["metadata"]["finalizers"]
        assert left[moment]["spec"]["deletionPolicy"] == "Delete"
        assert DELETED in left[moment]["metadata"]
    kept = [one for at, one in left.items() if at != moment]
    assert not any(DELETED in one["metadata"] for one in kept)
    status = operator.store.get(ETCD_SCHEDULES, namespace, "nightly")["status"]
    assert status["lastScheduleTime"] == moment
    assert status["observedTimes"] == "30 * * * * Europe/Berlin"
