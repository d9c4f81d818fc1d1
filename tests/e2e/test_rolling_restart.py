"""What restarts pods, one at a time, and what does not: edits, pauses, another operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import machines
from harness.api import Json
from harness.clusters import Cluster, start_image
from harness.load import Load, under_load
from harness.membership import settles
from harness.operator import Operator
from harness.place import PLAINTEXT, Place
from harness.release import Release
from harness.story import story_of
from harness.waiting import eventually, steadily

QUIET = 4.0
ROLL_SECONDS = 90

EDITS = {
    "resources": {"pod": {"resources": {"requests": {"memory": "32Mi"}}}},
    "an option of etcd": {"etcd": {"snapshotCount": 20000}},
    "a label": {"pod": {"labels": {"team": "blue"}}},
}
TOGETHER = {
    "all of it": {
        "pod": EDITS["resources"]["pod"] | EDITS["a label"]["pod"],
        "etcd": EDITS["an option of etcd"]["etcd"],
    }
}

NO_RESTART = {
    "the size it has": {"size": 3},
    "the version it runs": {"version": "3.7.3"},
    "retained claims": {"retainedClaims": {"discard": "11111111-2222-3333-4444-555555555555"}},
    "a pause": {"paused": True},
    "no pause": {"paused": False},
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "edits",
    [
        pytest.param(TOGETHER, id="together"),
        pytest.param(EDITS, marks=pytest.mark.verify, id="each"),
    ],
)
def test_edits_restart_every_pod_one_at_a_time(place: Place, edits: dict[str, dict[str, Json]]):
    cluster = place.declare(size=3).comes_up()
    before = cluster.client.members()

    with under_load(cluster) as load:
        for what, edit in edits.items():
            rolls(cluster, load, what, edit)

    assert cluster.client.members() == before
    pod = cluster.pod(0)
    assert pod["metadata"]["labels"]["team"] == "blue"
    etcd = next(one for one in pod["spec"]["containers"] if one["name"] == "etcd")
    assert etcd["resources"]["requests"]["memory"] == "32Mi"


@pytest.mark.verify
def test_a_cluster_without_tls_restarts_one_pod_at_a_time(place: Place):
    cluster = place.declare(size=3, TLS=PLAINTEXT).comes_up()

    with under_load(cluster) as load:
        rolls(cluster, load, "a label", EDITS["a label"])


@pytest.mark.timeout(330)
def test_edits_that_do_not_affect_pods_restart_none(place: Place):
    cluster = place.declare(size=3).comes_up()
    uids = cluster.pod_uids()

    for what, edit in NO_RESTART.items():
        cluster.change(**edit)
        eventually(
            f"{what} is taken up",
            cluster.body,
            lambda body: body["status"]["observedGeneration"] == body["metadata"]["generation"],
        )
        steadily(f"{what} restarts none", cluster.pod_uids, lambda now: now == uids, QUIET / 2)

    settles(cluster, 3)
    assert cluster.pod_uids() == uids


@pytest.mark.timeout(600)
def test_a_new_operator_release_restarts_no_pod_until_asked_to(
    place: Place, another_image: str, release: Release
):
    """A new release has another image for `start`, which is in every pod of every cluster."""
    cluster = place.declare(size=3).comes_up()
    uids = cluster.pod_uids()
    tag = another_image.rpartition(":")[2]

    release.upgrade(**{"image.tag": tag})

    eventually(
        "the template has the new image",
        cluster.stateful_set,
        lambda found: start_image(found["spec"]["template"]) == another_image,
        seconds=60,
    )
    said = eventually(
        "it is said that the pods are of the one before",
        lambda: cluster.condition("Progressing"),
        lambda found: all(name in found["message"] for name in uids),
        seconds=30,
    )
    assert (said["status"], said["reason"]) == ("False", "AsDeclared")
    assert "when it is next restarted" in said["message"]
    steadily("no pod is restarted", cluster.pod_uids, lambda now: now == uids, QUIET)
    settles(cluster, 3)

    cluster.change(pod={"annotations": {"example.com/restarted": "now"}})

    restarted(cluster, uids)
    assert {start_image(pod) for pod in cluster.pods().values()} == {another_image}
    assert cluster.condition("Progressing")["message"] == "the cluster is as declared"


@pytest.fixture
def another_image(operator: Operator, local_node: None) -> Iterator[str]:
    """The same image by another name, which is all that a pod's template shows of it."""
    name = f"{operator.image}-renamed"
    machines.name_image(operator.image, name)
    yield name
    machines.forget_image(name)


@pytest.mark.verify
@pytest.mark.parametrize("size", [1, 2])
def test_one_or_two_members_restart_with_an_announced_outage(place: Place, size: int):
    cluster = place.declare(size=size).comes_up()
    cluster.client.put("before", "kept")
    uids = cluster.pod_uids()

    with story_of(cluster) as story:
        cluster.change(pod={"labels": {"team": "blue"}})
        restarted(cluster, uids)

    assert sorted(story.stopped) == sorted(uids)
    assert story.most_away == 1
    assert cluster.client.get("before") == "kept"
    said = " ".join(one["message"] for one in cluster.events())
    assert "clients are not served meanwhile" in said


@pytest.mark.verify
def test_the_only_copy_of_the_data_is_not_lost_by_a_restart(place: Place):
    """With an emptyDir a restart loses the data, and at these sizes no other member can replace
    it."""
    cluster = place.declare(size=1, pod={"emptyDir": {}}).comes_up()
    cluster.client.put("before", "kept")
    uids = cluster.pod_uids()

    cluster.change(pod={"labels": {"team": "blue"}})

    cluster.holds("RestartNeedsMembers", "emptyDir", "spec.size")
    assert cluster.pod_uids() == uids
    cluster.scale(3)
    restarted(cluster, uids, size=3)
    assert cluster.client.get("before") == "kept"


def rolls(cluster: Cluster, load: Load, what: str, edit: dict[str, object]) -> None:
    """In which order is not asked here: under load etcd may elect another leader meanwhile."""
    uids, began = cluster.pod_uids(), load.now()
    with story_of(cluster) as story:
        cluster.change(**edit)
        restarted(cluster, uids)
    print(f"{what}: {load.now() - began:.1f} s, gap {load.gap(began).seconds:.2f} s")
    assert sorted(story.stopped) == sorted(uids), f"{what}: {story.stopped}"
    assert story.most_down == 1, f"{what}: {story.most_down} pods were down at once"
    load.was_served(began)


def restarted(cluster: Cluster, uids: dict[str, str], size: int | None = None) -> None:
    """All pods that there were are other ones, and all is well again."""
    eventually(
        "every pod is another one",
        cluster.pod_uids,
        lambda now: set(uids) <= set(now) and not set(uids.values()) & set(now.values()),
        seconds=ROLL_SECONDS,
    )
    settles(cluster, size or len(uids))
