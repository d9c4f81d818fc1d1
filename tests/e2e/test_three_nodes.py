"""Nodes are drained, fail and are removed; a member is replaced only if its node is gone for good.

This needs three nodes of the local cluster: `make cluster NODES=3`, as `make test` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from harness import machines
from harness.api import CLAIMS, NODES, PODS, ApiError, Kube
from harness.clusters import Cluster, is_ready, restarts
from harness.load import under_load
from harness.machines import GATEWAY, expendable, node_of, nodes
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually, steadily

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("three_nodes")]

ZONE = "topology.kubernetes.io/zone"
DRAINED = "example.com/drained-with"

REFUSED_SECONDS = 12
"""For one try, on a machine that is slow to begin with it; the next one comes 5 s after a no."""

SAYS_SECONDS = 30
HEALS_SECONDS = 120
GONE_SECONDS = 450


def test_members_are_spread_over_nodes(place: Place):
    """Several clusters, as one alone may be spread by chance."""
    clusters = [place.declare(size=3, name=name) for name in ("a", "b")]
    wide = place.declare(size=5, name="wide")

    for cluster in (*clusters, wide):
        cluster.comes_up(seconds=150)

    counts = {one.name: per_node(one) for one in clusters}
    assert all(found == [1, 1, 1] for found in counts.values()), counts
    assert per_node(wide) == [1, 2, 2]


@pytest.fixture
def zones(kube: Kube, three_nodes: None) -> Iterator[dict[str, str]]:
    """The zone of each node: two of them are in one."""
    found = {"node-1": "a", "node-2": "a", "node-3": "b"}
    for node, zone in found.items():
        kube.patch(NODES, None, node, {"metadata": {"labels": {ZONE: zone}}})
    yield found
    for node in found:
        kube.patch(NODES, None, node, {"metadata": {"labels": {ZONE: None}}})


@pytest.mark.verify
def test_members_are_spread_over_zones(place: Place, zones: dict[str, str]):
    """Pairs, as a pair on two nodes may be in one zone; and several, as one may do so by chance.
    Three members in two zones are still on three nodes."""
    pairs = [place.declare(size=2, name=name) for name in ("a", "b", "c", "d")]
    three = place.declare(size=3, name="three")

    for cluster in (*pairs, three):
        cluster.comes_up(seconds=150)

    found = {one.name: sorted(zones[node] for node in nodes(one).values()) for one in pairs}
    assert all(where == ["a", "b"] for where in found.values()), found
    assert per_node(three) == [1, 1, 1]


@pytest.mark.verify
def test_a_member_whose_pod_starts_late_keeps_its_identity(place: Place):
    """The others form the cluster without it; it had no ticket, so its empty volume is no loss."""
    machines.cordon(place.kube, "node-3", on=True)
    cluster = place.declare(size=3, pod={"antiAffinity": True})
    eventually("two form the cluster", lambda: cluster.record().get("latched"), seconds=40)
    recorded = {name: member for name, _, member in cluster.record()["members"]}
    listed = eventually("clients are served", cluster.client.members, seconds=20)
    late = next(name for name in listed.names if not is_ready(cluster.pods().get(name)))
    steadily("it is a member", cluster.client.members, lambda now: now == listed, seconds=3)

    machines.cordon(place.kube, "node-3", on=False)

    settles(cluster, 3)
    assert cluster.client.members().ids[late] == recorded[late]
    assert cluster.client.members().ids == recorded


@pytest.mark.verify
@pytest.mark.timeout(420)
def test_a_member_on_a_drained_node_is_waited_for_and_not_replaced(place: Place):
    """The volume stays on it, so the member does as well."""
    cluster = place.declare(size=3, pod=labelled(place)).comes_up()
    before = cluster.client.members()
    ordinal, node = expendable(place, cluster)

    with under_load(cluster) as load:
        machines.drain(place.kube, node)
        eventually(
            "it is said that the pod cannot be scheduled",
            lambda: cluster.condition("Degraded"),
            lambda found: (
                found["status"] == "True"
                and f"etcd-{ordinal}" in found["message"]
                and "cannot be scheduled" in found["message"]
            ),
            seconds=SAYS_SECONDS,
        )
        steadily("it is a member", cluster.client.members, lambda now: now == before, seconds=4)
        another = next(one for one in nodes(cluster).values() if one and one != node)
        with pytest.raises(ApiError, match="disruption budget"):
            machines.drain(place.kube, another, seconds=REFUSED_SECONDS, pods=mine(cluster))
        machines.cordon(place.kube, another, on=False)

        machines.cordon(place.kube, node, on=False)
        settles(cluster, 3, HEALS_SECONDS)

    assert cluster.client.members() == before
    load.was_served()


@pytest.mark.timeout(600)
def test_all_nodes_can_be_drained_one_by_one(place: Place):
    """As an upgrade of all nodes does, as fast as the disruption budget allows."""
    cluster = place.declare(size=3, pod=labelled(place) | {"antiAffinity": True}).comes_up()
    before = cluster.client.members()

    with under_load(cluster) as load:
        for node in sorted(nodes(cluster).values()):
            # The next node's turn is while this one's member is still on its way back.
            machines.drain(place.kube, node, pods=mine(cluster))
            machines.cordon(place.kube, node, on=False)
        settles(cluster, 3, HEALS_SECONDS)

    assert cluster.client.members() == before
    load.was_served()


def test_a_drain_of_the_only_member_is_blocked_with_a_remedy(place: Place):
    cluster = place.declare(size=1, pod=labelled(place)).comes_up()
    cluster.client.put("before", "kept")
    node = nodes(cluster)["etcd-0"]
    told = cluster.condition("DrainsBlocked")

    with pytest.raises(ApiError, match="disruption budget"):
        machines.drain(place.kube, node, seconds=REFUSED_SECONDS, pods=mine(cluster))
    assert told["status"] == "True"
    assert "delete the pod by hand" in told["message"]

    place.kube.delete(PODS, place.namespace, "etcd-0")
    machines.drain(place.kube, node, pods=mine(cluster))

    machines.cordon(place.kube, node, on=False)
    settles(cluster, 1, HEALS_SECONDS)
    assert cluster.client.get("before") == "kept"


@pytest.mark.verify
@pytest.mark.timeout(570)
def test_a_node_that_fails_and_comes_back_keeps_its_member(place: Place):
    cluster = place.declare(size=3).comes_up()
    before, claims = cluster.client.members(), cluster.claim_uids()
    ordinal, node = expendable(place, cluster)

    with under_load(cluster) as load:
        machines.power_off(node)
        eventually(
            f"it is said that etcd-{ordinal} is missed",
            lambda: cluster.status()["plan"],
            lambda plan: f"etcd-{ordinal}" in plan,
            seconds=90,
        )
        steadily("it is a member", cluster.client.members, lambda now: now == before, seconds=10)

        machines.power_on(place.kube)
        settles(cluster, 3, HEALS_SECONDS)

    assert (cluster.client.members(), cluster.claim_uids()) == (before, claims)
    load.was_served()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("claim_deleted", [True, pytest.param(False, marks=pytest.mark.verify)])
def test_the_member_of_a_node_that_is_gone_for_good_is_replaced(
    place: Place, *, claim_deleted: bool
):
    """Its volumes lie on it and nowhere else. Its removal from Kubernetes is believed after five
    minutes; that of the claim is a human's word, and believed at once."""
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members().ids
    ordinal, node = expendable(place, cluster)
    name = f"etcd-{ordinal}"
    place.may_lose.add(f"data-{name}")
    if not claim_deleted:
        cluster.is_led_by(ordinal)

    with under_load(cluster) as load:
        machines.power_off(node)
        place.kube.delete(NODES, None, node)
        if claim_deleted:
            place.kube.delete(CLAIMS, place.namespace, f"data-{name}")
        eventually(
            f"{name} is another member",
            lambda: cluster.client.members().ids,
            lambda ids: ids.get(name) not in (None, before[name]),
            seconds=HEALS_SECONDS if claim_deleted else GONE_SECONDS,
        )
        settles(cluster, 3, HEALS_SECONDS)

    after = cluster.client.members().ids
    assert {one for one in before if before[one] != after[one]} == {name}
    assert node_of(cluster.pod(ordinal)) != node
    load.was_served()


@pytest.mark.verify
@pytest.mark.timeout(720)
def test_after_two_nodes_fail_their_return_restores_the_quorum(place: Place):
    cluster = place.declare(size=3, pod={"antiAffinity": True}).comes_up()
    cluster.client.put("before", "kept")
    before, claims = cluster.client.members(), cluster.claim_uids()
    names = sorted(name for name, node in nodes(cluster).items() if node != GATEWAY)
    place.operator_may_restart = True

    survivor = next(ordinal for ordinal in range(3) if f"etcd-{ordinal}" not in names)
    for node in {nodes(cluster)[name] for name in names}:
        machines.power_off(node)
    eventually("nothing can be written", lambda: not takes_puts(cluster, survivor), seconds=30)
    # The operator may have been on one of them: what it then says is for test_quorum_loss.py.
    machines.power_on(place.kube)
    for name in names:
        ordinal = int(name.rpartition("-")[2])
        eventually(
            f"{name} has started again",
            lambda o=ordinal: restarts(cluster.pod(o)) and is_ready(cluster.pod(o)),
            seconds=HEALS_SECONDS,
        )

    settles(cluster, 3, HEALS_SECONDS)
    assert (cluster.client.members(), cluster.claim_uids()) == (before, claims)
    assert cluster.client.get("before") == "kept"


def labelled(place: Place) -> dict[str, Any]:
    """`kubectl drain` knows no namespaces, and others may have a cluster of that name."""
    return {"labels": {DRAINED: place.namespace}}


def mine(cluster: Cluster) -> str:
    """So that the operator, or who else runs there, is not drained along."""
    return f"{DRAINED}={cluster.namespace}"


def per_node(cluster: Cluster) -> list[int]:
    return sorted(Counter(nodes(cluster).values()).values())


def takes_puts(cluster: Cluster, ordinal: int) -> bool:
    try:
        cluster.member(ordinal).put("probe", "written")
    except OSError:
        return False
    return True
