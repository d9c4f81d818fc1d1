"""The operator is killed at every step of a creation; another one continues, and no trace is left.

Looking for errors alone would miss most bugs here. So each end is compared with that of an
undisturbed run: the objects, how many ever existed, the attempt, and the tickets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from harness.clusters import Cluster, is_ready, is_up, restarts
from harness.mortal import Dead, Fate, Mirror, Process, connect
from harness.operator import Operator
from harness.place import Place
from harness.slow import SLOW
from harness.waiting import brief, eventually

from etcd_operator.kube.client import Client

pytestmark = pytest.mark.alone

SIZE = 3
AT_ONCE = 4
LONGEST_SECONDS = 60
MOST_WRITES = 60
FEWER = 3
"""Writes of the status depend on timing: two runs may differ by a few."""

When = Literal["before", "after"]


@pytest.fixture
def without_operator(operator: Operator, place: Place) -> Iterator[Place]:
    place.operator_may_restart = True
    try:
        operator.scale(0)
        yield place
    finally:
        operator.scale(1)


@pytest.mark.verify
@pytest.mark.timeout(400)
@pytest.mark.parametrize("when", ["after", "before"])
async def test_an_operator_killed_at_any_write_of_a_creation_leaves_no_trace(
    without_operator: Place, when: When
):
    """`before` one write leaves what `after` the one before it leaves, so one of them is enough."""
    place = without_operator
    mirror, client = Mirror(place.kube, place.namespace), await connect()
    try:
        fate = Fate()
        wanted = await life(place, client, mirror, "whole", fate)
        print(f"a creation is {len(fate.writes)} writes: {fate.writes}")
        count = 0
        while count < MOST_WRITES:
            batch = range(count + 1, count + 1 + AT_ONCE)
            ends = await asyncio.gather(*(dies(place, client, mirror, n, when) for n in batch))
            for number, (died, end) in zip(batch, ends, strict=True):
                assert end == wanted, f"having died {when} write {number} ({died})"
            count += sum(bool(died) for died, _ in ends)
            if not all(died for died, _ in ends):
                break
        print(f"died {count} times")
        assert count >= len(fate.writes) - FEWER, "fewer deaths than writes"
    finally:
        mirror.close()
        await client.close()


def test_a_creation_continues_after_the_operators_pod_is_killed(place: Place):
    place.operator_may_restart = True
    cluster = place.declare(size=SIZE)
    eventually("the StatefulSet", cluster.stateful_set, every=0.02)

    place.operator.kill()

    cluster.comes_up(seconds=90)
    assert cluster.record()["attempt"] == 1
    assert sum(restarts(pod) for pod in cluster.pods().values()) == 0


async def dies(
    place: Place, client: Client, mirror: Mirror, number: int, when: When
) -> tuple[str, dict[str, Any]]:
    """What it died of, empty if it never got so far, and what became of the cluster."""
    fate = Fate(dies_at=number, when=when)
    end = await life(place, client, mirror, f"{when}-{number}", fate)
    return (fate.writes[number - 1] if fate.dead else ""), end


async def life(
    place: Place, client: Client, mirror: Mirror, name: str, fate: Fate
) -> dict[str, Any]:
    cluster = await asyncio.to_thread(place.declare, SIZE, name)
    image = await asyncio.to_thread(lambda: place.operator.image)
    deadline = time.monotonic() + SLOW * LONGEST_SECONDS

    async def done() -> bool:
        body = mirror.clusters.get(name)
        up = body is not None and is_up(body)
        late = time.monotonic() > deadline
        assert up or not late, f"{name} is not up; it wrote {fate.writes}; seen: {brief(body)}"
        return up

    try:
        await Process(client, mirror, image, fate).run(place.namespace, name, done)
    except Dead:
        await Process(client, mirror, image, Fate()).run(place.namespace, name, done)
    end = await asyncio.to_thread(outcome, cluster, mirror)
    await asyncio.to_thread(place.clear, cluster)
    return end


def outcome(cluster: Cluster, mirror: Mirror) -> dict[str, Any]:
    """All that must not depend on when the operator died; names without the cluster's own."""
    cluster.comes_up(seconds=5)
    record, pods = cluster.record(), cluster.pods()
    members = cluster.client.members()
    return {
        "children": sorted(one.replace(cluster.name, "*") for one in cluster.children()),
        "ever": {
            kind: len(uids)
            for (name, kind), uids in sorted(mirror.ever.items())
            if name == cluster.name
        },
        "attempt": record["attempt"],
        "latched": record["latched"],
        "tickets": len(record["issued"]),
        "members": [name.replace(cluster.name, "*") for name in members.names],
        "is the recorded cluster": members.cluster_id == record["clusterID"],
        "claims": sorted(name.replace(cluster.name, "*") for name in cluster.claims()),
        "ready": sorted(name.replace(cluster.name, "*") for name in pods if is_ready(pods[name])),
        "restarts": sum(restarts(pod) for pod in pods.values()),
        "StatefulSet generation": cluster.stateful_set()["metadata"]["generation"],
        "replicas": cluster.stateful_set()["spec"]["replicas"],
    }
