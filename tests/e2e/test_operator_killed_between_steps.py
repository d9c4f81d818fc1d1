"""The operator is killed after every step of a scale-up, a replacement, a restart and an upgrade.

Each time another one continues without knowledge of the earlier one. The result, and how many
objects and members were created, removed and restarted, is as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from harness.clusters import PREFIX, Cluster, is_up
from harness.losses import empty_volume
from harness.membership import check_as_declared
from harness.mortal import Fate, Lives, Mirror, always_dying, connect, never, once
from harness.operator import Operator
from harness.place import Place
from harness.slow import SLOW
from harness.waiting import brief

pytestmark = pytest.mark.alone

LONGEST_SECONDS = 150
AT_ONCE = 3
MOST_WRITES = 60
NEWEST, A_MINOR_BELOW = "3.7.3", "3.6.16"


@dataclass(frozen=True)
class Operation:
    begins_at: int
    ends_at: int
    ask: Callable[[Cluster], None]
    replaces: tuple[int, ...] = ()
    restarts: bool = False
    version: str = NEWEST
    """That it begins with."""


OPERATIONS = {
    "grow": Operation(1, 3, lambda cluster: cluster.scale(3)),
    "shrink": Operation(3, 1, lambda cluster: cluster.scale(1)),
    "replace": Operation(3, 3, lambda cluster: empty_volume(cluster, 1), replaces=(1,)),
    "roll": Operation(
        3, 3, lambda cluster: cluster.change(pod={"labels": {"team": "blue"}}), restarts=True
    ),
    "upgrade": Operation(
        3,
        3,
        lambda cluster: cluster.change(version=NEWEST),
        restarts=True,
        version=A_MINOR_BELOW,
    ),
    "downgrade": Operation(
        3, 3, lambda cluster: cluster.change(version=A_MINOR_BELOW), restarts=True
    ),
}


@pytest.fixture
def without_operator(operator: Operator, place: Place) -> Iterator[Place]:
    """Its clusters are made by the installed operator, which then goes."""
    place.operator_may_restart = True
    yield place
    operator.scale(1)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(("grow", "shrink", "replace"), id="members"),
        pytest.param(("roll",), id="pods", marks=pytest.mark.verify),
        pytest.param(("upgrade", "downgrade"), id="versions", marks=pytest.mark.verify),
    ],
)
async def test_an_operator_killed_after_every_write_reaches_the_same_outcome(
    without_operator: Place, operator: Operator, local_node: None, operations: tuple[str, ...]
):
    fates = {"whole": never, "dying": always_dying}
    names = {f"{what}-{how}": (what, how) for what in operations for how in fates}
    ends = await lives(
        without_operator, {name: (what, fates[how]()) for name, (what, how) in names.items()}
    )
    for what in operations:
        whole, dying = ends[f"{what}-whole"], ends[f"{what}-dying"]
        print(f"{what}: died {dying.deaths} times; whole: {whole.counts()}")
        assert dying.deaths >= sum(whole.counts().values()), what
        assert dying.counts() == whole.counts(), f"{what}: {whole.happened}, {dying.happened}"


@pytest.mark.verify
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["grow", "shrink", "replace", "roll"])
async def test_an_operator_killed_at_any_one_write_reaches_the_same_outcome(
    without_operator: Place,
    operator: Operator,
    local_node: None,
    what: str,
    when: Literal["before", "after"],
):
    whole = (await lives(without_operator, {"whole": (what, never())}))["whole"]
    for number in range(1, MOST_WRITES, AT_ONCE):
        operator.scale(1)
        batch = {f"at-{n}": (what, once(n, when)) for n in range(number, number + AT_ONCE)}
        ends = await lives(without_operator, batch)
        for name, end in ends.items():
            assert end.counts() == whole.counts(), f"{when} {name}: {end.writes}"
        if not all(end.deaths for end in ends.values()):
            return
    raise AssertionError(f"{what} takes more than {MOST_WRITES} writes")


async def lives(place: Place, plans: dict[str, tuple[str, Iterator[Fate]]]) -> dict[str, Lives]:
    """Makes a cluster for each, and then takes them through their operations, a few at once."""
    clusters = {
        name: place.declare(size=asked.begins_at, name=name, version=asked.version)
        for name, asked in ((name, OPERATIONS[what]) for name, (what, _) in plans.items())
    }
    for cluster in clusters.values():
        place.may_lose |= {f"data-{cluster.name}-{ordinal}" for ordinal in range(3)}
        cluster.comes_up(seconds=120)
    image = place.operator.image
    place.operator.scale(0)
    mirror, client = Mirror(place.kube, place.namespace), await connect()
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, what: str, fates: Iterator[Fate]) -> Lives:
        life = Lives(client, mirror, image)
        async with turns:
            await live(place, clusters[name], OPERATIONS[what], life, fates)
        return life

    try:
        done = await asyncio.gather(*(one(name, *plan) for name, plan in plans.items()))
    finally:
        mirror.close()
        await client.close()
    return dict(zip(plans, done, strict=True))


async def live(
    place: Place, cluster: Cluster, operation: Operation, life: Lives, fates: Iterator[Fate]
) -> None:
    """What blocks is left to threads: other operators live in this event loop."""
    members, uids = await asyncio.to_thread(begin, cluster)
    await asyncio.to_thread(operation.ask, cluster)
    deadline = time.monotonic() + SLOW * LONGEST_SECONDS

    async def done() -> bool:
        body = life.mirror.clusters.get(cluster.name)
        late = time.monotonic() > deadline
        up = body is not None and is_up(body)
        over = up and await asyncio.to_thread(is_over, cluster, operation, members, uids)
        assert over or not late, f"{cluster.name}: not done; {life.writes}; seen: {brief(body)}"
        return over

    await life.run((place.namespace, cluster.name), fates, done)
    await asyncio.to_thread(check_as_declared, cluster, operation.ends_at)
    after = (await asyncio.to_thread(cluster.client.members)).ids
    changed = {name for name in members if name in after and members[name] != after[name]}
    assert changed == {f"{cluster.name}-{ordinal}" for ordinal in operation.replaces}
    await asyncio.to_thread(place.clear, cluster)


def begin(cluster: Cluster) -> tuple[dict[str, str], dict[str, str]]:
    """Its members and the UIDs of its pods, led by the last as long as etcd leaves it at that:
    otherwise some clusters would have to change their leader on the way and some not."""
    cluster.is_led_by(len(cluster.pods()) - 1)
    return cluster.client.members().ids, cluster.pod_uids()


def is_over(
    cluster: Cluster, operation: Operation, members: dict[str, str], uids: dict[str, str]
) -> bool:
    """Where the spec is the same as before, the status says that all is well from the start; and
    after a shrink it does while the last pods still stop."""
    body: dict[str, Any] = cluster.body() or {}
    size = operation.ends_at
    if body["spec"]["size"] != size or len(cluster.pods()) != size or len(cluster.claims()) != size:
        return False
    if operation.replaces:
        names = [f"{cluster.name}-{ordinal}" for ordinal in operation.replaces]
        recorded = {name: recorded_member(cluster, name) for name in names}
        return all(recorded[name] not in ("", members[name]) for name in names)
    if operation.restarts:
        return not set(uids.values()) & set(cluster.pod_uids().values())
    return True


def recorded_member(cluster: Cluster, name: str) -> str:
    claim = cluster.claims().get(f"data-{name}")
    notes = claim["metadata"].get("annotations", {}) if claim else {}
    return str(notes.get(f"{PREFIX}/member-id", ""))
