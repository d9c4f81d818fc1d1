"""Whatever happens in the real API server becomes a key within two seconds, whatever breaks."""

from __future__ import annotations

import asyncio

import pytest
from shell_live import Breakable, labels, service, until

from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
)

pytestmark = pytest.mark.integration

SECONDS = 2.0
CONTAINER = {"name": "c", "image": "none.invalid/none"}
MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "app.kubernetes.io/instance"


def child(resource, namespace):
    """An object that nothing in the cluster acts on: no pod of it is ever scheduled."""
    specs = {
        SERVICES: {"spec": {"ports": [{"port": 2379}]}},
        SECRETS: {"stringData": {"key": "x"}},
        PODS: {"spec": {"containers": [CONTAINER], "schedulingGates": [{"name": "never/ever"}]}},
        CLAIMS: {
            "spec": {
                "storageClassName": "",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
            }
        },
        STATEFUL_SETS: {
            "spec": {
                "replicas": 0,
                "serviceName": "a",
                "selector": {"matchLabels": {"x": "y"}},
                "template": {
                    "metadata": {"labels": {"x": "y"}},
                    "spec": {"containers": [CONTAINER]},
                },
            }
        },
    }
    metadata = {"namespace": namespace, "name": "a-thing", "labels": labels()}
    return {"metadata": metadata, **specs[resource]}


@pytest.mark.parametrize(
    "resource", [SERVICES, SECRETS, PODS, CLAIMS, STATEFUL_SETS], ids=lambda r: r.plural
)
async def test_changes_of_a_child_queue_its_cluster(client, namespace, inform, resource):
    informed, key, name = inform(namespace), (namespace, "a"), "a-thing"
    await informed.ready()
    manifest = child(resource, namespace)

    def relabel(**changed):
        return client.merge_patch(resource, namespace, name, {"metadata": {"labels": changed}})

    def known():
        return informed.store.get(resource, namespace, name)

    await client.apply(resource, manifest)
    took = {"made": await informed.asked(ETCD_CLUSTERS, key, SECONDS)}
    await relabel(**{INSTANCE: "b"})
    took["moved"] = await informed.asked(ETCD_CLUSTERS, (namespace, "a"), SECONDS)
    await relabel(**{INSTANCE: "a"})
    await informed.asked(ETCD_CLUSTERS, (namespace, "b"), SECONDS)
    await asyncio.sleep(0.2)
    informed.keys.clear()

    # Out of the selected watch: told as deleted, put back by an apply, and then there again.
    await relabel(**{MANAGED_BY: "somebody"})
    took["disowned"] = await informed.asked(ETCD_CLUSTERS, key, SECONDS)
    # A controller's late word about it may have asked too.
    await until(lambda: known() is None, SECONDS)
    healed = await client.apply(resource, manifest)
    assert healed["metadata"]["labels"][MANAGED_BY] == "etcd-operator"
    took["healed"] = await informed.asked(ETCD_CLUSTERS, key, SECONDS)
    await until(lambda: known() is not None, SECONDS)
    await relabel(**{INSTANCE: None})
    took["bared"] = await informed.asked(ETCD_CLUSTERS, key, SECONDS)

    uid = healed["metadata"]["uid"]
    await client.apply(resource, manifest)
    await informed.asked(ETCD_CLUSTERS, key, SECONDS)
    await client.delete(resource, namespace, name, uid=uid, grace_seconds=0)
    took["deleted"] = await informed.asked(ETCD_CLUSTERS, key, SECONDS)
    await until(lambda: known() is None, SECONDS)
    print(resource.plural, {what: f"{seconds * 1000:.0f} ms" for what, seconds in took.items()})


async def test_an_own_write_queues_at_most_one_pass(client, namespace, inform):
    informed = inform(namespace)
    await informed.ready()
    for number in range(5):
        manifest = service(namespace, labels=labels() | {"n": str(number)})
        informed.store.put(SERVICES, await client.apply(SERVICES, manifest))
    await asyncio.sleep(1)

    # None at all where the answer comes first, which on loopback it mostly does not.
    assert len(informed.keys) <= 5


async def test_objects_of_others_cause_no_watch_event(client, namespace, inform):
    informed = inform(namespace)
    await informed.ready()
    await client.create(SERVICES, service(namespace, "theirs", labels={INSTANCE: "a"}))
    await client.create(SERVICES, service(namespace, "ours"))
    await informed.asked(ETCD_CLUSTERS, (namespace, "a"), SECONDS)

    assert informed.store.get(SERVICES, namespace, "theirs") is None
    heard = informed.metrics.registry.get_sample_value(
        "etcd_operator_watch_events_total", {"resource": "services", "type": "ADDED"}
    )
    assert heard == 1


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        (ETCD_CLUSTERS, {"size": 1, "paused": True}),
        (
            ETCD_BACKUPS,
            {
                "etcdEndpoints": ["http://a:2379"],
                "storageType": "S3",
                "s3": {"path": "mybucket/etcd.backup", "awsSecret": "s"},
            },
        ),
        (
            ETCD_SCHEDULES,
            {
                "schedule": "0 3 * * *",
                "suspend": True,
                "template": {
                    "etcdEndpoints": ["http://a:2379"],
                    "storageType": "S3",
                    "s3": {"path": "mybucket/etcd.backup", "awsSecret": "s"},
                },
            },
        ),
        (
            ETCD_RESTORES,
            {
                "etcdCluster": {"name": "mine"},
                "backupStorageType": "S3",
                "s3": {"path": "mybucket/etcd.backup", "awsSecret": "s"},
            },
        ),
    ],
    ids=lambda value: getattr(value, "plural", ""),
)
async def test_changes_of_a_custom_resource_queue_it(client, namespace, inform, resource, spec):
    informed, key = inform(namespace), (namespace, "mine")
    await informed.ready()
    made = await client.apply(
        resource, {"metadata": {"namespace": namespace, "name": "mine"}, "spec": spec}
    )
    await informed.asked(resource, key, SECONDS)
    await client.merge_patch(resource, namespace, "mine", {"metadata": {"labels": {"x": "y"}}})
    await informed.asked(resource, key, SECONDS)
    assert "finalizers" not in made["metadata"]
    await client.delete(resource, namespace, "mine", uid=made["metadata"]["uid"])
    await informed.asked(resource, key, SECONDS)
    await until(lambda: informed.store.get(resource, *key) is None, SECONDS)


async def test_kopf_leaves_no_trace_on_any_object(client, namespace, inform):
    informed = inform(namespace)
    await informed.ready()
    place = {"namespace": namespace, "name": "mine"}
    await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": {"size": 1, "paused": True}})
    await client.apply(SERVICES, service(namespace))
    await informed.asked(ETCD_CLUSTERS, (namespace, "a"), SECONDS)
    await asyncio.sleep(3)

    for resource, name in ((ETCD_CLUSTERS, "mine"), (SERVICES, "a")):
        metadata = (await client.get(resource, namespace, name))["metadata"]
        assert "finalizers" not in metadata
        assert "kopf" not in str(metadata)


async def test_a_deletion_missed_by_a_broken_watch_is_found(client, namespace, inform):
    """kopf gets a 410 and lists again without comparing. Our own LIST, which follows, compares."""
    connection = Breakable(client)
    for name in ("a", "b", "c"):
        await client.create(SERVICES, service(namespace, name, labels=labels(name)))
    informed = inform(namespace, connection)
    await informed.ready()

    await connection.breaks()
    lost = informed.store.get(SERVICES, namespace, "b")
    await client.delete(SERVICES, namespace, "b", uid=lost["metadata"]["uid"])
    await asyncio.sleep(1)
    assert informed.keys == []
    assert informed.store.get(SERVICES, namespace, "b") is not None

    connection.too_old = True
    connection.cut = False
    await until(lambda: SERVICES.path(namespace) in connection.were_too_old, 30)
    connection.too_old = False
    took = await informed.asked(ETCD_CLUSTERS, (namespace, "b"), 30)

    assert informed.store.get(SERVICES, namespace, "b") is None
    assert informed.store.get(SERVICES, namespace, "a") is not None
    print(f"healed {took:.1f} s after the watch could begin again")


async def test_a_resync_finds_changes_that_no_watch_reports(client, namespace, inform):
    connection = Breakable(client)
    informed = inform(namespace, connection, resync_seconds=4)
    await informed.ready()
    await connection.breaks()
    informed.keys.clear()

    made = await client.create(SERVICES, service(namespace))
    await informed.asked(ETCD_CLUSTERS, (namespace, "a"), 6)
    await client.delete(SERVICES, namespace, "a", uid=made["metadata"]["uid"])
    await informed.asked(ETCD_CLUSTERS, (namespace, "a"), 6)


async def test_changes_during_a_disconnected_watch_are_caught_up(client, namespace, inform):
    connection = Breakable(client)
    informed = inform(namespace, connection)
    await informed.ready()
    await connection.breaks()
    made = await client.create(SERVICES, service(namespace))
    await asyncio.sleep(0.5)
    connection.cut = False
    await informed.asked(ETCD_CLUSTERS, (namespace, "a"), 15)
    await client.delete(SERVICES, namespace, "a", uid=made["metadata"]["uid"])
    await informed.asked(ETCD_CLUSTERS, (namespace, "a"), SECONDS)
