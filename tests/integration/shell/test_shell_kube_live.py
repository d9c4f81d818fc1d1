"""The client's verbs with the real API server: preconditions, conflicts, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import copy

import pytest
from harness.slow import SLOW
from shell_live import NODES, labels, service
from worlds import body

from etcd_operator.cluster import replacing
from etcd_operator.kube import client as client_module
from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_CLUSTERS,
    EVENTS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Conflict,
    Rejected,
)
from etcd_operator.kube.events import Events
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.manifests.drift import drift
from etcd_stateful.manifests.exclusive import excluded, replacement
from etcd_stateful.manifests.services import client_service
from etcd_stateful.manifests.statefulset import stateful_set

pytestmark = pytest.mark.integration

OTHER_UID = "00000000-0000-0000-0000-000000000000"
OURS = "app.kubernetes.io/managed-by=etcd-operator"


LABELS = labels()


async def test_apply_creates_and_updates_and_an_equal_apply_changes_nothing(client, namespace):
    made = await client.apply(SERVICES, service(namespace))
    again = await client.apply(SERVICES, service(namespace))
    changed = await client.apply(SERVICES, service(namespace, labels=LABELS | {"x": "y"}))

    assert made["metadata"]["uid"] == again["metadata"]["uid"] == changed["metadata"]["uid"]
    assert made["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    assert changed["metadata"]["labels"]["x"] == "y"
    assert changed == await client.get(SERVICES, namespace, "a")


async def test_apply_removes_omitted_fields_and_overrides_other_managers(client, namespace):
    await client.apply(SERVICES, service(namespace, labels=LABELS | {"x": "y"}))
    patch = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "someone", "z": "kept"}}}
    await client.merge_patch(SERVICES, namespace, "a", patch)
    healed = await client.apply(SERVICES, service(namespace))

    assert healed["metadata"]["labels"] == LABELS | {"z": "kept"}


EXPOSED = {"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]}
PROFILE = {"seccompProfile": {"type": "Localhost", "localhostProfile": "etcd.json"}}


def alter(altered, spec):
    """What others set in the spec of an object, in place of ours or beside it."""
    pod = spec["template"]["spec"] if "template" in spec else {}
    [etcd] = pod.get("containers") or [{}]
    match altered:
        case "probe":
            etcd["readinessProbe"] = {"tcpSocket": {"port": 2379}}
        case "variable":
            etcd["env"] = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]
        case "volume":
            others = [one for one in pod["volumes"] if one["name"] != "data"]
            pod["volumes"] = [*others, {"name": "data", "hostPath": {"path": "/srv"}}]
        case "limit":
            etcd["resources"] = {"limits": {"memory": "64Mi"}}
        case "profile":
            pod["securityContext"] |= PROFILE
        case "strategy":
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        case "exposed":
            spec |= EXPOSED


@pytest.mark.parametrize(
    "altered", ["probe", "variable", "volume", "limit", "profile", "strategy", "exposed"]
)
async def test_what_others_have_set_beside_our_fields_is_gone_after_a_replacement(
    client, namespace, altered
):
    """Not after an apply. That is refused, but up to Kubernetes 1.33 for no pod template: the two
    stand there side by side, and no pod can be made."""
    pod = {"etcdEnv": [{"name": "A", "value": "1"}], "resources": {"requests": {"memory": "1Gi"}}}
    given = body(3, pod=pod if altered != "volume" else pod | {"emptyDir": {}})
    given["metadata"]["namespace"] = namespace
    cluster = parse_cluster(given)
    manifest = stateful_set(cluster, replicas=0, operator_image="x")
    resource = SERVICES if altered == "exposed" else STATEFUL_SETS
    if altered == "exposed":
        manifest = client_service(cluster)
    del manifest["metadata"]["ownerReferences"]  # nothing deletes it for want of the EtcdCluster
    made = await client.apply(resource, manifest)
    name, spec = made["metadata"]["name"], copy.deepcopy(made["spec"])
    alter(altered, spec)
    live = await client.merge_patch(resource, namespace, name, {"spec": spec})
    try:
        live = await client.apply(resource, manifest)
    except Rejected as refused:
        if not refused.invalid:
            raise
    else:
        assert drift(live, manifest) is None
        assert excluded(live, manifest)

    healed = await client.merge_patch(resource, namespace, name, replacement(live, manifest))

    assert excluded(healed, manifest) is None
    assert healed["spec"] == made["spec"]
    assert (await client.apply(resource, manifest))["spec"] == made["spec"]


async def test_a_request_that_was_put_back_stayed_when_the_spec_left_it_out(client, namespace):
    """The patch that puts it back in place of others' limits owned it from then on, and no apply
    removes what somebody else owns."""
    given = body(3, pod={"resources": {"requests": {"memory": "64Mi"}}})
    given["metadata"]["namespace"] = namespace
    manifest = stateful_set(parse_cluster(given), replicas=0, operator_image="x")
    del manifest["metadata"]["ownerReferences"]
    made = await client.apply(STATEFUL_SETS, manifest)
    spec = copy.deepcopy(made["spec"])
    [etcd] = spec["template"]["spec"]["containers"]
    etcd["resources"] = {"requests": {"memory": "32Mi"}, "limits": {"memory": "32Mi"}}
    live = await client.merge_patch(STATEFUL_SETS, namespace, "c", {"spec": spec})
    while excluded(live, manifest) or drift(live, manifest):
        seen = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
        told = manifest | {"metadata": manifest["metadata"] | seen}
        with contextlib.suppress(Conflict):  # the controller writes the status
            await replacing.apply(client, STATEFUL_SETS, live, told)
        live = await client.get(STATEFUL_SETS, namespace, "c")
    assert live["spec"] == made["spec"]

    [etcd] = manifest["spec"]["template"]["spec"]["containers"]
    del etcd["resources"]
    without = await client.apply(STATEFUL_SETS, manifest)
    [etcd] = without["spec"]["template"]["spec"]["containers"]
    assert not etcd["resources"]


async def test_an_emoji_or_a_control_character_had_its_apply_refused(client, namespace):
    text = "\U0001f511 \x00\x1b\x7f\x85\u2028\ufeff\uffff \\ud83d"
    made = service(namespace)
    made["metadata"]["annotations"] = {"example.com/note": text}

    assert (await client.apply(SERVICES, made))["metadata"]["annotations"] == {
        "example.com/note": text
    }


async def test_apply_with_another_uid_changes_and_creates_nothing(client, namespace):
    with pytest.raises(Conflict):
        await client.apply(SERVICES, service(namespace, uid=OTHER_UID))
    assert await client.get(SERVICES, namespace, "a") is None

    made = await client.apply(SERVICES, service(namespace))
    with pytest.raises(Conflict):
        await client.apply(SERVICES, service(namespace, uid=OTHER_UID, labels={}))
    assert await client.get(SERVICES, namespace, "a") == made


PAUSED = {"size": 1, "paused": True}
"""An operator that may be installed in the cluster leaves these alone but for their status."""


async def test_a_custom_resource_of_another_uid_is_a_conflict(client, namespace):
    place = {"namespace": namespace, "name": "a"}
    other = {"metadata": place | {"uid": OTHER_UID}, "spec": {"size": 3}}
    await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})

    with pytest.raises(Conflict):
        await client.apply(ETCD_CLUSTERS, other)
    with pytest.raises(Conflict):
        await client.merge_patch(ETCD_CLUSTERS, namespace, "a", other)


async def test_a_status_of_another_object_with_the_same_name_is_a_conflict(client, namespace):
    place = {"namespace": namespace, "name": "a"}
    other = {"metadata": place | {"uid": OTHER_UID}, "status": {"phase": "Creating"}}
    with pytest.raises(Rejected) as refused:
        await client.apply(ETCD_CLUSTERS, other, status=True)
    assert refused.value.status == 404

    made = await client.apply(ETCD_CLUSTERS, {"metadata": place, "spec": PAUSED})
    # The API server ignores the UID of a status; the client at least notices.
    with pytest.raises(Conflict):
        await client.apply(ETCD_CLUSTERS, other, status=True)
    with pytest.raises(Conflict):
        await client.merge_patch(ETCD_CLUSTERS, namespace, "a", other, status=True)

    # The resourceVersion it does not ignore.
    stale = {"resourceVersion": made["metadata"]["resourceVersion"]}
    await client.merge_patch(ETCD_CLUSTERS, namespace, "a", {"metadata": {"labels": {"x": "y"}}})
    with pytest.raises(Conflict):
        await client.apply(
            ETCD_CLUSTERS, {"metadata": place | stale, "status": {"phase": "Failed"}}, status=True
        )
    after = await client.get(ETCD_CLUSTERS, namespace, "a")
    # An operator that is installed may have said something else of it meanwhile.
    assert after["status"].get("phase") != "Failed"


async def test_apply_of_an_older_version_is_a_conflict(client, namespace):
    made = await client.apply(SERVICES, service(namespace))
    await client.apply(SERVICES, service(namespace, labels=LABELS | {"x": "y"}))
    stale = made["metadata"]["resourceVersion"]

    with pytest.raises(Conflict):
        await client.apply(SERVICES, service(namespace, resourceVersion=stale))


async def test_a_second_create_is_a_conflict_that_says_so(client, namespace):
    await client.create(SERVICES, service(namespace))

    with pytest.raises(Conflict) as refused:
        await client.create(SERVICES, service(namespace))
    assert refused.value.reason == "AlreadyExists"


async def test_merge_patch_checks_uid_and_version(client, namespace):
    made = await client.create(SERVICES, service(namespace))
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]

    def patch(**metadata):
        patch = {"metadata": {"annotations": {"a": "b"}} | metadata}
        return client.merge_patch(SERVICES, namespace, "a", patch)

    with pytest.raises(Conflict):
        await patch(uid=OTHER_UID)
    assert await client.get(SERVICES, namespace, "a") == made
    await patch(uid=uid, resourceVersion=version)
    with pytest.raises(Conflict):
        await patch(uid=uid, resourceVersion=version)


async def test_writes_to_an_absent_object_are_rejected(client, namespace):
    with pytest.raises(Rejected) as refused:
        await client.merge_patch(SERVICES, namespace, "a", {"metadata": {}})
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")

    with pytest.raises(Rejected) as refused:
        await client.create(SERVICES, service("no-such-namespace"))
    assert refused.value.status == 404


async def test_delete_checks_uid_and_version(client, namespace):
    made = await client.create(SERVICES, service(namespace))
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    await client.apply(SERVICES, service(namespace, labels=LABELS | {"x": "y"}))

    with pytest.raises(Conflict):
        await client.delete(SERVICES, namespace, "a", uid=OTHER_UID)
    with pytest.raises(Conflict):
        await client.delete(SERVICES, namespace, "a", uid=uid, resource_version=version)
    assert await client.get(SERVICES, namespace, "a") is not None
    assert await client.delete(SERVICES, namespace, "a", uid=uid)
    assert await client.get(SERVICES, namespace, "a") is None
    assert not await client.delete(SERVICES, namespace, "a", uid=uid)


async def test_orphaned_dependents_outlive_their_owner(client, namespace):
    owner = await client.create(SERVICES, service(namespace))
    reference = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": "a",
        "uid": owner["metadata"]["uid"],
    }
    secret = {"metadata": {"namespace": namespace, "name": "s", "ownerReferences": [reference]}}
    await client.create(SECRETS, secret)
    uid = owner["metadata"]["uid"]

    assert await client.delete(SERVICES, namespace, "a", uid=uid, propagation="Orphan")
    async with asyncio.timeout(SLOW * 30):
        while await client.get(SERVICES, namespace, "a") is not None:
            await asyncio.sleep(0.1)
    left = await client.get(SECRETS, namespace, "s")
    assert left is not None
    assert not left["metadata"].get("ownerReferences")


async def test_an_owner_deleted_in_the_foreground_exists_until_its_dependents_are_gone(
    client, namespace
):
    """As a Job until its pod has ended, which here is a Secret that somebody holds."""
    owner = await client.create(SERVICES, service(namespace))
    uid = owner["metadata"]["uid"]
    reference = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": "a",
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    owned = {"name": "s", "ownerReferences": [reference], "finalizers": ["example.com/held"]}
    await client.create(SECRETS, {"metadata": {"namespace": namespace} | owned})

    assert await client.delete(SERVICES, namespace, "a", uid=uid, propagation="Foreground")
    async with asyncio.timeout(SLOW * 30):
        while "deletionTimestamp" not in (await client.get(SECRETS, namespace, "s"))["metadata"]:
            await asyncio.sleep(0.1)
    left = await client.get(SERVICES, namespace, "a")
    assert left is not None
    assert "deletionTimestamp" in left["metadata"]

    await client.merge_patch(SECRETS, namespace, "s", {"metadata": {"finalizers": None}})
    async with asyncio.timeout(SLOW * 30):
        while await client.get(SERVICES, namespace, "a") is not None:
            await asyncio.sleep(0.1)


async def test_a_rejection_names_the_field(client, namespace):
    broken = service(namespace) | {"spec": {"ports": [{"port": 0}]}}

    with pytest.raises(Rejected, match=r"spec\.ports\[0\]\.port") as refused:
        await client.apply(SERVICES, broken)
    assert refused.value.status == 422


async def test_a_forbidden_change_of_a_stateful_set_is_a_rejection(client, namespace):
    def stateful_set(service_name):
        return {
            "metadata": {"namespace": namespace, "name": "a"},
            "spec": {
                "replicas": 0,
                "serviceName": service_name,
                "selector": {"matchLabels": LABELS},
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {"containers": [{"name": "c", "image": "none.invalid/none"}]},
                },
            },
        }

    await client.apply(STATEFUL_SETS, stateful_set("a"))
    with pytest.raises(Rejected, match="Forbidden") as refused:
        await client.apply(STATEFUL_SETS, stateful_set("b"))
    assert refused.value.status == 422


async def test_an_applied_template_keeps_nothing_of_the_template_before(client, namespace):
    """As an edit of version, size and pods has it (`membership/rolling/version_first.py`)."""

    def manifest(name, replicas, **spec):
        cluster = parse_cluster(body(3, **spec))
        made = stateful_set(cluster, replicas=replicas, operator_image="none.invalid/none")
        return made | {"metadata": {"namespace": namespace, "name": name}}

    before = {"version": "3.6.14", "pod": {"labels": {"x": "y"}, "nodeSelector": {"no": "node"}}}
    after = {"version": "3.7.3", "etcd": {"snapshotCount": 5000}}
    made = await client.apply(STATEFUL_SETS, manifest("a", 0, **before))
    growing = manifest("a", 1, **after)
    growing["spec"]["template"] = made["spec"]["template"]
    grown = await client.apply(STATEFUL_SETS, growing)
    changed = await client.apply(STATEFUL_SETS, manifest("a", 0, **after))
    fresh = await client.apply(STATEFUL_SETS, manifest("b", 0, **after))

    assert grown["spec"]["replicas"] == 1
    assert grown["spec"]["template"] == made["spec"]["template"]
    assert changed["spec"]["template"] == fresh["spec"]["template"]


async def test_status_and_spec_have_separate_field_managers(client, namespace):
    place = {"namespace": namespace, "name": "a"}
    made = await client.apply(
        ETCD_CLUSTERS, {"metadata": place, "spec": {"size": 3, "paused": True}}
    )
    place["uid"] = made["metadata"]["uid"]
    status = await client.apply(
        ETCD_CLUSTERS, {"metadata": place, "status": {"phase": "Creating"}}, status=True
    )

    assert status["spec"]["size"] == 3
    managers = {
        (entry["manager"], entry.get("subresource"))
        for entry in status["metadata"]["managedFields"]
    }
    assert {("etcd-operator", None), ("etcd-operator-status", "status")} <= managers


async def test_a_long_list_has_pages_of_one_resource_version(client, namespace, monkeypatch):
    monkeypatch.setattr(client_module, "PAGE", 2)
    for number in range(5):
        await client.create(SERVICES, service(namespace, f"s{number}"))
    await client.create(SERVICES, service(namespace, "others", labels={}))

    items, version = await client.list(SERVICES, namespace, OURS)

    assert [item["metadata"]["name"] for item in items] == [f"s{n}" for n in range(5)]
    assert all(item["kind"] == "Service" for item in items)
    assert version >= max(int(item["metadata"]["resourceVersion"]) for item in items)
    everywhere = (await client.list(SERVICES, None, OURS)).items
    assert len([i for i in everywhere if i["metadata"]["namespace"] == namespace]) == 5
    assert (await client.list(NODES, None)).items


async def test_a_resource_that_is_not_served_is_a_rejection(client, namespace):
    unknown = ETCD_CLUSTERS.__class__("no.such.group", "v1", "things", "Thing")

    with pytest.raises(Rejected) as refused:
        await client.list(unknown, namespace)
    assert refused.value.status == 404


async def test_versions_of_lists_and_objects_are_comparable(client, namespace):
    before = (await client.list(CLAIMS, namespace)).version
    made = await client.create(SERVICES, service(namespace))
    after = (await client.list(SERVICES, namespace)).version

    assert before < int(made["metadata"]["resourceVersion"]) <= after


async def test_events_are_taken_and_counted(client, namespace):
    about = await client.create(SERVICES, service(namespace))
    message = "Ünïcode, " + "long " * 500
    for _ in range(2):
        await Events(client, instance="operator-0").emit(about, "Warning", "Tested", message)

    [event] = (await client.list(EVENTS, namespace)).items
    assert event["count"] == 2
    assert event["involvedObject"]["uid"] == about["metadata"]["uid"]


async def test_an_event_in_a_terminating_namespace_is_dropped(client, caplog):
    caplog.set_level("INFO")
    about = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "no-such", "name": "a", "uid": OTHER_UID},
    }
    await Events(client, instance="x").emit(about, "Normal", "Tested", "hello")

    assert "was not posted" in caplog.text
