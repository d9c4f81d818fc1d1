"""TLS from a cert-manager issuer, with cert-manager's own controllers and CRDs."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from cryptography import x509
from harness.api import CERTIFICATES, SECRETS, STATEFUL_SETS, Kube
from harness.authority import Authority
from harness.cert_manager import CertManager, bring_issuer, renew
from harness.clusters import SHUT_OUT_PATIENCE, Cluster, restarts
from harness.credentials import Credentials
from harness.etcd import EtcdError
from harness.load import PROMISED_SECONDS, under_load
from harness.membership import settles
from harness.place import Place
from harness.renewal import all_show_another, serials
from harness.waiting import eventually

ISSUED = {"issuerRef": {"name": "ca"}, "rotation": {"overlapSeconds": 20}}
NAMES = ("etcd-peer-issued", "etcd-server-issued", "etcd-operator-issued", "etcd-client-issued")
SOON = 10


@pytest.fixture
def cert_manager(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CertManager]:
    """Not installed yet."""
    found = CertManager(kube, tmp_path_factory.mktemp("cert-manager") / "log")
    found.uninstall()
    yield found
    found.uninstall()


@pytest.fixture
def authority(cert_manager: CertManager, place: Place) -> Authority:
    """Of the Issuer that there is, with cert-manager at work."""
    cert_manager.install()
    cert_manager.start()
    authority = Authority()
    bring_issuer(place, authority)
    return authority


@pytest.mark.timeout(300)
def test_certificates_are_issued_as_soon_as_the_issuer_exists(
    cert_manager: CertManager, place: Place
):
    """Until then nothing is served in plaintext."""
    cluster = place.declare(size=3, TLS=ISSUED)
    cluster.holds("CertManagerMissing", "Issuer ca", "install cert-manager", seconds=SOON)

    cert_manager.install()
    waits(cluster, "etcd-peer-issued", "says nothing yet", seconds=30)
    cert_manager.start()
    waits(cluster, "etcd-server-issued", "Issuing certificate as Secret does not exist", seconds=30)
    assert not cluster.get(STATEFUL_SETS, "etcd")
    authority = Authority()
    bring_issuer(place, authority)

    cluster.comes_up(90)
    cluster.client.put("greeting", "hello")
    assert cluster.client.get("greeting") == "hello"
    mine = cluster.credentials()
    assert mine is not None
    assert mine.authority.strip() == authority.pem.strip()
    for other in (Credentials(mine.authority, b"", b"", mine.host), None):
        with pytest.raises(EtcdError):
            cluster.client_with(lambda it=other: it, SHUT_OUT_PATIENCE).get("greeting")
    urls = [url for member in cluster.client.members().members for url in member.peer_urls]
    assert all(url.startswith("https://") for url in urls), urls
    settles(cluster, 3)


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_a_certificate_that_is_altered_or_deleted_is_put_back(authority: Authority, place: Place):
    cluster = place.declare(size=1, TLS=ISSUED).comes_up(90)
    where = (CERTIFICATES, place.namespace)
    place.kube.patch(*where, NAMES[0], {"spec": {"dnsNames": ["mine"]}})
    place.kube.delete(*where, NAMES[1])
    eventually(
        "both are as they were",
        lambda: [place.kube.get(*where, name) for name in NAMES[:2]],
        lambda found: all(one and "mine" not in one["spec"]["dnsNames"] for one in found),
        seconds=SOON,
    )
    settles(cluster, 1, seconds=90)


@pytest.mark.verify
@pytest.mark.timeout(400)
def test_a_renewed_certificate_is_used_without_a_restart(authority: Authority, place: Place):
    cluster = place.declare(size=3, TLS=ISSUED).comes_up(90)
    before, uids = serials(cluster), cluster.pod_uids()
    with under_load(cluster) as load:
        for name in NAMES:
            renew(place, name)
        all_show_another(cluster, before)
        load.was_served(within=PROMISED_SECONDS)
    assert cluster.pod_uids() == uids
    assert not sum(restarts(pod) for pod in cluster.pods().values())


@pytest.mark.verify
@pytest.mark.timeout(900)
def test_a_new_ca_of_the_issuer_is_used_without_refusing_any_client(
    authority: Authority, place: Place
):
    cluster = place.declare(size=3, TLS=ISSUED).comes_up(90)
    uids = cluster.pod_uids()
    with under_load(cluster) as load:
        following = Authority("another authority")
        bring_issuer(place, following)
        for name in NAMES:
            renew(place, name)
        cluster.holds("AuthorityRotates", "Issuer ca", kind="Rotating")
        eventually(
            "the new authority alone is trusted",
            lambda: trusted(place, "etcd-client-tls"),
            lambda now: now == [following.certificate],
            seconds=600,
        )
        settles(cluster, 3, seconds=200)
        load.was_served(within=PROMISED_SECONDS)
    assert not set(cluster.pod_uids().values()) & set(uids.values())
    assert not cluster.condition("Rotating")
    assert trusted(place, "etcd-peer-tls", "peer-ca.crt") == [following.certificate]


def waits(cluster: Cluster, *words: str, seconds: float = SOON) -> None:
    cluster.holds("Waiting", *words, kind="Progressing", seconds=seconds)


def trusted(place: Place, name: str, key: str = "ca.crt") -> list[x509.Certificate]:
    secret = place.kube.get(SECRETS, place.namespace, name)
    return x509.load_pem_x509_certificates(base64.b64decode((secret or {})["data"][key]))
