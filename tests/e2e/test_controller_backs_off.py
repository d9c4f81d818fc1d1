"""The StatefulSet controller backs off from a pod it could not create, and nobody has to wait."""

from __future__ import annotations

import time

import pytest
from harness.api import CLAIMS, PODS
from harness.losses import delete_claim_and_pod
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually

FAILURES = 25
"""Each doubles the pause before the next try, from 5 ms on: after this many it is 1000 s, the most
that there is (client-go's rate limiter)."""

SOON_SECONDS = 90


@pytest.mark.verify
def test_a_pod_had_to_wait_for_the_back_off_of_the_stateful_set_controller(place: Place):
    """Seen after a restore in place: three claims went at once, each pod that was deleted made the
    controller try again, and when the claims were gone it slept for 328 s."""
    place.may_lose |= {"data-etcd-1"}
    cluster = place.declare(size=3).comes_up()
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    cluster.kube.patch(CLAIMS, cluster.namespace, "data-etcd-1", held)

    delete_claim_and_pod(cluster, 1)
    eventually("its pod is gone", lambda: "etcd-1" not in cluster.pods())
    for turn in range(FAILURES):
        touched = {"metadata": {"annotations": {"example.com/turn": str(turn)}}}
        cluster.kube.patch(PODS, cluster.namespace, "etcd-0", touched)
        time.sleep(0.1)
    cluster.kube.patch(CLAIMS, cluster.namespace, "data-etcd-1", {"metadata": {"finalizers": None}})

    settles(cluster, 3, SOON_SECONDS)
