"""From any size to any other, under load, even if the size is edited again half-way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness.api import Json
from harness.clusters import Cluster
from harness.load import under_load
from harness.membership import settles
from harness.place import PLAINTEXT, Place
from harness.waiting import eventually, steadily

SOON = 10


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("sizes", "spec"),
    [
        pytest.param((1, 3, 2), {}, id="1-3-2"),
        pytest.param((1, 3, 5, 3, 1), {}, marks=pytest.mark.verify, id="1-3-5-3-1"),
        pytest.param((1, 3, 1), {"TLS": PLAINTEXT}, marks=pytest.mark.verify, id="1-3-1-plaintext"),
        pytest.param((1, 7, 1), {}, marks=pytest.mark.verify, id="1-7-1"),
        pytest.param((2, 4, 6, 5, 2), {}, marks=pytest.mark.verify, id="2-4-6-5-2"),
    ],
)
def test_every_size_is_reached_under_load(place: Place, sizes: tuple[int, ...], spec: Json):
    may_lose_claims_from(place, 1)
    cluster = place.declare(size=sizes[0], **spec).comes_up()
    certificates = own_certificates(cluster)

    with under_load(cluster) as load:
        for size in sizes[1:]:
            cluster.scale(size)
            settles(cluster, size, seconds=90)

    load.was_served()
    assert own_certificates(cluster) == certificates, "they are good for all members from the start"


@pytest.mark.timeout(360)
@pytest.mark.parametrize(("few", "many"), [(1, 3), pytest.param(3, 5, marks=pytest.mark.verify)])
def test_a_size_edited_during_a_change_applies_at_once(place: Place, few: int, many: int):
    """Whatever has started is finished or dropped, and its remains are removed."""
    may_lose_claims_from(place, few)
    cluster = place.declare(size=few).comes_up()
    first = cluster.client.members().ids

    with under_load(cluster) as load:
        cluster.scale(many)
        has_members(cluster, lambda count: count > few)
        cluster.scale(few)
        settles(cluster, few, seconds=90)

        cluster.scale(many)
        settles(cluster, many, seconds=90)
        cluster.scale(few)
        has_members(cluster, lambda count: count < many)
        cluster.scale(many)
        settles(cluster, many, seconds=90)

    kept = {name: one for name, one in cluster.client.members().ids.items() if name in first}
    assert kept == first
    load.was_served()


@pytest.mark.verify
@pytest.mark.timeout(240)
def test_a_pause_stops_a_change_half_way_and_unpausing_continues_it(place: Place):
    cluster = place.declare(size=1).comes_up()

    with under_load(cluster):
        cluster.scale(5)
        has_members(cluster, lambda count: count > 1)
        cluster.change(paused=True)
        cluster.holds("SpecPaused", kind="Paused", seconds=SOON)
        before = voters(cluster)
        steadily("nothing changes", lambda: voters(cluster), lambda now: now == before, seconds=3)
        assert len(before) < 5, "the growth was over before it was paused"
        assert cluster.condition("Scaling")["reason"] == "Paused"
        cluster.change(paused=False)
        settles(cluster, 5, seconds=90)


def own_certificates(cluster: Cluster) -> dict[str, str]:
    found = {name: one for name, one in cluster.children().items() if name.endswith("-tls")}
    return {name: one["metadata"]["resourceVersion"] for name, one in found.items()}


def voters(cluster: Cluster) -> dict[str, bool]:
    """Members by ID; their names appear by themselves when they have started."""
    return {one.member_id: not one.learner for one in cluster.client.members().members}


def may_lose_claims_from(place: Place, ordinal: int) -> None:
    """The claims of members that are removed go with them."""
    place.may_lose |= {f"data-etcd-{number}" for number in range(ordinal, 7)}


def has_members(cluster: Cluster, good: Callable[[int], bool]) -> None:
    eventually(
        "the membership changes",
        lambda: len(cluster.client.members().members),
        good,
        seconds=30,
        every=0.02,
    )
