"""Edits that nobody should make are refused or held with a helpful message; no member notices."""

from __future__ import annotations

import re
from typing import Any

import pytest
from harness.api import CLAIMS, CLUSTERS, PODS, ApiError
from harness.clusters import Cluster, is_ready
from harness.damage import give_back, take_away, volume_of
from harness.load import under_load
from harness.membership import settles
from harness.operator import Operator
from harness.place import Place
from harness.waiting import eventually, steadily

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no members": ({"size": 0}, "to stop the cluster and keep its data, delete the EtcdCluster"),
    "too many members": ({"size": 8}, "1 to 7, found 8"),
    "less storage": (
        {"pod": {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": "1Gi"}}}}},
        "restore it into a new EtcdCluster with the storage you want",
    ),
    "no storage": (
        {"pod": {"persistentVolumeClaimSpec": None, "emptyDir": {}}},
        "put the old value back",
    ),
    "other names": (
        {"pod": {"ClusterDomain": ".other.local"}},
        "put the old value back, or restore a backup into a new EtcdCluster",
    ),
    "a tag as version": ({"version": "latest"}, "version must be three numbers, such as"),
    "a tag in the repository": ({"repository": "quay.io/coreos/etcd:v3.7.3"}, "set spec.version"),
}

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
WORDS = re.compile(r"\d+: ")


@pytest.mark.timeout(180)
def test_an_impossible_edit_is_refused_with_a_remedy(place: Place):
    pod = {"persistentVolumeClaimSpec": CLAIM}
    cluster = place.declare(size=1, version="3.7.3", pod=pod).comes_up()
    before = (cluster.pod_uids(), cluster.body()["metadata"]["generation"])

    for what, (edit, words) in REFUSED.items():
        assert words in refusal(cluster, edit), what

    assert (cluster.pod_uids(), cluster.body()["metadata"]["generation"]) == before
    with pytest.raises(ApiError, match="1 to 7, found 0"):
        place.kube.patch(
            CLUSTERS, place.namespace, "etcd", {"spec": {"replicas": 0}}, subresource="scale"
        )
    settles(cluster, 1)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("runs", "wanted", "first"),
    [
        ("3.7.3", "3.5.35", "3.6"),
        pytest.param("3.5.35", "3.7.3", "3.6", marks=pytest.mark.verify),
    ],
)
def test_a_version_two_minors_away_is_refused_and_the_path_to_it_named(
    place: Place, runs: str, wanted: str, first: str
):
    """Also if the spec does not name the running version, which the status does."""
    said = place.declare(size=1, version=runs, name="said")
    unsaid = place.declare(size=1, version=runs, name="unsaid")
    said.comes_up()
    unsaid.comes_up()
    unsaid.change(version=None)
    unsaid.comes_up()
    before = {**said.pod_uids(), **unsaid.pod_uids()}

    for cluster in (said, unsaid):
        words = refusal(cluster, {"version": wanted})
        assert "changes by only one minor at a time" in words
        assert f"set version to a {first} release first" in words

    steadily(
        "no pod is restarted",
        lambda: {**said.pod_uids(), **unsaid.pod_uids()},
        lambda now: now == before,
        seconds=3,
    )
    settles(said, 1)
    settles(unsaid, 1)
    assert unsaid.member(0).status()["version"] == runs


@pytest.mark.verify
@pytest.mark.alone
@pytest.mark.timeout(240)
def test_a_jump_that_admission_cannot_see_is_held_until_the_spec_is_corrected(
    place: Place, operator: Operator
):
    """The spec named no version, and the status was lost while the operator was away."""
    place.operator_may_restart = True
    cluster = place.declare(size=1, version="3.5.35").comes_up()
    cluster.change(version=None)
    cluster.comes_up()
    pods = cluster.pod_uids()
    operator.scale(0)
    try:
        lost = dict.fromkeys(cluster.status())
        place.kube.patch(CLUSTERS, place.namespace, "etcd", {"status": lost}, subresource="status")
        cluster.change(version="3.7.3")
    finally:
        operator.scale(1)

    cluster.holds("VersionJump", "runs etcd 3.5.35", "set spec.version to a 3.6 first")
    assert cluster.pod_uids() == pods

    cluster.change(version="3.5.35")
    settles(cluster, 1)
    assert cluster.pod_uids() == pods


@pytest.mark.verify
@pytest.mark.timeout(180)
def test_shrinking_waits_for_a_dead_member_to_come_back(place: Place, local_node: None):
    """From 3 to 1 the quorum would be lost half-way: until then the dead member is needed for
    it."""
    place.may_lose |= {"data-etcd-1", "data-etcd-2"}
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()
    pods = cluster.pod_uids()

    with under_load(cluster):
        volume = volume_of(cluster, 0)
        take_away(volume)
        place.kube.delete(PODS, place.namespace, "etcd-0", gracePeriodSeconds=0)
        eventually("etcd-0 is down", lambda: not is_ready(cluster.pod(0)), seconds=20)
        cluster.scale(1)

        waits_to_shrink(cluster, "etcd-0")
        # Two of three serve, so one can go only when the two that stay both serve.
        assert {one.member_id for one in cluster.client.members().members} <= set(
            before.ids.values()
        )
        assert cluster.pod_uids()["etcd-1"] == pods["etcd-1"]

        give_back(volume)
        settles(cluster, 1, seconds=90)

    assert cluster.client.members().ids["etcd-0"] == before.ids["etcd-0"]


@pytest.mark.verify
@pytest.mark.timeout(180)
def test_shrinking_continues_once_a_lost_member_is_replaced(place: Place, local_node: None):
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(3)}
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()

    with under_load(cluster):
        place.kube.delete(CLAIMS, place.namespace, "data-etcd-0")
        cluster.scale(1)
        settles(cluster, 1, seconds=90)

    assert cluster.client.members().ids["etcd-0"] != before.ids["etcd-0"]


def waits_to_shrink(cluster: Cluster, name: str) -> None:
    eventually(
        f"it is said that the shrink waits for {name}",
        lambda: cluster.condition("Progressing"),
        lambda found: name in found["message"] and found["reason"] != "AsDeclared",
        seconds=20,
    )
    steadily(
        "two members stay", lambda: len(cluster.client.members().members), lambda now: now >= 2, 5
    )


def refusal(cluster: Cluster, edit: dict[str, Any]) -> str:
    """What the API server says to it; such an edit must not get through."""
    try:
        cluster.change(**edit)
    except ApiError as error:
        return WORDS.sub("", str(error), count=1)
    raise AssertionError(f"{edit} was taken")
