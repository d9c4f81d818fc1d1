"""Whole passes over clusters whose certificates users provide."""

from __future__ import annotations

import itertools

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from reconcile_bench import KEY

from etcd_operator.credentials import signing
from etcd_operator.kube.api import SECRETS, SERVICES, STATEFUL_SETS
from etcd_operator.timestamps import rfc3339, seconds
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.certificates import DAY, managed
from unit.credentials.tls_passes.secrets import (
    STATIC,
    a_while,
    data,
    declare,
    edit,
    foreign,
    managed_body,
    put_secret,
    user_secrets,
)

STEMS = {"p": "peer", "s": "server", "o": "etcd-client"}


def spoilt(*endings, now=0.0, **changed):
    """Replaces the files with these endings in a user's Secret by foreign ones."""

    def spoil(bench, name):
        other = foreign(bench, name, bench.clock.now + now, **changed)
        return data(bench, name) | {key: other[key] for key in other if key.endswith(endings)}

    return spoil


BAD = {
    "expired": (spoilt(".crt", ".key", now=-400 * DAY), "{0}.crt expired on"),
    "a wrong key": (spoilt(".key"), "{0}.key is not the key of {0}.crt"),
    "a foreign authority": (spoilt("ca.crt"), "{0}-ca.crt has not signed {0}.crt"),
    "missing names": (
        spoilt(".crt", ".key", names=("elsewhere.svc",)),
        "{0}.crt is not valid for ",
    ),
    "no certificate": (lambda *_: {"other": b""}, "{0}.crt is missing"),
}
"""How a user's Secret becomes bad, and what is said of it."""


def signed_by_one_that_ends(bench, ends):
    """A valid certificate between members, beside an authority that ends at another time."""
    authority, need, *_ = managed(parse_cluster(managed_body(bench)))
    above = signing.make(authority, {}, bench.clock.now)
    key = serialization.load_pem_private_key(above["ca.key"], None)
    name = x509.load_pem_x509_certificate(above["ca.crt"]).subject
    shorter = (
        signing._builder(name, name, key, bench.clock.now, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = signing.make(need, above, bench.clock.now)
    return files | {"peer-ca.crt": shorter.public_bytes(serialization.Encoding.PEM)}


class TestAnothersSecret:
    async def test_it_is_left_alone_and_reported(self, bench):
        declare(bench)
        put_secret(bench, "a-server-tls", {"server.crt": b"theirs"})
        for _ in range(30):
            await bench.once()
            bench.nodes.turn()
        assert data(bench, "a-server-tls") == {"server.crt": b"theirs"}
        told = bench.condition("Blocked")
        assert told["reason"] == "NameTaken"
        assert "Secret a-server-tls" in told["message"]
        assert bench.kube.find(STATEFUL_SETS, "a") is None

    async def test_one_that_only_applications_use_blocks_nothing_else(self, settled):
        settled.kube.remove(SECRETS, "default", "a-client-tls")
        put_secret(settled, "a-client-tls", {"tls.crt": b"theirs"})
        await a_while(settled)
        settled.kube.remove(SERVICES, "default", "a")

        await a_while(settled)

        assert settled.kube.find(SERVICES, "a"), "members find each other by it"
        told = settled.condition("Blocked")
        assert told["reason"] == "NameTaken"
        assert "Secret a-client-tls" in told["message"]
        assert data(settled, "a-client-tls") == {"tls.crt": b"theirs"}
        settled.kube.remove(SECRETS, "default", "a-client-tls")
        await a_while(settled)
        assert "ca.crt" in data(settled, "a-client-tls")
        assert settled.condition("Blocked") is None


class TestProvided:
    async def test_a_cluster_comes_up_with_them(self, bench):
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        await bench.run()
        assert bench.status["phase"] == "Running"
        made = {name for resource, _, name in bench.kube.objects if resource == SECRETS}
        assert made == {"a-start", "p", "s", "o"}
        told = {one["secret"] for one in bench.status["certificates"]}
        assert told == {"p", "s", "o"}

    @pytest.mark.parametrize(
        ("name", "broken", "said"),
        [
            ("p", {"peer.crt": b""}, "member.peerSecret names: peer.crt is missing"),
            ("s", {"server-ca.crt": b"no"}, "server-ca.crt is not a certificate"),
            (
                "o",
                {"etcd-client.key": b"no"},
                "names: etcd-client.key is not a private key",
            ),
        ],
    )
    async def test_a_bad_one_is_reported_within_five_seconds_and_used_once_corrected(
        self, bench, name, broken, said
    ):
        bench.declare(TLS=STATIC)
        user_secrets(bench, **{name: broken})
        for _ in range(3):
            delay = await bench.once()
            bench.clock.now += delay
        told = bench.condition("Blocked")
        assert told["reason"] == "CertificatesUnusable"
        assert said in told["message"]
        assert bench.kube.find(STATEFUL_SETS, "a") is None
        assert delay <= 5
        user_secrets(bench)
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_secrets_of_members_and_operator_that_do_not_trust_each_other_are_reported(
        self, bench
    ):
        """Each Secret was valid by itself. The pods were started, and the operator could not
        connect to them."""
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        of_before = data(bench, "o")
        user_secrets(bench, o=of_before)
        for _ in range(3):
            bench.clock.now += await bench.once()
        told = bench.condition("Blocked")
        assert told["reason"] == "CertificatesUnusable"
        for said in (
            "operatorSecret names: server-ca.crt of Secret s has not signed etcd-client.crt",
            "serverSecret names: etcd-client-ca.crt of Secret o has not signed server.crt",
        ):
            assert said in told["message"]
        assert bench.kube.find(STATEFUL_SETS, "a") is None
        user_secrets(bench)
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_one_bundle_of_both_authorities_is_enough_for_each(self, bench):
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        of_before = data(bench, "o")
        user_secrets(bench)
        both = data(bench, "s")["server-ca.crt"] + of_before["etcd-client-ca.crt"]
        put_secret(bench, "s", data(bench, "s") | {"server-ca.crt": both})
        put_secret(bench, "o", of_before | {"etcd-client-ca.crt": both})
        await bench.run()
        assert bench.status["phase"] == "Running"

    async def test_a_misspelt_secret_name_can_be_edited(self, bench):
        """The old name was recorded, and its Secret was waited for without end."""
        wrong = {**STATIC["static"], "member": {"peerSecret": "typo", "serverSecret": "s"}}
        bench.declare(TLS={"static": wrong})
        user_secrets(bench)
        for _ in range(3):
            bench.clock.now += await bench.once()
        assert "Secret typo, which" in bench.condition("Blocked")["message"]

        edit(bench, TLS=STATIC)
        await bench.run()

        assert bench.status["phase"] == "Running"
        assert bench.condition("Blocked") is None
        assert set(bench.reconciler._observer._certificates._secrets._reads[KEY]) == {"p", "s", "o"}

    @pytest.mark.parametrize("before", [1, 9, 30])
    async def test_one_that_expires_while_nothing_happens_is_reported_within_five_seconds(
        self, bench, before
    ):
        """It was reported at the next look at the members, up to half a minute later."""
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        await bench.run()
        ends = x509.load_pem_x509_certificate(data(bench, "s")["server.crt"]).not_valid_after_utc
        bench.clock.now = ends.timestamp() - before
        while not bench.condition("Blocked"):
            seen = bench.clock.now
            bench.clock.now += await bench.once()
        assert "server.crt expired on" in bench.condition("Blocked")["message"]
        assert 0 <= seen - ends.timestamp() < 5

    async def test_an_authority_that_expires_before_its_certificates_is_announced(self, bench):
        """Status and metric had the certificate's own end, and no alert was raised."""
        bench.declare(TLS=STATIC)
        ends = bench.clock.now + 5 * DAY
        user_secrets(bench, p=signed_by_one_that_ends(bench, ends))
        await bench.run()
        [told] = [one for one in bench.status["certificates"] if one["secret"] == "p"]
        assert told["ends"] == rfc3339(ends)
        name = "etcd_cluster_certificate_expiry_timestamp_seconds"
        labels = {"namespace": "default", "etcd_cluster": "a"}
        assert seconds(told["ends"]) == bench.metrics.registry.get_sample_value(name, labels)

    async def test_one_that_is_missing(self, bench):
        bench.declare(TLS=STATIC)
        await bench.once()
        await bench.once()
        message = bench.condition("Blocked")["message"]
        assert "Secret o, which spec.TLS.static.operatorSecret names, does not exist" in message
        assert bench.kube.find(STATEFUL_SETS, "a") is None

    async def test_one_that_expires_while_the_cluster_runs_touches_nothing(self, bench):
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        await bench.run()
        bench.kube.calls.clear()
        bench.clock.now += 400 * DAY
        for _ in range(10):
            bench.clock.now += await bench.once()
        assert "expired on" in bench.condition("Blocked")["message"]
        assert bench.condition("Available")["status"] == "True"
        assert set(bench.kube.writes()) == {"apply EtcdCluster/status"}

    @pytest.mark.parametrize(
        ("fault", "name"),
        # A client's certificate has no names.
        [one for one in itertools.product(BAD, STEMS) if one != ("missing names", "o")],
    )
    async def test_a_bad_one_of_a_running_cluster_touches_nothing(self, bench, fault, name):
        """In the first pass after the change, Secret, key and reason are in a condition."""
        bench.marks = {}
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        await bench.run()
        await bench.rest(600)
        good, (spoil, said) = data(bench, name), BAD[fault]
        bench.kube.calls.clear()
        put_secret(bench, name, spoil(bench, name))
        bench.marks[name] = 1
        bench.clock.now += await bench.once()
        told = bench.condition("Blocked")
        assert told["reason"] == "CertificatesUnusable"
        assert f"Secret {name}, which spec.TLS.static" in told["message"]
        assert said.format(STEMS[name]) in told["message"]
        for _ in range(20):
            bench.clock.now += await bench.once()
        assert bench.condition("Blocked") == told
        assert bench.condition("Available")["status"] == "True"
        assert set(bench.kube.writes()) == {"apply EtcdCluster/status"}
        put_secret(bench, name, good)
        bench.marks[name] = 2
        await bench.once()
        assert bench.condition("Blocked") is None

    async def test_at_rest_none_is_read_again_before_it_has_changed(self, bench):
        bench.marks = {}
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        await bench.run()
        bench.kube.calls.clear()
        await bench.rest(600)
        assert not bench.kube.calls

        put_secret(bench, "s", {"server.crt": b"no"})
        bench.marks["s"] = 1
        await bench.once()
        assert bench.kube.calls["get Secret"] == 1
        assert "Secret s" in bench.condition("Blocked")["message"]

    async def test_once_nobody_tells_of_changes_any_more_they_are_read_again(self, bench):
        bench.marks = {}
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        await bench.run()
        bench.clock.now += 100
        bench.marks = None
        bench.kube.calls.clear()
        await bench.once()
        assert bench.kube.calls["get Secret"] == 3

    async def test_unheard_of_each_is_read_twice_a_minute_at_most(self, bench):
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        await bench.run()
        bench.kube.calls.clear()
        await bench.rest(600)
        assert set(bench.kube.calls) <= {"get Secret"}
        assert bench.kube.calls["get Secret"] <= 3 * 21
