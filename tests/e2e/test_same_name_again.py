"""A deleted cluster leaves its data; a new one of its name neither uses nor hides it unasked."""

from __future__ import annotations

import pytest
from harness.api import PODS
from harness.clusters import PREFIX, Cluster
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually, steadily

STRANGER = "00000000-0000-4000-8000-000000000000"


def test_a_cluster_recreated_with_the_same_name_waits_and_names_the_options(place: Place):
    old = deleted(place)

    cluster = place.declare(size=3)

    message = holds(cluster, old.uid)["message"]
    assert all(f"data-etcd-{ordinal}" in message for ordinal in range(3))
    assert "spec.retainedClaims.adopt" in message
    assert "spec.retainedClaims.discard" in message
    eventually(
        "an event",
        lambda: [one for one in cluster.events() if one["reason"] == "RetainedClaims"],
    )
    steadily("nothing is made", cluster.children, lambda found: not found, seconds=3)
    assert cluster.claim_uids() == old.claims


@pytest.mark.timeout(360)
def test_adopting_the_old_claims_serves_the_old_data_as_the_old_cluster(place: Place):
    old = deleted(place)
    cluster = place.declare(size=3)
    holds(cluster, old.uid)

    cluster.change(retainedClaims={"adopt": old.uid})

    cluster.comes_up()
    assert cluster.client.get("greeting") == "of the old one"
    assert cluster.client.members() == old.members
    assert cluster.claim_uids() == old.claims
    assert cluster.status()["clusterID"] == old.members.cluster_id
    for name in cluster.pods():
        place.kube.delete(PODS, place.namespace, name, gracePeriodSeconds=0)
    eventually("the pods are down", lambda: cluster.status()["readyMembers"] == 0)
    cluster.comes_up()
    assert cluster.client.get("greeting") == "of the old one"


@pytest.mark.verify
@pytest.mark.timeout(360)
def test_data_adopted_with_too_old_a_version_is_served_once_the_spec_has_its_version(
    place: Place,
):
    """No record that outlives the cluster says which version it is. etcd refused the data, and
    edits were ignored."""
    old = deleted(place)
    cluster = place.declare(size=3, version="3.6.16", retainedClaims={"adopt": old.uid})
    eventually(
        "the status says what may be wrong",
        lambda: "etcd 3.6.16 is only assumed" in cluster.status().get("plan", ""),
        seconds=90,
    )

    cluster.change(version="3.7.3")

    cluster.comes_up(seconds=180)
    assert cluster.client.get("greeting") == "of the old one"
    assert cluster.client.members() == old.members
    assert cluster.claim_uids() == old.claims


@pytest.mark.timeout(360)
def test_discarding_the_old_claims_deletes_only_those_and_starts_empty(place: Place):
    old = deleted(place)
    bystander = place.declare(size=1, name="bystander").comes_up()
    kept = bystander.claim_uids()
    cluster = place.declare(size=3)
    holds(cluster, old.uid)
    place.may_lose |= set(old.claims)

    cluster.change(retainedClaims={"discard": old.uid})

    cluster.comes_up()
    assert cluster.client.get("greeting") is None
    assert cluster.client.members().cluster_id != old.members.cluster_id
    assert not set(cluster.claim_uids().values()) & set(old.claims.values())
    assert bystander.claim_uids() == kept


def test_a_wrong_uid_neither_adopts_nor_discards(place: Place):
    old = deleted(place, size=1)
    cluster = place.declare(size=1)
    holds(cluster, old.uid)

    for word in ("adopt", "discard"):
        cluster.change(retainedClaims={word: STRANGER, other(word): None})
        eventually("the change is seen", lambda: seen(cluster))
        holds(cluster, old.uid)
        steadily("nothing is made", cluster.children, lambda found: not found, seconds=2)

    assert cluster.claim_uids() == old.claims


@pytest.mark.verify
def test_a_smaller_cluster_of_the_same_name_adopts_all_members_and_then_shrinks(place: Place):
    """Members are removed by the usual rules with a quorum, never because the spec omits them."""
    old = deleted(place)
    place.may_lose |= {"data-etcd-1", "data-etcd-2"}

    cluster = place.declare(size=1, retainedClaims={"adopt": old.uid})

    settles(cluster, 1)
    assert cluster.client.get("greeting") == "of the old one"
    members = cluster.client.members()
    assert members.cluster_id == old.members.cluster_id
    assert members.ids["etcd-0"] == old.members.ids["etcd-0"]


class Deleted:
    """What a cluster was before it was deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self.uid = cluster.uid
        self.members = cluster.client.members()
        self.claims = cluster.claim_uids()


def deleted(place: Place, size: int = 3) -> Deleted:
    cluster = place.declare(size=size).comes_up()
    cluster.client.put("greeting", "of the old one")
    old = Deleted(cluster)
    cluster.delete()
    assert cluster.claim_uids() == old.claims
    notes = [claim["metadata"]["annotations"] for claim in cluster.claims().values()]
    assert {note[f"{PREFIX}/cluster-uid"] for note in notes} == {old.uid}
    return old


def holds(cluster: Cluster, uid: str):
    return cluster.holds("RetainedClaims", uid, seconds=10)


def seen(cluster: Cluster) -> bool:
    return cluster.status()["observedGeneration"] == cluster.body()["metadata"]["generation"]


def other(word: str) -> str:
    return "discard" if word == "adopt" else "adopt"
