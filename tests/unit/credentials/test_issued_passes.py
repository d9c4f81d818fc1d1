"""Passes with a cert-manager issuer: requesting, waiting for, checking and copying certificates."""

from __future__ import annotations

import base64
import contextlib
import logging
from dataclasses import dataclass, replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from fake_cert_manager import WAITS, FakeCertManager
from fakes import PLAINTEXT, cluster_body
from reconcile_bench import KEY, Bench

from etcd_operator.credentials import checking, taking
from etcd_operator.credentials.authorities import digest
from etcd_operator.kube.api import (
    CERTIFICATES,
    ETCD_CLUSTERS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.objects.reading import contents
from etcd_operator.objects.reading import secret as read_secret
from etcd_operator.step_result import Outdated
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.certificates import DAY, as_issued, issued
from etcd_stateful.membership.steps import TakeCertificate
from etcd_stateful.membership.tls.rotation import KUBELET_SECONDS
from unit.credentials.test_rotation_passes import LEAVES, RollingNodes, bundle, leaf, signed
from unit.credentials.tls_passes.secrets import MANAGED, STATIC, user_secrets

OVERLAP = 300
ISSUED = {"issuerRef": {"name": "ca"}, "rotation": {"overlapSeconds": OVERLAP}}
WAYS: dict[str, Any] = {
    "issued": ISSUED,
    "managed": MANAGED,
    "provided": STATIC,
    "plaintext": PLAINTEXT,
}
NAMES = ("a-client-issued", "a-operator-issued", "a-peer-issued", "a-server-issued")


class IssuedNodes(RollingNodes):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.kube, bench.start, bench.etcd)
        self.issuer = FakeCertManager(bench.kube)

    def turn(self) -> None:
        self.issuer.turn()
        super().turn()


def pods_trust_what_they_show(bench):
    """Compares by the keys of the Secrets that the pods' template mounts."""
    pod = bench.kube.live(STATEFUL_SETS, "a")["spec"]["template"]["spec"]
    for volume in pod["volumes"]:
        if volume["name"] in ("peer-tls", "server-tls"):
            held = data(bench, volume["secret"]["secretName"])
            shown, _, trusted = (held[one["key"]] for one in volume["secret"]["items"])
            own, *_ = x509.load_pem_x509_certificates(shown)
            assert any(signed(own, one) for one in x509.load_pem_x509_certificates(trusted))


@pytest.fixture
def bench():
    bench = Bench()
    bench.nodes = IssuedNodes(bench)
    return bench


@pytest.fixture
async def settled(bench):
    bench.declare(size=3, TLS=ISSUED)
    await bench.run()
    await bench.run()
    bench.forget()
    return bench


def of_unknown_version(pem):
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    version = bytes.fromhex("a003020102")
    assert version in der
    body = base64.encodebytes(der.replace(version, bytes.fromhex("a003020104"), 1))
    return b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"


def data(bench, name):
    return contents(bench.kube.live(SECRETS, name))


def made(bench, resource):
    return sorted(name for kind, _, name in bench.kube.objects if kind == resource)


@dataclass
class Look:
    """Authorities are compared by their public keys."""

    shown: dict[str, set[str]]
    trusted: dict[str, Any]


def look(bench):
    authorities = [one for name in LEAVES for one in bundle(bench, name)]

    def signer(name):
        one = leaf(bench, name)
        return next(digest(it) for it in authorities if signed(one, it))

    def pinned(pod, name, bundle_name):
        volumes = pod["spec"]["volumes"]
        items = [it for one in volumes for it in one.get("secret", {}).get("items", ())]
        key = next(one["key"] for one in items if one["path"] == bundle_name)
        return set(map(digest, x509.load_pem_x509_certificates(data(bench, name)[key])))

    pods = [obj for (kind, *_), obj in bench.kube.objects.items() if kind == PODS]
    clients = ("a-server-tls", "a-operator-tls", "a-client-tls")
    return Look(
        {"peer": {signer("a-peer-tls")}, "client": {signer(name) for name in clients}},
        {
            "peer": [pinned(pod, "a-peer-tls", "peer-ca.crt") for pod in pods],
            "client": [pinned(pod, "a-server-tls", "server-ca.crt") for pod in pods],
            "applications": set(map(digest, bundle(bench, "a-client-tls"))),
        },
    )


async def a_while(bench, seconds):
    ends = bench.clock.now + seconds
    while bench.clock.now < ends:
        delay = await bench.once()
        bench.nodes.turn()
        bench.clock.now += 20.0 if delay is None or delay >= 5 else max(delay, 0.05)


class TestCreation:
    async def test_certificates_are_requested_before_there_are_pods_that_need_them(self, bench):
        bench.declare(size=3, TLS=ISSUED)
        await bench.run()
        assert made(bench, CERTIFICATES) == list(NAMES)
        log = bench.kube.log
        for name in LEAVES:
            assert log.index(f"create Secret {name}") < log.index("apply StatefulSet a")
        assert bench.status["phase"] == "Running"
        assert bench.condition("Progressing")["reason"] == "AsDeclared"
        assert bench.condition("Rotating") is None

    async def test_what_is_mounted_is_a_secret_of_ours_with_what_was_issued(self, settled):
        for name, (certificate, authority) in LEAVES.items():
            ours, theirs = (
                data(settled, name),
                data(settled, name.replace("-tls", "-issued")),
            )
            assert ours[certificate] == theirs["tls.crt"]
            assert ours[certificate.replace(".crt", ".key")] == theirs["tls.key"]
            assert ours[authority] == theirs["ca.crt"]
            owners = settled.kube.live(SECRETS, name)["metadata"]["ownerReferences"]
            assert [one["uid"] for one in owners] == [settled.body["metadata"]["uid"]]
        spec = settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"]["spec"]
        mounted = {one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
        assert mounted == {"a-start", "a-peer-tls", "a-server-tls"}

    async def test_no_authority_of_ours_is_created(self, settled):
        assert not [name for name in made(settled, SECRETS) if name.endswith("-ca")]
        assert {one["secret"] for one in settled.status["certificates"]} == set(LEAVES)

    async def test_it_waits_and_says_for_which_certificate_in_cert_manager_s_words(self, bench):
        bench.nodes.issuer.running = False
        bench.declare(size=3, TLS=ISSUED)
        await a_while(bench, 60)
        told = bench.condition("Progressing")["message"]
        assert f"which says: {WAITS}" in told
        for name in NAMES:
            assert name in told
        assert not made(bench, STATEFUL_SETS)
        assert not made(bench, PODS)
        bench.nodes.issuer.running = True
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_without_cert_manager_it_says_what_to_do_and_notices_when_it_comes(self, bench):
        bench.kube.unserved.add(CERTIFICATES)
        bench.declare(size=3, TLS=ISSUED)
        await bench.run()
        told = bench.condition("Blocked")
        assert told["reason"] == "CertManagerMissing"
        assert "Issuer ca" in told["message"]
        assert "install cert-manager" in told["message"]
        assert not made(bench, STATEFUL_SETS)
        bench.kube.calls.clear()
        await a_while(bench, 100)
        assert bench.kube.calls["list Certificate"] <= 50
        assert not bench.kube.writes()
        bench.kube.unserved.clear()
        await a_while(bench, 10)
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_without_the_right_to_read_them_it_says_so(self, bench):
        bench.kube.failures["list Certificate"] = [Rejected("forbidden", status=403)] * 100
        bench.declare(size=3, TLS=ISSUED)
        await bench.once()
        for _ in range(5):
            await bench.once()
        told = bench.condition("Blocked")
        assert told["reason"] == "CertManagerMissing"
        assert "has no access" in told["message"]

    @pytest.mark.parametrize(
        ("spoils", "words"),
        [
            ({"ca.crt": None}, "ca.crt is missing"),
            ({"tls.key": b"mine"}, "tls.key is not a private key"),
            ({"ca.crt": b"rot"}, "ca.crt is not a certificate"),
        ],
    )
    async def test_an_unusable_certificate_is_reported_and_not_used(self, bench, spoils, words):
        bench.nodes.issuer.spoils = spoils
        bench.declare(size=3, TLS=ISSUED)
        for _ in range(30):
            bench.clock.now += await bench.once() or 0.0
            bench.nodes.turn()
        told = bench.condition("Blocked")
        assert told["reason"] == "CertificatesUnusable"
        assert f"Secret a-peer-issued: {words}" in told["message"]
        assert not made(bench, STATEFUL_SETS)
        bench.nodes.issuer.spoils = {}
        for name in NAMES:
            bench.nodes.issuer.issue(name)
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_a_secret_of_somebody_else_is_not_written_over(self, bench):
        """cert-manager itself would overwrite it."""
        theirs = {"metadata": {"name": "a-server-issued", "namespace": "default"}, "data": {}}
        bench.kube.put(SECRETS, theirs)
        bench.declare(size=3, TLS=ISSUED)
        for _ in range(10):
            bench.clock.now += await bench.once() or 0.0
        assert not made(bench, CERTIFICATES)
        told = bench.condition("Blocked")
        assert told["reason"] == "NameTaken"
        assert "Secret a-server-issued" in told["message"]

    async def test_a_certificate_of_somebody_else_is_left_alone(self, bench):
        theirs = {"metadata": {"name": "a-peer-issued", "namespace": "default"}, "spec": {}}
        bench.kube.put(CERTIFICATES, theirs)
        bench.declare(size=3, TLS=ISSUED)
        for _ in range(10):
            bench.clock.now += await bench.once() or 0.0
        assert bench.kube.live(CERTIFICATES, "a-peer-issued")["spec"] == {}
        assert "Certificate a-peer-issued" in bench.condition("Blocked")["message"]

    async def test_certificates_of_another_issuer_are_not_used(self, bench):
        bench.declare(size=3, TLS={"issuerRef": {"name": "before"}})
        await bench.run()
        bench.nodes.issuer.running = False
        for kind, _, name in list(bench.kube.objects):
            if kind != SECRETS or not name.endswith("-issued"):
                bench.kube.remove(kind, "default", name)
        await bench.once()
        bench.declare(size=3, TLS=ISSUED)
        for _ in range(20):
            bench.clock.now += await bench.once() or 0.0
        told = bench.condition("Blocked")["message"]
        assert "tls.crt is of Issuer before of cert-manager.io, not of Issuer ca" in told
        assert not made(bench, STATEFUL_SETS)

    async def test_one_link_alone(self, bench):
        bench.declare(size=3, TLS={**ISSUED, "peer": "Managed"})
        await bench.run()
        assert made(bench, CERTIFICATES) == [one for one in NAMES if "peer" not in one]
        assert bench.kube.find(SECRETS, "a-peer-ca") is not None
        assert bench.status["phase"] == "Running"

    @pytest.mark.parametrize("passes", [2, 12])
    @pytest.mark.parametrize("after", WAYS)
    @pytest.mark.parametrize("before", [*WAYS, "typo"])
    async def test_until_it_has_begun_the_links_follow_the_spec(self, bench, before, after, passes):
        """Whatever Secrets and Certificates exist of an earlier spec."""
        bench.declare(size=3, TLS=WAYS.get(before, {"issuerRef": {"name": "typo"}}))
        user_secrets(bench)
        bench.nodes.issuer.running = before != "typo"
        for _ in range(passes):
            bench.clock.now += await bench.once() or 0.0
            bench.nodes.issuer.turn()
        body = bench.body
        body["spec"]["TLS"] = WAYS[after]
        bench.kube.put(ETCD_CLUSTERS, body)
        for _ in range(6):
            bench.clock.now += await bench.once() or 0.0
        bench.nodes.issuer.running = True

        await bench.run()
        await bench.run()

        record = read_secret(bench.kube.live(SECRETS, "a-start")).bootstrap
        assert bench.status["phase"] == "Running"
        assert record.links == parse_cluster(bench.body).links
        assert bench.condition("Blocked") is None
        pods_trust_what_they_show(bench)

    async def test_it_is_recorded(self, settled):
        links = read_secret(settled.kube.live(SECRETS, "a-start")).bootstrap.links
        assert links.peer.mode == links.client.mode == "Issued"
        assert str(links.client.issuer) == "Issuer ca"
        body = settled.body
        body["spec"]["TLS"]["issuerRef"]["name"] = "another"
        settled.kube.put(ETCD_CLUSTERS, body)
        await settled.once()
        told = settled.condition("Blocked")
        assert told["reason"] == "TLSCannotChange"
        assert "TLS with certificates of Issuer ca" in told["message"]

    @pytest.mark.parametrize("name", LEAVES)
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    async def test_an_operator_killed_around_any_write_continues(self, bench, name, after):
        bench.declare(size=3, TLS=ISSUED)
        killed = bench.dies_at_creation(name, after=after)
        for _ in range(60):
            try:
                bench.clock.now += await bench.once() or 0.0
            except Unavailable:
                break
            bench.nodes.turn()
        assert killed
        bench.begin_process()
        await bench.run()
        assert bench.status["phase"] == "Running"


class TestAtRest:
    async def test_nothing_is_read_and_nothing_written(self, settled):
        settled.marks = {}
        await a_while(settled, 60)
        settled.kube.calls.clear()
        await a_while(settled, 600)
        assert not settled.kube.calls

    @pytest.mark.parametrize("name", NAMES)
    async def test_a_deleted_certificate_is_put_back_as_soon_as_that_is_reported(
        self, settled, name
    ):
        settled.marks = {}
        await a_while(settled, 60)
        settled.kube.remove(CERTIFICATES, "default", name)
        settled.marks[name] = 1
        await settled.once()
        assert made(settled, CERTIFICATES) == list(NAMES)

    async def test_without_a_watch_they_are_listed_once_a_minute(self, settled):
        await a_while(settled, 600)
        assert not settled.kube.writes()
        assert 5 <= settled.kube.calls["list Certificate"] <= 11
        assert sum(settled.kube.calls.values()) == settled.kube.calls["list Certificate"]

    async def test_a_plaintext_cluster_in_the_same_namespace_needs_no_request(self, settled):
        plain = cluster_body(TLS=PLAINTEXT)
        plain["metadata"] |= {"name": "b", "uid": "uid-of-b"}
        settled.kube.put(ETCD_CLUSTERS, plain)
        for _ in range(30):
            await settled.reconciler.reconcile(("default", "b"))
            await settled.once()
        assert settled.kube.calls["list Certificate"] <= 1

    async def test_an_altered_or_deleted_certificate_is_put_back_within_a_minute(self, settled):
        before = settled.kube.live(CERTIFICATES, "a-server-issued")["spec"]
        altered = settled.kube.live(CERTIFICATES, "a-server-issued")
        altered["spec"] |= {"dnsNames": ["mine"], "isCA": True}
        settled.kube.put(CERTIFICATES, altered)
        settled.kube.remove(CERTIFICATES, "default", "a-peer-issued")
        await a_while(settled, 80)
        assert settled.kube.live(CERTIFICATES, "a-server-issued")["spec"] == before
        assert made(settled, CERTIFICATES) == list(NAMES)

    async def test_the_cluster_continues_when_cert_manager_is_uninstalled(self, settled):
        settled.kube.unserved.add(CERTIFICATES)
        await a_while(settled, 600)
        assert settled.kube.calls["list Certificate"] <= 11
        assert settled.condition("Blocked")["reason"] == "CertManagerMissing"
        assert settled.condition("Available")["status"] == "True"
        settled.kube.remove(PODS, "default", "a-1")
        await a_while(settled, 30)
        assert settled.kube.find(PODS, "a-1") is not None

    async def test_while_they_cannot_be_listed_nothing_at_all_was_done(self, settled):
        """As while one of them cannot be decoded: each pass ended there, before a missing Service
        was put back."""
        settled.clock.now += 61.0
        fails = Unavailable("list certificates: the server said 500", status=500)
        settled.kube.failures["list Certificate"] = [fails] * 1000
        settled.kube.remove(SERVICES, "default", "a")
        for _ in range(60):
            with contextlib.suppress(Unavailable):
                await settled.once()
            settled.clock.now += 1.0

        assert settled.kube.find(SERVICES, "a")
        blocked = settled.condition("Blocked")
        assert blocked["reason"] == "CertManagerMissing"
        assert "the server said 500" in blocked["message"]
        tried = settled.kube.calls["list Certificate"]
        await a_while(settled, 300)
        assert settled.kube.calls["list Certificate"] <= tried + 11, "each may take ten seconds"

        settled.kube.failures.clear()
        await a_while(settled, 60)
        assert settled.condition("Blocked") is None

    async def test_a_lost_secret_of_ours_is_recreated(self, settled):
        before = data(settled, "a-server-tls")
        settled.kube.remove(SECRETS, "default", "a-server-tls")
        await a_while(settled, 10)
        assert data(settled, "a-server-tls") == before


class TestNameTakenLater:
    """A name that is taken by another owner. Only the issuer's part needs it, and the cluster has
    everything else."""

    async def taken(self, bench, kind, name):
        """Another owner has taken it, and it was known long before members need something."""
        theirs = {"metadata": {"name": name, "namespace": "default"}, "mine": {}}
        bench.kube.put(kind, theirs)
        await a_while(bench, 200)
        bench.kube.remove(SERVICES, "default", "a")
        await a_while(bench, 20)

    @pytest.mark.parametrize("kind", [SECRETS, CERTIFICATES])
    async def test_the_cluster_continues_and_says_so(self, settled, kind):
        settled.nodes.issuer.running = False
        for taken in (SECRETS, CERTIFICATES):
            settled.kube.remove(taken, "default", "a-peer-issued")
        await self.taken(settled, kind, "a-peer-issued")

        assert settled.kube.find(SERVICES, "a"), "members find each other by it"
        told = settled.condition("Blocked")
        assert told["reason"] == "NameTaken"
        assert f"{kind.kind} a-peer-issued" in told["message"]
        assert settled.kube.live(kind, "a-peer-issued")["mine"] == {}
        other = CERTIFICATES if kind == SECRETS else SECRETS
        assert not settled.kube.find(other, "a-peer-issued"), "cert-manager would write over it"

    async def test_the_secret_of_applications_is_not_written_over_either(self, settled):
        settled.kube.remove(SECRETS, "default", "a-client-tls")
        await self.taken(settled, SECRETS, "a-client-tls")

        assert settled.kube.find(SERVICES, "a")
        assert "Secret a-client-tls" in settled.condition("Blocked")["message"]
        assert settled.kube.live(SECRETS, "a-client-tls")["mine"] == {}

    async def test_no_certificate_of_a_new_authority_was_used_before_the_old_one_had_expired(
        self, settled
    ):
        settled.kube.remove(SECRETS, "default", "a-client-tls")
        await self.taken(settled, SECRETS, "a-client-tls")
        settled.nodes.issuer.rotate()
        for name in NAMES:
            settled.nodes.issuer.issue(name)

        await a_while(settled, 3 * OVERLAP + 120)

        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        for name in ("a-peer-tls", "a-server-tls", "a-operator-tls"):
            assert signed(leaf(settled, name), new)
            assert bundle(settled, name) == [new]


class TestRenewal:
    async def test_it_is_used_at_once_and_without_a_restart(self, settled):
        pods = {name: settled.kube.live(PODS, name)["metadata"]["uid"] for name in ("a-0", "a-1")}
        before = {name: leaf(settled, name) for name in LEAVES}
        for name in NAMES:
            settled.nodes.issuer.issue(name)
        await settled.run()
        assert not [name for name in LEAVES if leaf(settled, name) == before[name]]
        assert settled.kube.calls["apply StatefulSet"] == 0
        for name, uid in pods.items():
            assert settled.kube.live(PODS, name)["metadata"]["uid"] == uid
        assert settled.events.reasons().count("CertificateTaken") == 4

    async def test_an_unusable_certificate_is_not_copied(self, settled):
        before = data(settled, "a-server-tls")
        settled.nodes.issuer.spoils = {"tls.key": b"mine"}
        settled.nodes.issuer.issue("a-server-issued")
        await a_while(settled, 60)
        assert data(settled, "a-server-tls") == before
        assert "a-server-issued: tls.key" in settled.condition("Blocked")["message"]
        assert settled.condition("Available")["status"] == "True"

    @pytest.mark.parametrize("file", ["ca.crt", "tls.crt"])
    async def test_a_certificate_of_an_unknown_version_kept_all_others_from_being_renewed(
        self, settled, file
    ):
        """cryptography raises no ValueError for it. Each pass ended with a traceback."""
        good = settled.nodes.issuer.authority["ca.crt"]
        settled.nodes.issuer.spoils = {file: of_unknown_version(good)}
        settled.nodes.issuer.issue("a-client-issued")
        settled.nodes.issuer.spoils = {}
        settled.nodes.issuer.issue("a-server-issued")
        await a_while(settled, 60)

        issued_now = data(settled, "a-server-issued")["tls.crt"]
        assert data(settled, "a-server-tls")["server.crt"] == issued_now
        told = settled.condition("Blocked")["message"]
        assert f"Secret a-client-issued: {file} is not a certificate" in told

    async def test_no_key_is_logged_or_reported(self, settled, caplog):
        caplog.set_level(logging.DEBUG)
        settled.nodes.issuer.issue("a-server-issued")
        await settled.run()
        told = [caplog.text, repr(settled.body), repr(settled.events.posted)]
        assert all(told)
        for name in (*LEAVES, *NAMES):
            keys = [one for key, one in data(settled, name).items() if key.endswith(".key")]
            assert keys, name
            for content in keys:
                secret = content.decode().splitlines()[1]
                encoded = base64.b64encode(content).decode()
                assert not [text for text in told if secret in text or encoded in text]


class TestExpiry:
    """cert-manager renewed nothing, and so the operator cannot connect to the members."""

    async def test_it_said_only_that_no_quorum_answers(self, settled):
        settled.clock.now += 91 * DAY
        await a_while(settled, 20)
        told = settled.condition("Blocked")
        assert told["reason"] == "CertificatesUnusable"
        assert "a-operator-issued: tls.crt expired" in told["message"]

    async def test_it_did_not_say_that_cert_manager_is_gone(self, settled):
        settled.kube.unserved.add(CERTIFICATES)
        settled.clock.now += 91 * DAY
        await a_while(settled, 20)
        assert settled.condition("Blocked")["reason"] == "CertManagerMissing"


class TestAnotherAuthority:
    async def replaced(self, bench):
        bench.nodes.issuer.rotate()
        for name in NAMES:
            bench.nodes.issuer.issue(name)

    @pytest.mark.parametrize("times", [1, 2])
    async def test_every_certificate_in_use_is_trusted_by_all_members_at_each_step(
        self, settled, times
    ):
        """Kubelets and applications may be late by the overlap: they may still show what existed
        then, and trust no more than what existed then. Also if a third authority comes before the
        first is gone."""
        await self.replaced(settled)
        seen = []
        ends = settled.clock.now + 4 * OVERLAP * times
        before, left = leaf(settled, "a-peer-tls"), times - 1
        while settled.clock.now < ends:
            delay = await settled.once()
            settled.nodes.turn()
            seen.append((settled.clock.now, look(settled)))
            if left and leaf(settled, "a-peer-tls") != before:
                await self.replaced(settled)
                left -= 1
            late = [one for at, one in seen if at > settled.clock.now - OVERLAP]
            for link in ("peer", "client"):
                shown = {signer for one in late for signer in one.shown[link]}
                for one in late if link == "client" else ():
                    assert shown <= one.trusted["applications"], "applications"
                for trust in seen[-1][1].trusted[link]:
                    assert shown <= trust, f"{link} at {settled.clock.now}"
            settled.clock.now += 10.0 if delay is None or delay >= 5 else max(delay, 0.05)
        assert len({frozenset(one.shown["peer"]) for _, one in seen}) == 1 + times
        assert len(bundle(settled, "a-server-tls")) == 1

    @pytest.mark.parametrize("name", ["a-peer-tls", "a-server-tls"])
    async def test_a_recreated_secret_had_an_authority_that_no_member_trusted_yet(
        self, settled, name
    ):
        await self.replaced(settled)
        settled.kube.remove(SECRETS, "default", name)
        await a_while(settled, 20)
        assert settled.kube.find(SECRETS, name) is None
        told = settled.condition("Blocked")
        assert told["reason"] == "CertificatesUnusable"
        assert f"Secret {name} cannot be used" in told["message"]

        await settled.delete_pods(passes=3)

        assert settled.kube.find(SECRETS, name)

    async def test_all_pods_were_to_be_deleted_and_came_back_without_trust_in_the_authority_again(
        self, settled
    ):
        """They found the members' certificate of the old authority. The operator's own was lost, so
        it reached no member."""
        await self.replaced(settled)
        settled.kube.remove(SECRETS, "default", "a-operator-tls")
        await a_while(settled, 20)
        told = settled.condition("Blocked")["message"]
        assert "or delete Secret a-server-tls and then all pods of the cluster" in told

        settled.kube.remove(SECRETS, "default", "a-server-tls")
        await settled.delete_pods(passes=10)
        await a_while(settled, 4 * OVERLAP)

        assert settled.condition("Progressing")["reason"] == "AsDeclared"
        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        assert bundle(settled, "a-operator-tls") == bundle(settled, "a-server-tls") == [new]

    @pytest.mark.parametrize("name", ["a-peer-tls", "a-operator-tls"])
    async def test_a_certificate_from_before_was_used_though_no_member_trusted_its_authority(
        self, settled, name
    ):
        """The Secret was restored from an old backup. The good certificate beside it was not taken,
        and members were restarted to trust the old authority, while all refused each other."""
        before = settled.kube.live(SECRETS, name)["data"]
        await self.replaced(settled)
        await a_while(settled, 4 * OVERLAP)
        await settled.run()
        pods = settled.kube.calls["delete Pod"]
        template = settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"]
        settled.kube.put(SECRETS, {**settled.kube.live(SECRETS, name), "data": before})

        await a_while(settled, 60)

        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        assert signed(leaf(settled, name), new)
        assert bundle(settled, name) == [new]
        assert settled.kube.calls["delete Pod"] == pods
        assert settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"] == template

    async def test_certificates_expired_because_the_overlap_was_longer_than_what_was_left_of_them(
        self, settled
    ):
        """An issuer may grant three days; the overlap is a day, which is what is left when they are
        renewed."""
        ends = leaf(settled, "a-peer-tls").not_valid_after_utc.timestamp()
        settled.clock.now = ends - 1.5 * OVERLAP
        await self.replaced(settled)
        while settled.clock.now < ends:
            await a_while(settled, 20)
            for name in LEAVES:
                until = leaf(settled, name).not_valid_after_utc.timestamp()
                assert until > settled.clock.now + KUBELET_SECONDS, "kubelets bring it in time"

    async def test_after_an_absence_certificates_of_an_authority_that_all_trust_were_not_used(
        self, settled
    ):
        """All certificates in use expired when members had just been restarted to trust both
        authorities, and those of the new one were never taken: a quorum was awaited for good."""
        await self.replaced(settled)
        await a_while(settled, OVERLAP)
        assert settled.kube.calls["delete Pod"] == 3
        settled.clock.now += 91 * DAY
        for name in NAMES:
            settled.nodes.issuer.issue(name)

        await a_while(settled, 20)

        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        for name in LEAVES:
            assert signed(leaf(settled, name), new), name

    async def test_after_a_clock_that_was_ahead_it_was_not_used_until_that_time(self, settled):
        """Only shortly before a certificate in use expired."""
        await self.replaced(settled)
        settled.clock.now += DAY
        await a_while(settled, OVERLAP / 2)
        assert len(bundle(settled, "a-server-tls")) == 2
        settled.clock.now -= DAY
        settled.begin_process()  # on another node

        await a_while(settled, 4 * OVERLAP)

        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        for name in LEAVES:
            assert bundle(settled, name) == [new]

    async def told_when_all_have_expired(self, bench):
        await a_while(bench, 20)
        bench.clock.now += 91 * DAY
        await self.replaced(bench)
        await a_while(bench, 20)
        return bench.condition("Blocked")

    async def test_it_said_only_that_no_quorum_answers_when_its_own_certificate_had_expired(
        self, settled
    ):
        """Members do not trust what is issued by now, so it cannot be used."""
        told = await self.told_when_all_have_expired(settled)

        assert told["reason"] == "CertificatesUnusable"
        assert "delete all pods of the cluster" in told["message"]

    async def test_all_pods_were_to_be_deleted_though_the_data_would_go_with_them(self, bench):
        bench.declare(size=3, TLS=ISSUED, pod={"emptyDir": {}})
        await bench.run()
        await bench.run()

        told = await self.told_when_all_have_expired(bench)

        assert told["reason"] == "CertificatesUnusable"
        assert "do not trust the authority" in told["message"]
        assert "Do not delete the pods: their data is in emptyDir volumes" in told["message"]

    async def test_it_goes_no_further_while_a_member_does_not_trust_it_yet(self, settled):
        before = {name: leaf(settled, name) for name in LEAVES}
        settled.nodes.readiness = False  # the first restarted pod does not become Ready
        await self.replaced(settled)
        await a_while(settled, 3 * OVERLAP)
        assert {name: leaf(settled, name) for name in LEAVES} == before
        assert settled.kube.calls["delete Pod"] == 1
        settled.nodes.readiness = True
        await a_while(settled, 4 * OVERLAP)
        assert leaf(settled, "a-peer-tls") != before["a-peer-tls"]

    async def test_files_that_no_pod_mounts_are_removed_with_the_next_write(self, settled):
        await self.replaced(settled)
        await a_while(settled, 4 * OVERLAP)
        await settled.run()
        settled.nodes.issuer.issue("a-server-issued")
        await settled.run()
        assert len([one for one in data(settled, "a-server-tls") if "server-ca-" in one]) == 1

    async def test_everybody_trusts_it_before_anybody_shows_a_certificate_of_it(self, settled):
        old = leaf(settled, "a-server-tls")
        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        await self.replaced(settled)
        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        await a_while(settled, OVERLAP / 2)
        assert leaf(settled, "a-server-tls") == old
        for name in LEAVES:
            assert new in bundle(settled, name)
            assert len(bundle(settled, name)) == 2
        pinned = {key for key in data(settled, "a-server-tls") if key.startswith("server-ca-")}
        for name in ("a-0", "a-1", "a-2"):
            volumes = settled.kube.live(PODS, name)["spec"]["volumes"]
            keys = {i["key"] for one in volumes for i in one.get("secret", {}).get("items", ())}
            assert keys & pinned
        assert "Issuer ca" in settled.condition("Rotating")["message"]

    async def test_it_ends_with_the_new_one_alone_after_two_restarts_of_each(self, settled):
        await self.replaced(settled)
        await a_while(settled, 3 * OVERLAP + 120)
        await settled.run()
        new = settled.nodes.issuer.authority["ca.crt"]
        for name, (certificate, _) in LEAVES.items():
            issued = data(settled, name.replace("-tls", "-issued"))
            assert data(settled, name)[certificate] == issued["tls.crt"]
            assert bundle(settled, name) == [x509.load_pem_x509_certificate(new)]
        assert settled.kube.calls["delete Pod"] == 6
        assert settled.condition("Rotating") is None
        assert settled.condition("Progressing")["reason"] == "AsDeclared"

    async def test_renewals_one_after_the_other_restart_no_member_more_often(self, settled):
        settled.nodes.issuer.rotate()
        for name in NAMES:
            settled.nodes.issuer.issue(name)
            await a_while(settled, 20)
        assert settled.kube.calls["delete Pod"] == 0
        await a_while(settled, 4 * OVERLAP)
        await settled.run()
        assert settled.kube.calls["delete Pod"] == 6
        assert len(bundle(settled, "a-server-tls")) == 1

    async def test_the_old_authority_stays_trusted_while_one_of_its_certificates_is_used(
        self, settled
    ):
        """cert-manager renews each certificate when it is due, not all of them when the authority
        changes."""
        settled.nodes.issuer.rotate()
        settled.nodes.issuer.issue("a-server-issued")
        await a_while(settled, 4 * OVERLAP)
        new = x509.load_pem_x509_certificate(settled.nodes.issuer.authority["ca.crt"])
        assert leaf(settled, "a-server-tls").issuer == new.subject
        assert len(bundle(settled, "a-client-tls")) == 2
        assert len(bundle(settled, "a-server-tls")) == 2

    async def test_expiry_is_in_the_status(self, settled):
        ends = {one["secret"]: one["ends"] for one in settled.status["certificates"]}
        settled.clock.now += 60 * DAY
        settled.nodes.issuer.issue("a-server-issued")
        await settled.run()
        after = {one["secret"]: one["ends"] for one in settled.status["certificates"]}
        assert after["a-server-tls"] > ends["a-server-tls"]
        assert after["a-peer-tls"] == ends["a-peer-tls"]


async def test_a_change_since_the_last_look_is_not_copied(settled):
    issuer, kube = settled.nodes.issuer, settled.kube
    cluster = parse_cluster(settled.body)
    need = next(one for one in issued(cluster) if one.role == "server")
    found = checking.examine(as_issued(need), data(settled, "a-server-issued"))
    version = kube.live(SECRETS, need.secret)["metadata"]["resourceVersion"]
    step = TakeCertificate(need, version, found.leaf, found.trusts, (need, as_issued(need)), "")
    live = kube.live(SECRETS, "a-server-issued")
    live["data"]["tls.key"] = base64.b64encode(issuer.authority["ca.key"]).decode()
    kube.put(SECRETS, live)

    applied = await taking.take(kube, Finder(kube, settled.store), cluster, step, 0.0)

    assert isinstance(applied, Outdated)
    issuer.issue("a-server-issued")
    gone = replace(step, leaf="0" * 64)
    applied = await taking.take(kube, Finder(kube, settled.store), cluster, gone, 0.0)
    assert isinstance(applied, Outdated)


async def test_a_deleted_cluster_is_forgotten(settled):
    settled.kube.remove(ETCD_CLUSTERS, *KEY)
    assert await settled.once() is None


async def test_certificates_of_deleted_clusters_were_remembered_for_good(settled):
    assert settled.store.keys(CERTIFICATES)
    for name in made(settled, CERTIFICATES):
        settled.kube.remove(CERTIFICATES, KEY[0], name)
    settled.kube.remove(ETCD_CLUSTERS, *KEY)
    await settled.once()

    assert not settled.store.keys(CERTIFICATES)
