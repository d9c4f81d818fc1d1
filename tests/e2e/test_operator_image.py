"""The operator's image cannot be pulled any more; then comes an operator of another."""

from __future__ import annotations

import pytest
from harness import machines
from harness.clusters import Cluster, start_image
from harness.place import Place
from harness.release import Release
from harness.waiting import eventually

pytestmark = [pytest.mark.verify, pytest.mark.alone, pytest.mark.usefixtures("local_node")]


@pytest.mark.timeout(420)
def test_only_pods_that_wait_for_the_old_image_are_recreated_with_the_new_one(
    place: Place, release: Release
):
    """Its tag was deleted from the registry. The operator itself keeps running."""
    present = place.operator.image
    gone = f"{present.rpartition(':')[0]}:gone"
    running = place.declare(size=3, name="running").comes_up()
    pods = running.pod_uids()
    machines.name_image(present, gone)
    release.upgrade_as_documented(gone)
    machines.forget_image(gone)

    waiting = place.declare(size=3, name="waiting")
    eventually(
        "the status names the image that pods wait for",
        lambda: waiting.status().get("plan", ""),
        lambda plan: gone in plan,
        seconds=60,
    )
    assert start_images(waiting) == {gone}

    release.upgrade_as_documented(present)

    waiting.comes_up(seconds=90)
    waiting.client.put("greeting", "hello")
    assert start_images(waiting) == {present}
    assert running.pod_uids() == pods


def start_images(cluster: Cluster) -> set[str]:
    return {start_image(pod) for pod in cluster.pods().values()}
