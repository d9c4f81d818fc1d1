"""Objects of a cluster are restored when deleted or altered, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest
from harness.api import (
    BUDGETS,
    NAMESPACES,
    PODS,
    POLICIES,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    Kind,
)
from harness.audit import Audit, in_words
from harness.clusters import Cluster
from harness.place import Place
from harness.waiting import eventually, steadily

DEADLINE = 10
"""Seconds. The time it really takes is measured by the benchmarks."""

INSTANCE = "app.kubernetes.io/instance"

ALTERATIONS: dict[str, tuple[Kind, str, Json]] = {
    "headless-selector": (SERVICES, "etcd", {"spec": {"selector": {"app": "other"}}}),
    "headless-label": (SERVICES, "etcd", {"metadata": {"labels": {INSTANCE: None}}}),
    "client-selector": (SERVICES, "etcd-client", {"spec": {"selector": {INSTANCE: "other"}}}),
    "client-port": (
        SERVICES,
        "etcd-client",
        {"spec": {"ports": [{"name": "client", "port": 443}]}},
    ),
    "client-exposed": (
        SERVICES,
        "etcd-client",
        {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]}},
    ),
    "client-label": (SERVICES, "etcd-client", {"metadata": {"labels": {INSTANCE: "other"}}}),
    "budget-least": (BUDGETS, "etcd", {"spec": {"minAvailable": 0}}),
    "budget-turned": (BUDGETS, "etcd", {"spec": {"minAvailable": None, "maxUnavailable": 1}}),
    "budget-label": (BUDGETS, "etcd", {"metadata": {"labels": {INSTANCE: None}}}),
    "policy-pods": (POLICIES, "etcd", {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}),
    "policy-rules": (POLICIES, "etcd", {"spec": {"ingress": [{}]}}),
    "stateful-set-label": (STATEFUL_SETS, "etcd", {"metadata": {"labels": {INSTANCE: None}}}),
    "stateful-set-strategy": (
        STATEFUL_SETS,
        "etcd",
        {"spec": {"updateStrategy": {"type": "RollingUpdate"}}},
    ),
    "stateful-set-canary": (
        STATEFUL_SETS,
        "etcd",
        {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}},
    ),
    "template-grace": (
        STATEFUL_SETS,
        "etcd",
        {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}},
    ),
}


def test_altered_children_are_reverted(place: Place):
    cluster = place.declare(size=1).comes_up()
    uids, claims = cluster.pod_uids(), cluster.claim_uids()

    for what, (kind, name, patch) in ALTERATIONS.items():
        before = told(cluster.get(kind, name))
        altered = place.kube.patch(kind, place.namespace, name, patch)
        assert told(altered) != before, f"{what}: nothing was altered"
        eventually(
            f"{what} is put back",
            lambda k=kind, n=name: told(cluster.get(k, n)),
            lambda now, was=before: now == was,
            DEADLINE,
        )

    cluster.comes_up()
    assert (cluster.pod_uids(), cluster.claim_uids()) == (uids, claims)


def test_an_altered_image_in_the_template_is_reverted_without_a_pod_restart(place: Place):
    cluster = place.declare(size=3).comes_up()
    uids = cluster.pod_uids()
    before = told(cluster.stateful_set())

    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "other"}]
    place.kube.patch(STATEFUL_SETS, place.namespace, "etcd", image)

    eventually("the image is put back", lambda: told(cluster.stateful_set()) == before, seconds=10)
    steadily("the pods are the same", cluster.pod_uids, lambda now: now == uids, seconds=2)


def test_deleted_children_are_recreated(place: Place):
    cluster = place.declare(size=1).comes_up()
    cluster.client.put("before", "kept")

    for kind, name in (
        (SERVICES, "etcd"), (SERVICES, "etcd-client"), (BUDGETS, "etcd"), (POLICIES, "etcd"),
    ):  # fmt: skip
        before = cluster.get(kind, name)
        place.kube.delete(kind, place.namespace, name)
        is_put_back(cluster, kind, name, before)

    cluster.comes_up()
    assert eventually("data", lambda: cluster.client.get("before"), seconds=10) == "kept"


@pytest.mark.verify
def test_a_deleted_secret_is_recreated_for_the_same_cluster(place: Place):
    """The key is another one, the identity of the cluster is not."""
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    before, secret = cluster.client.members(), cluster.get(SECRETS, "etcd-start")

    place.kube.delete(SECRETS, place.namespace, "etcd-start")

    is_put_back(cluster, SECRETS, "etcd-start", secret)
    assert cluster.record()["clusterID"] == before.cluster_id
    place.kube.delete(PODS, place.namespace, "etcd-2", gracePeriodSeconds=0)
    eventually("etcd-2 is gone from the list of ready ones", lambda: not_up(cluster), seconds=10)
    cluster.comes_up()
    assert cluster.client.members() == before
    assert cluster.client.get("before") == "kept"


def test_a_recreated_stateful_set_adopts_its_orphaned_pods(place: Place):
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    before, uids = cluster.stateful_set(), cluster.pod_uids()

    place.kube.delete(STATEFUL_SETS, place.namespace, "etcd", propagationPolicy="Orphan")

    eventually(
        "the one before is gone",
        cluster.stateful_set,
        lambda found: not found or found["metadata"]["uid"] != before["metadata"]["uid"],
    )
    is_put_back(cluster, STATEFUL_SETS, "etcd", before)
    cluster.comes_up()
    assert cluster.pod_uids() == uids
    assert cluster.client.get("before") == "kept"


@pytest.mark.verify
@pytest.mark.timeout(240)
def test_a_stateful_set_deleted_with_its_pods_is_recreated_with_the_data(place: Place):
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    members, before = cluster.client.members(), cluster.stateful_set()
    old = set(cluster.pod_uids().values())

    place.kube.delete(STATEFUL_SETS, place.namespace, "etcd", propagationPolicy="Background")

    # Until then the operator makes no other: it would back off from names that are taken.
    eventually(
        "the pods before are gone",
        cluster.pod_uids,
        lambda now: not old & set(now.values()),
        seconds=60,
    )
    is_put_back(cluster, STATEFUL_SETS, "etcd", before)
    cluster.comes_up()
    assert cluster.client.get("before") == "kept"
    assert cluster.client.members() == members


@pytest.mark.verify
def test_objects_of_others_with_the_same_names_are_reported_and_left_alone(place: Place):
    """Members do without their client Service; without the other two there is no cluster."""
    taken = {"a": (SERVICES, "a"), "b": (STATEFUL_SETS, "b"), "c": (SERVICES, "c-client")}
    for kind, name in taken.values():
        place.kube.create(kind, someone_elses(kind, name), place.namespace)
    theirs = {name: place.cluster().get(*one) for name, one in taken.items()}

    clusters = {name: place.declare(size=1, name=name) for name in taken}

    for name, (kind, other) in taken.items():
        clusters[name].holds("NameTaken", f"{kind.kind} {other}", seconds=60)
        now = clusters[name].get(kind, other)
        assert (now["metadata"]["uid"], now["spec"]) == identity(theirs[name])
        assert not now["metadata"].get("ownerReferences")
    assert not clusters["a"].children()
    assert not clusters["b"].children()
    assert clusters["c"].member(0).members().names == ["c-0"]

    for kind, other in taken.values():
        place.kube.delete(kind, place.namespace, other, propagationPolicy="Background")
    for cluster in clusters.values():
        cluster.comes_up()


def test_replicas_raised_by_hand_are_reset_and_add_no_member(place: Place):
    cluster = place.declare(size=1).comes_up()
    before = cluster.client.members()

    place.kube.patch(STATEFUL_SETS, place.namespace, "etcd", {"spec": {"replicas": 3}})

    eventually("there is 1 replica", lambda: replicas(cluster) == 1, seconds=DEADLINE)
    eventually("there is 1 pod", lambda: list(cluster.pods()) == ["etcd-0"], seconds=60)
    cluster.comes_up()
    assert cluster.client.members() == before


@pytest.mark.verify
def test_replicas_lowered_by_hand_are_reset(place: Place):
    cluster = place.declare(size=3).comes_up()
    cluster.client.put("before", "kept")
    before = cluster.client.members()

    place.kube.patch(STATEFUL_SETS, place.namespace, "etcd", {"spec": {"replicas": 1}})

    eventually("there are 3 replicas", lambda: replicas(cluster) == 3, seconds=DEADLINE)
    cluster.comes_up()
    assert cluster.client.members() == before
    assert cluster.client.get("before") == "kept"


def told(live: Json | None) -> Any:
    """What others may alter and the operator puts back."""
    return live and {"labels": live["metadata"].get("labels"), "spec": live["spec"]}


def is_put_back(cluster: Cluster, kind: Kind, name: str, before: Json | None) -> None:
    assert before is not None
    old = before["metadata"]["uid"]
    owner = cluster.uid
    eventually(
        f"{kind.kind} {name} is there again",
        lambda: cluster.get(kind, name),
        lambda found: (
            found
            and found["metadata"]["uid"] != old
            and owner in [one["uid"] for one in found["metadata"].get("ownerReferences", ())]
        ),
        DEADLINE,
    )


def replicas(cluster: Cluster) -> int:
    found = cluster.stateful_set()
    return int(found["spec"]["replicas"]) if found else 0


def not_up(cluster: Cluster) -> bool:
    return cluster.status().get("readyMembers") != 3


def identity(live: Json | None) -> tuple[str, Json]:
    assert live is not None
    return live["metadata"]["uid"], live["spec"]


def someone_elses(kind: Kind, name: str) -> Json:
    if kind is SERVICES:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
    labels = {"app": "someone-elses"}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "one", "image": "none"}]},
            },
        },
    }


@pytest.mark.verify
@pytest.mark.timeout(240)
def test_nothing_is_recreated_in_a_namespace_that_is_being_deleted(place: Place, audit: Audit):
    """Each deleted object triggers a pass, and each write of such a pass would be refused."""
    kube, user = place.kube, place.operator.user
    going = Place.make(kube, place.reach, place.operator, place.ledger, "goes")
    going.declare(size=3).comes_up()
    quiet = Audit(audit.path)

    going.leave()
    eventually(
        "the namespace is gone",
        lambda: kube.get(NAMESPACES, None, going.namespace),
        lambda found: found is None,
        seconds=100,
    )

    refused = [
        in_words(one)
        for one in quiet.entries(user)
        if one["objectRef"].get("namespace") == going.namespace
        and one["responseStatus"]["code"] >= 400
        and one["verb"] in ("create", "patch")
    ]
    assert len([one for one in refused if not one.endswith(" events")]) <= 1, refused
