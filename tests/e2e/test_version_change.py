"""etcd is upgraded and downgraded under load, one minor at a time, only where etcd allows it."""

from __future__ import annotations

import pytest
from harness.clusters import Cluster, is_ready
from harness.conditions import condition
from harness.load import under_load
from harness.membership import settles
from harness.place import Place
from harness.story import story_of
from harness.waiting import eventually, steadily

ROLL_SECONDS = 120
PULL_SECONDS = 60


@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    "versions",
    [
        pytest.param(("3.5.35", "3.6.16", "3.7.3"), marks=pytest.mark.verify, id="up-two-minors"),
        pytest.param(("3.5.35", "3.6.16", "3.5.35"), marks=pytest.mark.verify, id="back-to-3.5"),
        pytest.param(("3.6.16", "3.7.3", "3.6.16"), id="up-and-down-again"),
    ],
)
def test_a_cluster_is_upgraded_one_minor_after_the_other_under_load(
    place: Place, versions: tuple[str, ...]
):
    cluster = place.declare(size=3, version=versions[0]).comes_up()
    before = cluster.client.members()

    with under_load(cluster) as load:
        for version in versions[1:]:
            began = load.now()
            goes_to(cluster, version)
            print(f"to {version}: {load.now() - began:.1f} s, gap {load.gap(began).seconds:.2f} s")
            load.was_served(began)

    assert cluster.client.members() == before


@pytest.mark.verify
@pytest.mark.alone
def test_a_patch_upgrade_moves_the_leader_only_once(place: Place):
    """Runs alone: on a machine short of time etcd also elects leaders by itself."""
    cluster = place.declare(size=3, version="3.7.2").comes_up()
    leader, uids = cluster.leader(), cluster.pod_uids()

    with under_load(cluster) as load, story_of(cluster) as story:
        goes_to(cluster, "3.7.3")

    assert sorted(story.stopped) == sorted(uids)
    assert story.stopped[-1] == f"etcd-{leader}"
    assert story.most_down == 1
    moved = [one["message"] for one in cluster.events() if one["reason"] == "LeaderMoved"]
    assert len(moved) == 1, moved
    assert f"etcd-{leader} is to be restarted" in moved[0]
    load.was_served()


@pytest.mark.verify
def test_a_version_without_an_image_stops_at_the_first_pod_and_can_be_reverted(place: Place):
    """A minor higher, so that going back is a downgrade that has not happened yet."""
    cluster = place.declare(size=3, version="3.6.16").comes_up()

    with under_load(cluster):
        uids = cluster.pod_uids()
        cluster.change(version="3.7.99")
        stops_at_the_first_pod(cluster, uids, "etcd:v3.7.99")

        cluster.change(version="3.6.16")
        settles(cluster, 3, ROLL_SECONDS)
        assert sum(cluster.pod_uids()[name] == uid for name, uid in uids.items()) == 2


@pytest.mark.verify
def test_a_repository_without_images_stops_at_the_first_pod_and_can_be_reverted(place: Place):
    cluster = place.declare(size=3).comes_up()

    with under_load(cluster):
        uids = cluster.pod_uids()
        cluster.change(repository="localhost/nowhere/etcd")
        stops_at_the_first_pod(cluster, uids, "localhost/nowhere/etcd:v3.7.3")

        cluster.change(repository=None)
        settles(cluster, 3, ROLL_SECONDS)
        assert sum(cluster.pod_uids()[name] == uid for name, uid in uids.items()) == 2


def goes_to(cluster: Cluster, version: str) -> None:
    size = len(cluster.pods())
    cluster.change(version=version)
    eventually(
        f"every member runs {version}",
        lambda: [cluster.member(ordinal).status()["version"] for ordinal in range(size)],
        lambda found: found == [version] * size,
        seconds=ROLL_SECONDS,
    )
    settles(cluster, size)
    status = cluster.status()
    assert (status["currentVersion"], status["targetVersion"]) == (version, "")


def stops_at_the_first_pod(cluster: Cluster, uids: dict[str, str], image: str) -> None:
    """The pod and the image are reported, and two members keep serving."""
    status = eventually(
        "the plan names the image",
        cluster.status,
        lambda status: image in status.get("plan", "") and "cannot be pulled" in status["plan"],
        seconds=PULL_SECONDS,
    )
    message = condition({"status": status}, "Progressing")["message"]
    assert image in message, message
    assert cluster.condition("Available")["status"] == "True"
    assert cluster.condition("Degraded")["status"] == "True"
    steadily(
        "the other pods are left alone",
        lambda: [name for name, pod in cluster.pods().items() if is_ready(pod)],
        lambda ready: (
            len(ready) == 2 and all(cluster.pod_uids()[one] == uids[one] for one in ready)
        ),
        seconds=5,
    )
