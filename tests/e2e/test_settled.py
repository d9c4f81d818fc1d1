"""A settled cluster costs the API server no write, and no read beside watches and the Lease."""

from __future__ import annotations

import time

import pytest
from harness.api import CLUSTERS
from harness.audit import Audit
from harness.place import Place
from harness.waiting import eventually

SECONDS = 60
"""The benchmarks look for ten minutes."""


@pytest.mark.timeout(180)
def test_a_settled_cluster_costs_no_requests(place: Place, audit: Audit):
    cluster = place.declare(size=3).comes_up()
    version = resource_versions(place)
    eventually("the other namespaces are gone", lambda: alone(place), seconds=90)
    quiet = Audit(audit.path)

    time.sleep(SECONDS)

    asked = quiet.count(place.operator.user)
    renewals = {one: n for one, n in asked.items() if one.endswith(" leases")}
    assert {one: n for one, n in asked.items() if one not in renewals} == {}
    assert sum(renewals.values()) <= SECONDS, renewals
    assert resource_versions(place) == version
    cluster.comes_up(seconds=1)


def resource_versions(place: Place) -> dict[str, str]:
    """Of the cluster and everything it owns."""
    cluster = place.cluster()
    owned = {**cluster.children(), **cluster.claims(), "EtcdCluster": cluster.body()}
    return {name: one["metadata"]["resourceVersion"] for name, one in owned.items() if one}


def alone(place: Place) -> bool:
    """No other test's namespace is still being deleted, which would keep the operator busy."""
    return {one["metadata"]["namespace"] for one in place.kube.list(CLUSTERS)} == {place.namespace}
