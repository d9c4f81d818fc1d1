"""The status of a custom resource with the real API server, which ignores a UID in it."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from etcd_operator.backup_controllers.restore import Restores
from etcd_operator.kube.api import ETCD_CLUSTERS, ETCD_RESTORES, Rejected, Resource
from etcd_operator.kube.events import Events
from etcd_operator.kube.statuses import write_status
from etcd_operator.kube.store import Store

pytestmark = pytest.mark.integration

DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
PAUSED = {"size": 1, "paused": True}
"""An operator that may be installed in the cluster leaves these alone but for their status."""
RESTORE = {
    "etcdCluster": {"name": "b"},
    "backupStorageType": "S3",
    "s3": {"path": "mybucket/etcd.backup", "awsSecret": "s"},
}
STATUS = {"reason": "said by the test"}


class Interrupted:
    """The client, and what happens just before its first write of a status arrives."""

    def __init__(self, client, happens):
        self._client = client
        self._happens = happens
        self.calls = []

    async def get(self, *place):
        self.calls.append("get")
        return await self._client.get(*place)

    async def apply(self, resource, manifest, *, status=False):
        self.calls.append("apply")
        if self._happens is not None:
            happens, self._happens = self._happens, None
            await happens()
        return await self._client.apply(resource, manifest, status=status)


@pytest.fixture
async def notes(client, namespace):
    """A custom resource that no operator writes the status of."""
    group = f"test-{uuid.uuid4().hex[:8]}.example.com"
    notes = Resource(group, "v1", "notes", "Note")
    made = await client.create(DEFINITIONS, definition(notes))
    async with asyncio.timeout(60):
        while not await is_served(client, notes, namespace):
            await asyncio.sleep(0.1)
    yield notes
    name = made["metadata"]["name"]
    await client.delete(DEFINITIONS, "", name, uid=made["metadata"]["uid"])


def definition(resource):
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}},
    }
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {"plural": resource.plural, "kind": resource.kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def is_served(client, resource, namespace):
    try:
        await client.list(resource, namespace)
    except Rejected as error:
        if error.status != 404:
            raise
        return False
    return True


async def replace(client, notes, made):
    metadata = made["metadata"]
    place = {"namespace": metadata["namespace"], "name": metadata["name"]}
    await client.delete(notes, *place.values(), uid=metadata["uid"])
    await client.apply(notes, {"metadata": place})


async def test_a_status_is_never_written_to_a_new_object_with_the_same_name(
    client, namespace, notes
):
    made = await client.apply(notes, {"metadata": {"namespace": namespace, "name": "a"}})
    kube = Interrupted(client, lambda: replace(client, notes, made))

    assert await write_status(kube, notes, made, STATUS) is None
    live = await client.get(notes, namespace, "a")
    assert live["metadata"]["uid"] != made["metadata"]["uid"]
    assert "status" not in live
    assert kube.calls == ["apply", "get"]


async def test_a_status_based_on_an_older_body_is_written(client, namespace, notes):
    made = await client.apply(notes, {"metadata": {"namespace": namespace, "name": "a"}})
    labels = {"metadata": {"labels": {"x": "y"}}}
    kube = Interrupted(client, lambda: client.merge_patch(notes, namespace, "a", labels))

    written = await write_status(kube, notes, made, STATUS)
    assert written["status"] == STATUS
    assert written["metadata"]["labels"] == {"x": "y"}
    assert kube.calls == ["apply", "get", "apply"]


async def test_a_status_of_a_deleted_object_is_dropped(client, namespace, notes):
    made = await client.apply(notes, {"metadata": {"namespace": namespace, "name": "a"}})
    await client.delete(notes, namespace, "a", uid=made["metadata"]["uid"])

    assert await write_status(client, notes, made, STATUS) is None
    assert await client.get(notes, namespace, "a") is None


async def test_a_restore_writes_its_own_status(client, namespace):
    place = {"namespace": namespace, "name": "b"}
    # The cluster first: an operator that is installed may begin with the restore at once.
    await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})
    made = await client.apply(ETCD_RESTORES, {"metadata": place, "spec": RESTORE})
    store = Store()
    store.put(ETCD_RESTORES, made)
    restores = Restores(client, store, Events(client, instance="test"), operator_image="none")
    await restores.reconcile((namespace, "b"))

    live = await client.get(ETCD_RESTORES, namespace, "b")
    reasons = {one["type"]: one["reason"] for one in live["status"]["conditions"]}
    assert reasons["Complete"] == "ClusterExists"
