"""TLS: managed by default, with the user's certificates, or turned off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness.api import PODS, SECRETS, Json
from harness.authority import Authority
from harness.clusters import SHUT_OUT_PATIENCE, restarts
from harness.credentials import Credentials
from harness.etcd import EtcdError, ask_in_plaintext
from harness.load import PROMISED_SECONDS, under_load
from harness.membership import settles
from harness.place import PLAINTEXT, Place
from harness.renewal import all_show_another, serials
from harness.waiting import eventually, steadily

STATIC = {
    "static": {
        "member": {"peerSecret": "peers", "serverSecret": "servers"},
        "operatorSecret": "operators",
    }
}
LEAVES = ("etcd-server-tls", "etcd-peer-tls", "etcd-operator-tls", "etcd-client-tls")


def test_managed_tls_admits_only_clients_with_a_certificate(place: Place):
    """It is what a spec gets that does not speak of TLS."""
    cluster = place.declare(size=3).comes_up()

    cluster.client.put("greeting", "hello")
    mine = cluster.credentials()
    stranger = Credentials(mine.authority, b"", b"", mine.host)
    forged, key = Authority().sign("c-client")

    assert cluster.client.get("greeting") == "hello"
    for other in (stranger, Credentials(mine.authority, forged, key, mine.host), None):
        with pytest.raises(EtcdError):
            cluster.client_with(lambda it=other: it, SHUT_OUT_PATIENCE).get("greeting")
    # Who speaks plaintext is told nothing: etcd hangs up, and says why in its own log.
    with pytest.raises(ConnectionResetError):
        ask_in_plaintext(cluster.reach.pod(place.namespace, "etcd-0", 2379))
    eventually(
        "etcd says why",
        lambda: place.kube.kubectl("-n", place.namespace, "logs", "etcd-0", "-c", "etcd"),
        lambda log: "first record does not look like a TLS handshake" in log,
        seconds=5,
    )
    urls = [url for member in cluster.client.members().members for url in member.peer_urls]
    assert all(url.startswith("https://") for url in urls), urls
    told = {one["secret"] for one in cluster.status()["certificates"]}
    assert len(told) == 6
    assert not cluster.condition("Plaintext")


def test_etcdctl_in_a_pod_connects_without_flags(place: Place):
    """Also with endpoints given as a flag, which etcdctl would refuse beside a variable for
    them."""
    place.declare(size=1).comes_up()

    def etcdctl(*words: str) -> str:
        run = ("exec", "etcd-0", "-c", "etcd", "--", "etcdctl", "--command-timeout=25s")
        return place.kube.kubectl("-n", place.namespace, *run, *words)

    etcdctl("put", "greeting", "hello")
    for where in ((), ("--endpoints", "https://etcd-client:2379")):
        assert etcdctl(*where, "get", "greeting", "--print-value-only").strip() == "hello"


@pytest.mark.verify
@pytest.mark.timeout(330)
def test_a_new_certificate_is_used_without_a_restart(place: Place):
    cluster = place.declare(size=3).comes_up()
    before, uids = serials(cluster), cluster.pod_uids()
    old = {name: cluster.get(SECRETS, name) for name in LEAVES}
    with under_load(cluster) as load:
        for name in LEAVES:
            place.kube.delete(SECRETS, place.namespace, name)
        eventually(
            "all are there again, with another certificate",
            lambda: {name: cluster.get(SECRETS, name) for name in LEAVES},
            lambda new: all(
                new[name] and new[name]["data"] != old[name]["data"] for name in LEAVES
            ),
        )
        all_show_another(cluster, before)
        load.was_served(within=PROMISED_SECONDS)
    assert cluster.pod_uids() == uids
    assert not sum(restarts(pod) for pod in cluster.pods().values())
    # Its peers take one that comes back with the new one, too.
    place.kube.delete(PODS, place.namespace, "etcd-0")
    settles(cluster, 3)


def test_user_provided_certificates_are_served(place: Place):
    bring(place)
    cluster = place.declare(size=3, TLS=STATIC)
    with under_load(cluster.comes_up()):
        place.kube.delete(PODS, place.namespace, "etcd-1")
        settles(cluster, 3)
    made = {one["metadata"]["name"] for one in place.kube.list(SECRETS, place.namespace)}
    assert made == {"etcd-start", "peers", "servers", "operators"}


@pytest.mark.verify
def test_user_provided_peer_certificates_leave_clients_with_managed_ones(place: Place):
    bring(place)
    place.credentials = None
    cluster = place.declare(size=3, TLS={"static": {"member": {"peerSecret": "peers"}}})
    cluster.comes_up()
    urls = [url for member in cluster.client.members().members for url in member.peer_urls]
    assert all(url.startswith("https://") for url in urls), urls
    assert cluster.credentials() is not None


def test_plaintext_by_request_is_reported(place: Place):
    cluster = place.declare(size=1, TLS=PLAINTEXT).comes_up()
    cluster.client.put("greeting", "hello")
    told = cluster.condition("Plaintext")
    assert "members and of clients is neither encrypted nor authenticated" in told["message"]
    assert "as spec.TLS asks" in told["message"]
    eventually(
        "an event",
        lambda: [one for one in cluster.events() if one["reason"] == "Plaintext"],
    )


def test_an_invalid_certificate_is_reported_and_can_be_corrected(place: Place):
    place.declare(size=1, TLS=STATIC).holds(
        "CertificatesUnusable", "Secret peers", "does not exist"
    )

    authority = bring(place)
    cluster = place.cluster()
    names = ("*.etcd.elsewhere.svc",)
    alter(place, authority.secret("servers", "server", *names))
    cluster.holds("CertificatesUnusable", "servers", "server.crt is not valid for")
    alter(place, authority.secret("servers", "server", *names_of(place), days=-1))
    cluster.holds("CertificatesUnusable", "servers", "server.crt expired on")
    stranger = Authority().secret("servers", "server", *names_of(place))
    stranger["data"].pop("server-ca.crt")
    alter(place, stranger)
    cluster.holds("CertificatesUnusable", "server-ca.crt has not signed")
    assert not cluster.pods()

    alter(place, authority.secret("servers", "server", *names_of(place)))
    cluster.comes_up()


@pytest.mark.verify
def test_an_invalid_certificate_does_not_affect_a_running_cluster(place: Place):
    authority = bring(place)
    cluster = place.declare(size=3, TLS=STATIC).comes_up()
    uids = cluster.pod_uids()

    for secret, said in bad_ones(place, authority):
        alter(place, secret)
        cluster.holds("CertificatesUnusable", "Secret peers", said, seconds=5)
        assert cluster.pod_uids() == uids
    cluster.change(pod={"annotations": {"restarted": "now"}})

    steadily("no pod is restarted", cluster.pod_uids, lambda now: now == uids, seconds=4)
    cluster.client.put("still", "served")
    alter(place, authority.secret("peers", "peer", *names_of(place)))
    eventually(
        "all are restarted after all",
        cluster.pod_uids,
        lambda now: len(now) == 3 and not set(now.values()) & set(uids.values()),
        seconds=90,
    )
    settles(cluster, 3)


@pytest.mark.verify
def test_a_switch_to_other_certificates_is_declined_while_a_cluster_runs(place: Place):
    cluster = place.declare(size=3).comes_up()
    uids = cluster.pod_uids()

    cluster.change(TLS={"static": {"member": {"peerSecret": "peers"}}})

    cluster.holds("TLSCannotChange", "peers have TLS with managed")
    assert cluster.pod_uids() == uids
    cluster.change(TLS=None)
    settles(cluster, 3)


def bring(place: Place) -> Authority:
    """The three Secrets that `STATIC` names, and what clients show."""
    authority, names = Authority(), names_of(place)
    for secret in (
        authority.secret("peers", "peer", *names),
        authority.secret("servers", "server", *names),
        authority.secret("operators", "etcd-client"),
    ):
        place.kube.create(SECRETS, secret, place.namespace)
    certificate, key = authority.sign("an application")
    host = f"etcd-client.{place.namespace}.svc"
    place.credentials = Credentials(authority.pem, certificate, key, host)
    return authority


def bad_ones(place: Place, authority: Authority) -> Iterator[tuple[Json, str]]:
    """Secrets for members that are unusable in different ways, and what is said of each."""
    names = names_of(place)
    wrong_key, stranger = authority.secret("peers", "peer", *names), Authority()
    wrong_key["data"].pop("peer.crt")
    foreign = stranger.secret("peers", "peer", *names)
    foreign["data"].pop("peer-ca.crt")
    yield wrong_key, "peer.key is not the key of peer.crt"
    yield authority.secret("peers", "peer", *names, days=-1), "peer.crt expired on"
    yield foreign, "peer-ca.crt has not signed peer.crt"
    yield authority.secret("peers", "peer", "elsewhere"), "peer.crt is not valid for"


def names_of(place: Place) -> tuple[str, ...]:
    """As coreos documented them."""
    home = f"etcd.{place.namespace}.svc"
    return (f"*.{home}", f"*.{home}.cluster.local", f"etcd-client.{place.namespace}.svc")


def alter(place: Place, secret: Json) -> None:
    place.kube.patch(SECRETS, place.namespace, secret["metadata"]["name"], secret)
