"""TLS is turned on and off while clients write, and switch at their own time."""

from __future__ import annotations

import pytest
from harness.api import CLAIMS, PODS
from harness.clusters import PREFIX, SHUT_OUT_PATIENCE, Cluster
from harness.etcd import EtcdError
from harness.load import under_load
from harness.membership import settles
from harness.place import PLAINTEXT, Place
from harness.waiting import eventually

MANAGED = {"peer": "Managed", "client": "Managed"}

CHANGE_SECONDS = 150
"""For two rolling restarts of three members, on a machine that does other things."""


@pytest.mark.timeout(420)
def test_tls_is_turned_on_while_clients_switch_in_their_own_time(place: Place):
    cluster = place.declare(size=3, TLS=PLAINTEXT).comes_up()
    ids = cluster.client.members().ids
    cluster.plaintext = True

    with under_load(cluster) as load:
        cluster.change(TLS={**MANAGED, "allowPlaintextClients": True})
        cluster.holds("TLSChanges", "TLS between members is turned on", kind="ChangingTLS")
        changed(cluster, peers="https")
        load.was_served()
        cluster.client.put("greeting", "in plaintext")
        cluster.plaintext = False
        assert cluster.client.get("greeting") == "in plaintext"

    assert cluster.client.members().ids == ids
    said = cluster.condition("Plaintext")["message"]
    assert "of clients" in said
    assert "as spec.TLS.allowPlaintextClients asks" in said
    settles(cluster, 3)


@pytest.mark.verify
@pytest.mark.timeout(1020)
def test_tls_is_turned_on_and_off_and_reverted_half_way_under_load(place: Place):
    cluster = place.declare(size=3, TLS=PLAINTEXT).comes_up()
    ids = cluster.client.members().ids
    cluster.plaintext = True

    with under_load(cluster) as load:
        uids = cluster.pod_uids()
        cluster.change(TLS={**MANAGED, "allowPlaintextClients": True})
        eventually(
            "some pod is another one",
            cluster.pod_uids,
            lambda now: set(now.values()) - set(uids.values()),
            seconds=60,
        )
        cluster.change(TLS={**PLAINTEXT, "allowPlaintextClients": None})
        changed(cluster, peers="http")
        assert "links" not in cluster.record(), "it went back"

        cluster.change(TLS={**MANAGED, "allowPlaintextClients": True})
        changed(cluster, peers="https")
        cluster.plaintext = False
        cluster.change(TLS={"allowPlaintextClients": None})
        changed(cluster, peers="https")
        with pytest.raises(EtcdError):
            cluster.client_with(lambda: None, SHUT_OUT_PATIENCE).members()
        assert not cluster.condition("Plaintext")

        cluster.change(TLS={"peer": "Plaintext", "allowPlaintextClients": True})
        changed(cluster, peers="http")
        cluster.plaintext = True
        place.kube.delete(PODS, place.namespace, "etcd-1")
        cluster.change(TLS={"client": "Plaintext", "allowPlaintextClients": None})
        changed(cluster, peers="http")
        load.was_served()

    assert cluster.client.members().ids == ids
    assert "links" not in cluster.record()
    cluster.plaintext = None
    settles(cluster, 3)


def changed(cluster: Cluster, *, peers: str) -> None:
    """At rest, with all members found by this scheme alone, on the list and on their claims."""
    eventually(
        "TLS has changed",
        lambda: (cluster.status(), cluster.body()["metadata"]["generation"]),
        is_over,
        seconds=CHANGE_SECONDS,
    )
    cluster.comes_up()
    urls = [url for member in cluster.client.members().members for url in member.peer_urls]
    assert [url.partition(":")[0] for url in urls] == [peers] * 3, urls
    claims = cluster.kube.list(CLAIMS, cluster.namespace)
    notes = [claim["metadata"]["annotations"] for claim in claims]
    assert {one.get(f"{PREFIX}/peer-scheme", "http") for one in notes} == {peers}


def is_over(seen: tuple[dict, int]) -> bool:
    status, generation = seen
    said = {one["type"] for one in status.get("conditions", ())}
    return status.get("observedGeneration") == generation and "ChangingTLS" not in said
