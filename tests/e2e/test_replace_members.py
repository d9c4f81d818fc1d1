"""Any member is replaced, whatever happened to its volume, the leader and ordinal 0 included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.clusters import Cluster
from harness.damage import (
    alter_value,
    break_database,
    break_log,
    break_log_head,
    give_back,
    kept_in_log,
    take_away,
    volume_of,
)
from harness.load import under_load
from harness.losses import (
    delete_claim,
    delete_claim_and_pod,
    empty_volume,
    kill_pod,
    remove_by_hand,
)
from harness.membership import settles
from harness.mortal import Dead, Fate, Mirror, Process, connect
from harness.node import dying_container, empty
from harness.operator import Operator
from harness.place import PLAINTEXT, Place
from harness.waiting import eventually, steadily

REPLACE_SECONDS = 60
CRASH_SECONDS = 150
"""The kubelet takes its time between two failures, and the operator believes no single one."""

Way = Callable[[Cluster, int], None]


WAYS: dict[str, Way] = {
    "claim-deleted": delete_claim,
    "claim-and-pod-deleted": delete_claim_and_pod,
    "volume-emptied": empty_volume,
    "removed-by-hand": remove_by_hand,
}


@pytest.mark.timeout(540)
@pytest.mark.parametrize(
    "way",
    [
        "claim-deleted",
        pytest.param("volume-emptied", marks=pytest.mark.verify),
        pytest.param("removed-by-hand", marks=pytest.mark.verify),
        pytest.param("claim-and-pod-deleted", marks=pytest.mark.verify),
    ],
)
def test_every_ordinal_is_replaced_starting_with_the_leader(
    place: Place, local_node: None, way: str
):
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(3)}
    cluster = place.declare(size=3).comes_up()
    leader = cluster.leader()

    with under_load(cluster) as load:
        for ordinal in (leader, (leader + 1) % 3, (leader + 2) % 3):
            before = cluster.client.members().ids
            WAYS[way](cluster, ordinal)
            is_replaced(cluster, ordinal, before)

    load.was_served()


@pytest.mark.verify
def test_a_member_without_tls_is_replaced(place: Place, local_node: None):
    place.may_lose |= {"data-etcd-1"}
    cluster = place.declare(size=3, TLS=PLAINTEXT).comes_up()
    before = cluster.client.members().ids

    with under_load(cluster):
        empty_volume(cluster, 1)
        is_replaced(cluster, 1, before)


@pytest.mark.verify
@pytest.mark.timeout(450)
@pytest.mark.parametrize(
    ("damage", "ordinal"),
    [
        pytest.param(break_log, 0, id="log"),
        pytest.param(break_database, 1, id="database"),
        pytest.param(break_log_head, 2, id="head-of-log"),
    ],
)
def test_a_member_that_cannot_start_on_damaged_data_is_replaced(
    place: Place, local_node: None, damage: Callable[[Path], None], ordinal: int
):
    """Each is damaged in a different place. The message of etcd or of `start` distinguishes it from
    other failures."""
    place.may_lose |= {f"data-etcd-{ordinal}"}
    cluster = place.declare(size=3).comes_up()

    with under_load(cluster) as load:
        before = cluster.client.members().ids
        volume = volume_of(cluster, ordinal)
        eventually("much is in its log", lambda: kept_in_log(volume) > 20)
        with dying_container(cluster.pod(ordinal), "etcd"):
            damage(volume)
        is_replaced(cluster, ordinal, before, CRASH_SECONDS)

    load.was_served()


@pytest.mark.verify
@pytest.mark.timeout(420)
def test_a_container_that_restarts_on_an_emptied_volume_is_replaced(place: Place, local_node: None):
    """etcd cannot start there, and only another pod lets `start` say why."""
    place.may_lose |= {"data-etcd-1"}
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members().ids

    with under_load(cluster):
        with dying_container(cluster.pod(1), "etcd"):
            empty(volume_of(cluster, 1))
        is_replaced(cluster, 1, before, CRASH_SECONDS)


@pytest.mark.verify
@pytest.mark.timeout(330)
@pytest.mark.parametrize("who", ["a follower", "the leader"])
def test_the_member_whose_data_differs_is_replaced_and_the_alarm_disarmed(
    place: Place, local_node: None, who: str
):
    """If it leads, etcd raises the alarm for all others."""
    place.may_lose |= {f"data-etcd-{ordinal}" for ordinal in range(3)}
    options = {"corrupt-check-time": "3s"}
    cluster = place.declare(size=3, etcd={"options": options}).comes_up()
    cluster.client.put("victim", "the right value")
    victim = (cluster.leader() + (who != "the leader")) % 3
    before = cluster.client.members().ids
    eventually(
        "it is on the disk",
        lambda: b"the right value" in database(cluster, victim),
        seconds=10,
    )

    alter_value(volume_of(cluster, victim), b"the right value", b"the wrong value")

    is_replaced(cluster, victim, before, 90)
    assert cluster.member(victim).get("victim") == "the right value"
    eventually(
        "it takes puts again", lambda: done(lambda: cluster.client.put("after", "it")), seconds=15
    )


@pytest.mark.verify
def test_two_of_five_members_are_replaced(place: Place, local_node: None):
    """Quorum gates repair, not unanimity."""
    place.may_lose |= {"data-etcd-0", "data-etcd-3"}
    cluster = place.declare(size=5).comes_up()
    before = cluster.client.members().ids

    with under_load(cluster):
        for ordinal in (0, 3):
            empty_volume(cluster, ordinal)
        other_members(cluster, before, {0, 3})
        settles(cluster, 5)


@pytest.mark.verify
def test_a_foreign_learner_is_reported_and_left_alone(place: Place):
    """Somebody else has changed the membership, for reasons unknown."""
    cluster = place.declare(size=3).comes_up()
    with nobody_watching(cluster):
        add_learner(cluster, "http://elsewhere.example:2380")

    cluster.holds("UnknownMember", "elsewhere.example", "member remove")
    before = cluster.client.members()
    steadily("it is left alone", cluster.client.members, lambda now: now == before, seconds=3)
    strange = next(one for one in before.members if one.learner)
    with nobody_watching(cluster):
        cluster.client.remove(strange.member_id)
    settles(cluster, 3)


@pytest.mark.verify
def test_a_learner_beyond_the_size_is_removed(place: Place):
    """An operator leaves it if it dies while it grows the cluster and the size is then edited
    back. On a slow machine its pod has its ticket before etcd lets it go."""
    place.may_lose.add("data-etcd-3")
    cluster = place.declare(size=3).comes_up()
    url = cluster.client.members().members[0].peer_urls[0]
    host = url.partition("://")[2].partition(".")[0]

    with nobody_watching(cluster):
        add_learner(cluster, url.replace(host, "etcd-3"))

    eventually("it is dropped", lambda: len(cluster.client.members().members) == 3, seconds=30)
    settles(cluster, 3)


@pytest.fixture
def without_operator(place: Place, operator: Operator) -> Iterator[Place]:
    place.operator_may_restart = True
    yield place
    operator.scale(1)


@pytest.mark.timeout(360)
async def test_a_learner_that_loses_its_volume_is_removed_and_added_again(
    without_operator: Place, operator: Operator, local_node: None
):
    place = without_operator
    place.may_lose.add("data-etcd-3")
    cluster = place.declare(size=3).comes_up()
    learner = await leave_a_learner(place, operator, cluster)

    empty_volume(cluster, 3)
    operator.scale(1)

    settles(cluster, 4)
    assert cluster.client.members().ids["etcd-3"] != learner


@pytest.mark.verify
@pytest.mark.timeout(540)
async def test_a_learner_that_cannot_start_is_removed_for_a_replacement(
    without_operator: Place, operator: Operator, local_node: None
):
    """There is at most one learner at a time, and a lost voter is worse than a delayed growth."""
    place = without_operator
    place.may_lose |= {"data-etcd-0", "data-etcd-3"}
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members().ids
    await leave_a_learner(place, operator, cluster)
    volume = volume_of(cluster, 3)
    take_away(volume)
    kill_pod(cluster, 3)
    operator.scale(1)
    eventually(
        "it is said that the learner does not start",
        cluster.status,
        lambda status: "learner etcd-3" in status["plan"],
        seconds=40,
    )

    with under_load(cluster) as load:
        empty_volume(cluster, 0)
        other_members(cluster, before, {0})
        assert "etcd-3" not in cluster.client.members().hosts
        give_back(volume)
        kill_pod(cluster, 3)
        settles(cluster, 4, CRASH_SECONDS)

    load.was_served()


async def endlessly() -> bool:
    return False


async def leave_a_learner(place: Place, operator: Operator, cluster: Cluster) -> str:
    """At ordinal 3, by an operator that dies when it has given it its ticket."""
    operator.scale(0)
    client, mirror = await connect(), Mirror(place.kube, place.namespace)
    cluster.scale(4)
    process = Process(client, mirror, operator.image, Fate(dies_at="push a ticket", when="after"))
    try:
        with pytest.raises(Dead):
            await asyncio.wait_for(process.run(place.namespace, "etcd", endlessly), 60)
    finally:
        mirror.close()
        await client.close()
    listed = eventually(
        "the learner has started",
        cluster.client.members,
        lambda found: "etcd-3" in found.names,
        seconds=20,
    )
    learners = [one for one in listed.members if one.learner]
    assert [one.name for one in learners] == ["etcd-3"]
    return learners[0].member_id


def is_replaced(
    cluster: Cluster, ordinal: int, before: dict[str, str], seconds: float = REPLACE_SECONDS
) -> None:
    """By a member of another ID; the others keep theirs."""
    other_members(cluster, before, {ordinal}, seconds)
    settles(cluster, len(before), seconds)
    after = cluster.client.members().ids
    name = f"{cluster.name}-{ordinal}"
    changed = {one for one in before if before[one] != after[one]}
    assert changed == {name}, f"{changed} were replaced, not just {name}"


def other_members(
    cluster: Cluster, before: dict[str, str], ordinals: set[int], seconds: float = REPLACE_SECONDS
) -> None:
    names = {f"{cluster.name}-{ordinal}" for ordinal in ordinals}
    eventually(
        f"{names} are other members",
        lambda: cluster.client.members().ids,
        lambda ids: all(ids.get(name) not in (None, before[name]) for name in names),
        seconds,
    )


def database(cluster: Cluster, ordinal: int) -> bytes:
    return (volume_of(cluster, ordinal) / "data" / "member" / "snap" / "db").read_bytes()


@contextmanager
def nobody_watching(cluster: Cluster) -> Iterator[None]:
    """A settled cluster's etcd is asked twice a minute; after a pause, at once."""
    cluster.change(paused=True)
    cluster.holds("SpecPaused", kind="Paused")
    yield
    cluster.change(paused=False)


def add_learner(cluster: Cluster, url: str) -> None:
    """etcd refuses while its members have been connected for less than 5 s."""
    eventually("it is added", lambda: done(lambda: cluster.client.add_learner(url)), seconds=15)


def done(act: Callable[[], None]) -> bool:
    """For `eventually`, which takes an OSError for a not yet."""
    act()
    return True
