"""An authority is rotated while clients write, and read mounted Secrets as late as allowed."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from harness.api import SECRETS
from harness.clusters import SHUT_OUT_PATIENCE, Cluster
from harness.credentials import Credentials
from harness.etcd import EtcdError
from harness.load import PROMISED_SECONDS, under_load
from harness.membership import settles
from harness.place import Place
from harness.renewal import KUBELET_SECONDS
from harness.waiting import eventually, steadily

ROLL_SECONDS = 90
OVERLAP = 60
BOTH = {"peer": 2, "client": 2}


@pytest.mark.timeout(180)
def test_a_new_ca_is_trusted_by_all_members_before_it_signs(place: Place):
    cluster = place.declare(size=3).comes_up()
    uids, first = cluster.pod_uids(), mine(cluster)
    cluster.own = first

    with under_load(cluster) as load:
        cluster.change(TLS={"rotation": BOTH})
        restarted(cluster, uids)
        load.was_served()

    both = mine(cluster)
    assert len(authorities(both)) == 2
    for client in (first, both):
        assert cluster.client_with(lambda it=client: it).members()
    assert cluster.condition("Rotating")["reason"] == "AuthorityRotates"
    assert "is being replaced" in cluster.condition("Rotating")["message"]
    steadily("nothing more comes before the overlap is over", lambda: turned(cluster),
             lambda now: now == 2, seconds=2)  # fmt: skip
    settles(cluster, 3)


@pytest.mark.verify
@pytest.mark.timeout(580)
def test_both_cas_are_replaced_under_load(place: Place):
    cluster = place.declare(size=3).comes_up()
    first, uids = mine(cluster), cluster.pod_uids()
    cluster.own = first

    with under_load(cluster) as load:
        cluster.change(TLS={"rotation": {**BOTH, "overlapSeconds": OVERLAP}})
        restarted(cluster, uids)
        assert cluster.client_with(lambda: first).members()
        cluster.own = both = mine(cluster)
        uids = cluster.pod_uids()

        reaches(cluster, turns=4, seconds=OVERLAP + 30)
        _, new = authorities(both)
        eventually(
            "every member shows a certificate of the new authority",
            lambda: [signed(shown, new) for shown in certificates(cluster)],
            lambda found: len(found) == 3 and all(found),
            seconds=KUBELET_SECONDS,
        )
        assert cluster.client_with(lambda: both).members(), "one of the old authority still does"
        assert cluster.pod_uids() == uids, "etcd takes up certificates by itself"
        cluster.own = mine(cluster)

        reaches(cluster, turns=6, seconds=200)
        restarted(cluster, uids)
        eventually("it is over", lambda: not cluster.condition("Rotating"), seconds=30)
        cluster.change(size=5)
        settles(cluster, 5, seconds=120)
        load.was_served(within=PROMISED_SECONDS)

    last = mine(cluster)
    assert authorities(last) == [new]
    assert cluster.client_with(lambda: last).members()
    with pytest.raises(EtcdError):
        cluster.client_with(lambda: both, SHUT_OUT_PATIENCE).members()
    told = {one["secret"]: one.get("generation") for one in cluster.status()["certificates"]}
    assert told["etcd-peer-ca"] == told["etcd-client-ca"] == 2


def mine(cluster: Cluster) -> Credentials:
    """What an application mounts now."""
    secret = cluster.get(SECRETS, "etcd-client-tls")
    assert secret is not None
    return Credentials.of(secret, f"etcd-client.{cluster.namespace}.svc")


def authorities(client: Credentials) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(client.authority)


def turned(cluster: Cluster) -> int:
    """How many turns the two authorities have taken together, by their Secrets."""
    found = 0
    for name in ("etcd-peer-ca", "etcd-client-ca"):
        secret = cluster.get(SECRETS, name)
        data = secret["data"] if secret else {}
        if "next-ca.crt" in data:
            found += 1
        elif base64.b64decode(data.get("generation", "")) == b"2":
            found += 2 if "old-ca.crt" in data else 3
    return found


def reaches(cluster: Cluster, *, turns: int, seconds: float) -> None:
    eventually(
        f"{turns} turns are taken", lambda: turned(cluster), lambda now: now >= turns, seconds
    )


def restarted(cluster: Cluster, uids: dict[str, str]) -> None:
    """Every pod is another one, and all serve."""
    eventually(
        "every pod is another one",
        cluster.pod_uids,
        lambda now: set(uids) <= set(now) and not set(uids.values()) & set(now.values()),
        seconds=ROLL_SECONDS,
    )
    cluster.comes_up()


def signed(shown: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        shown.verify_directly_issued_by(by)
    except Exception:  # noqa: BLE001 - of any kind
        return False
    return True


def certificates(cluster: Cluster) -> list[x509.Certificate]:
    """Those that the members show, each."""
    mine = cluster.credentials()
    assert mine is not None
    names = sorted(cluster.pods())
    return [mine.shown_at(cluster.reach.pod(cluster.namespace, name, 2379)) for name in names]
