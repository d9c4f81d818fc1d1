"""The Secret of an authority holds another than the one that members trust."""

from __future__ import annotations

import pytest
from harness.api import SECRETS, Json
from harness.clusters import Cluster
from harness.load import under_load
from harness.membership import settles
from harness.place import Place
from harness.waiting import eventually, steadily

AUTHORITY = "etcd-peer-ca"
SERVED = "etcd-peer-tls"
"""What all members show to each other."""


@pytest.mark.verify
@pytest.mark.timeout(240)
def test_a_ca_restored_from_another_cluster_signs_nothing(place: Place):
    """Somebody restores Secrets, and takes those of another cluster."""
    other = place.declare(size=1, name="other").comes_up()
    cluster = place.declare(size=3).comes_up()
    ours, pods = data_of(cluster, AUTHORITY), cluster.pod_uids()

    with under_load(cluster) as load:
        replace_data(cluster, AUTHORITY, data_of(other, "other-peer-ca"))
        cluster.holds("AuthorityLost", AUTHORITY)
        cluster.kube.delete(SECRETS, place.namespace, SERVED)
        cluster.scale(4)
        steadily(
            "nothing is signed by it",
            lambda: cluster.get(SECRETS, SERVED),
            lambda found: found is None,
            seconds=5,
        )
        assert len(cluster.client.members().members) == 3
        assert cluster.pod_uids().items() >= pods.items()

        replace_data(cluster, AUTHORITY, ours)
        eventually("it is issued again", lambda: cluster.get(SECRETS, SERVED), seconds=30)
        settles(cluster, 4, seconds=90)
    load.was_served()

    assert cluster.pod_uids().items() >= pods.items()
    assert data_of(cluster, AUTHORITY) == ours


def data_of(cluster: Cluster, name: str) -> Json:
    secret = cluster.get(SECRETS, name)
    assert secret is not None, name
    return dict(secret["data"])


def replace_data(cluster: Cluster, name: str, data: Json) -> None:
    cluster.kube.patch(SECRETS, cluster.namespace, name, {"data": data})
