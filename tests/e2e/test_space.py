"""Members are defragmented after deletions, and a full quota is resolved without a human."""

from __future__ import annotations

import itertools

import pytest
from harness.clusters import Cluster, restarts
from harness.etcd import EtcdError
from harness.load import under_load
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually

LARGE = 500_000
KEYS = 10
SEEN_SECONDS = 90
"""A settled cluster is asked every half minute or so."""


def fill(cluster: Cluster) -> None:
    """Until nothing is left to give back: etcd's files grow by more than they need at first."""

    def is_full() -> bool:
        with pytest.raises(EtcdError, match="database space exceeded"):
            write(cluster, 20)
        return cluster.condition("Blocked").get("reason") == "NoSpace"

    eventually("the quota is full", is_full, seconds=SEEN_SECONDS)


def write(cluster: Cluster, turns: int) -> None:
    """Most of what is written is history in the end."""
    for turn, number in itertools.product(range(turns), range(KEYS)):
        cluster.client.put(f"large-{number}", f"{turn} " + "x" * LARGE)


def reasons(cluster: Cluster) -> list[str]:
    return [event["reason"] for event in cluster.events()]


def is_written(cluster: Cluster) -> bool:
    try:
        cluster.client.put("after", "all")
    except EtcdError:
        return False
    return True


@pytest.mark.verify
@pytest.mark.timeout(240)
def test_a_full_quota_ends_once_space_can_be_reclaimed(place: Place):
    cluster = place.declare(size=3, etcd={"quotaBackend": "32Mi"}).comes_up()
    pods = cluster.pod_uids()
    fill(cluster)
    assert not is_written(cluster)

    # On one member alone what has become free is counted by this.
    cluster.client.compact()
    eventually("writes are let in again", lambda: is_written(cluster), seconds=SEEN_SECONDS)

    eventually("it is told of", lambda: {"Defragmented", "AlarmDisarmed"} <= {*reasons(cluster)})
    settles(cluster, 3)
    assert cluster.pod_uids() == pods
    assert not any(restarts(pod) for pod in cluster.pods().values())


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_database_files_that_are_mostly_free_shrink_under_load(place: Place):
    cluster = place.declare(size=3).comes_up()
    leader = cluster.leader()
    with under_load(cluster) as load:
        write(cluster, 30)
        cluster.client.compact()
        what = "each has been defragmented"
        eventually(what, lambda: reasons(cluster).count("Defragmented") == 3, seconds=SEEN_SECONDS)
        settles(cluster, 3)
    load.was_served()

    # Not the lines of a decision that was called off, because a member missed the second look.
    steps = [line for line in place.operator.log.holding([" defragmented etcd-"], place.began)
             if f"{place.namespace}/" in line]  # fmt: skip
    assert len(steps) == 3
    assert f"reason=etcd-{leader} is defragmented" in steps[-1], steps
    sizes = [int(cluster.member(ordinal).status()["dbSize"]) for ordinal in range(3)]
    assert max(sizes) < 20 * LARGE, sizes
    assert "PodRestarted" not in reasons(cluster)
