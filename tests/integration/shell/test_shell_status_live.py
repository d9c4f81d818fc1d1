"""The status of a custom resource against the real API server, which ignores the UID in it."""

from __future__ import annotations

import pytest

from etcd_operator.events import Events
from etcd_operator.kube import ETCD_CLUSTERS, ETCD_RESTORES
from etcd_operator.restores import Restores
from etcd_operator.statuses import write_status
from etcd_operator.store import Store

pytestmark = pytest.mark.integration

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


async def replace(client, made):
    metadata = made["metadata"]
    place = {"namespace": metadata["namespace"], "name": metadata["name"]}
    await client.delete(ETCD_CLUSTERS, *place.values(), uid=metadata["uid"])
    await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})


async def test_never_lands_on_the_next_cluster_of_the_name(client, namespace):
    place = {"namespace": namespace, "name": "a"}
    made = await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})
    kube = Interrupted(client, lambda: replace(client, made))

    assert await write_status(kube, ETCD_CLUSTERS, made, STATUS) is None
    live = await client.get(ETCD_CLUSTERS, namespace, "a")
    assert live["metadata"]["uid"] != made["metadata"]["uid"]
    assert (live.get("status") or {}).get("reason") != STATUS["reason"]
    assert kube.calls == ["apply", "get"]


async def test_from_an_older_body_is_written_all_the_same(client, namespace):
    place = {"namespace": namespace, "name": "a"}
    made = await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})
    labels = {"metadata": {"labels": {"x": "y"}}}
    kube = Interrupted(client, lambda: client.merge_patch(ETCD_CLUSTERS, namespace, "a", labels))

    written = await write_status(kube, ETCD_CLUSTERS, made, STATUS)
    assert written["status"]["reason"] == STATUS["reason"]
    assert written["metadata"]["labels"] == {"x": "y"}
    assert kube.calls == ["apply", "get", "apply"]


async def test_of_a_cluster_that_is_gone_is_nobodys(client, namespace):
    place = {"namespace": namespace, "name": "a"}
    made = await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})
    await client.delete(ETCD_CLUSTERS, namespace, "a", uid=made["metadata"]["uid"])

    assert await write_status(client, ETCD_CLUSTERS, made, STATUS) is None
    assert await client.get(ETCD_CLUSTERS, namespace, "a") is None


async def test_an_answer_of_a_restore_is_its_own(client, namespace):
    place = {"namespace": namespace, "name": "b"}
    made = await client.apply(ETCD_RESTORES, {"metadata": place, "spec": RESTORE})
    await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})
    store = Store()
    store.put(ETCD_RESTORES, made)
    restores = Restores(client, store, Events(client, instance="test"), operator_image="none")
    await restores.reconcile((namespace, "b"))

    live = await client.get(ETCD_RESTORES, namespace, "b")
    reasons = {one["type"]: one["reason"] for one in live["status"]["conditions"]}
    assert reasons["Complete"] == "ClusterExists"
