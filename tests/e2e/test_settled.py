"""A settled cluster costs the API server no write, and no read beside watches and the Lease."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from harness.audit import Audit, Entry, in_words
from harness.place import Place

pytestmark = pytest.mark.alone

SECONDS = 60
"""The benchmarks look for ten minutes."""


@pytest.mark.timeout(180)
def test_a_settled_cluster_costs_no_requests(place: Place, audit: Audit):
    cluster = place.declare(size=3).comes_up()
    before = resource_versions(place)
    quiet = Audit(audit.path)

    time.sleep(SECONDS)

    asked = [one for one in quiet.entries(place.operator.user) if one["verb"] != "watch"]
    ours = [in_words(one) for one in asked if namespace_of(one) == place.namespace]
    assert ours == []
    # Whatever is not in a namespace serves the whole fleet: the resync, one LIST per resource.
    fleet = Counter(in_words(one) for one in asked if not namespace_of(one))
    assert all(one.startswith("list ") and count == 1 for one, count in fleet.items()), fleet
    assert resource_versions(place) == before
    cluster.comes_up(seconds=1)


def namespace_of(entry: Entry) -> str:
    return str((entry.get("objectRef") or {}).get("namespace", ""))


def resource_versions(place: Place) -> dict[str, str]:
    """Of the cluster and everything it owns."""
    cluster = place.cluster()
    owned = {**cluster.children(), **cluster.claims(), "EtcdCluster": cluster.body()}
    return {name: one["metadata"]["resourceVersion"] for name, one in owned.items() if one}
