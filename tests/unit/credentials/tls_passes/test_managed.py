"""Whole passes over clusters with managed TLS: certificates exist before pods, and are renewed."""

from __future__ import annotations

import base64
import logging
from dataclasses import replace

import pytest
from cryptography import x509
from fakes import PLAINTEXT
from reconcile_bench import KEY

from etcd_operator.credentials import issuing, signing
from etcd_operator.kube.api import ETCD_CLUSTERS, SECRETS, STATEFUL_SETS, Conflict, Unavailable
from etcd_operator.timestamps import seconds
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.certificates import DAY, managed
from unit.credentials.tls_passes.secrets import (
    MANAGED,
    SECRET_NAMES,
    STATIC,
    a_while,
    data,
    declare,
    foreign,
    put_secret,
    user_secrets,
)

LEAVES = [name for name in SECRET_NAMES if not name.endswith("-ca")]


def short_lived(need, *rest):
    """As `signing.make`, with leaves that live for 300 seconds."""
    need = need if need.role == "authority" else replace(need, seconds=300.0)
    return signing.make(need, *rest)


def leaf(bench, name):
    key = next(key for key in data(bench, name) if key.endswith(".crt") and "ca.crt" not in key)
    return x509.load_pem_x509_certificate(data(bench, name)[key])


def take_labels(bench, name):
    secret = bench.kube.live(SECRETS, name)
    secret["metadata"]["labels"] = {}
    bench.kube.put(SECRETS, secret)


def asked_with(bench):
    """The endpoints that are asked for a status from now on, with what the operator presents."""
    seen, ask = [], bench.etcd.status

    async def status(at, seconds=1.0):
        seen.append(at)
        return await ask(at, seconds)

    bench.etcd.status = status
    return seen


class TestCreation:
    async def test_secrets_that_pods_mount_exist_before_them_and_the_others_before_the_first_ticket(
        self, bench
    ):
        declare(bench)
        await bench.run()
        log = bench.kube.log
        pods, ledger = log.index("apply StatefulSet a"), log.index("patch Secret a-start")
        for name in SECRET_NAMES:
            first = pods if name not in ("a-operator-tls", "a-client-tls") else ledger
            assert log.index(f"create Secret {name}") < first
        assert bench.status["phase"] == "Running"
        assert bench.condition("Progressing")["reason"] == "AsDeclared"

    async def test_they_belong_to_the_cluster(self, settled):
        uid = settled.body["metadata"]["uid"]
        for name in SECRET_NAMES:
            metadata = settled.kube.live(SECRETS, name)["metadata"]
            assert [one["uid"] for one in metadata["ownerReferences"]] == [uid]
        application = settled.kube.live(SECRETS, "a-client-tls")
        assert application["type"] == "kubernetes.io/tls"
        assert set(application["data"]) == {"tls.crt", "tls.key", "ca.crt"}

    async def test_peers_and_clients_use_https(self, settled):
        ticket = settled.start.taken[0]
        assert "a-0=https://a-0.a.default.svc:2380" in ticket.initial_cluster
        template = settled.kube.live(STATEFUL_SETS, "a")["spec"]["template"]["spec"]
        told = template["initContainers"][0]["env"][-1]["value"]
        assert '"clientScheme": "https"' in told
        assert '"client-cert-auth": true' in told

    async def test_the_key_of_an_authority_is_in_no_pod(self, settled):
        stateful_set = settled.kube.live(STATEFUL_SETS, "a")
        volumes = stateful_set["spec"]["template"]["spec"]["volumes"]
        mounted = {one["secret"]["secretName"] for one in volumes if "secret" in one}
        assert mounted == {"a-start", "a-peer-tls", "a-server-tls"}

    async def test_the_operator_uses_its_certificate_and_checks_the_members_name(self, bench):
        seen = asked_with(bench)
        declare(bench)
        await bench.run()
        assert {at.tls.host for at in seen} == {f"a-{one}.a.default.svc" for one in range(3)}
        mine = data(bench, "a-operator-tls")
        assert {at.tls.key for at in seen} == {mine["etcd-client.key"]}
        assert {at.tls.authority for at in seen} == {data(bench, "a-client-ca")["ca.crt"]}
        assert "PRIVATE" not in repr(seen)

    async def test_of_authorities_of_one_name_the_operator_trusted_only_the_first(self, bench):
        """All members seemed silent while the authority was replaced as documented, or once the old
        one had expired: gRPC's TLS tries no other of that name, unless certificates tell them
        apart."""
        seen = asked_with(bench)
        bench.declare(TLS=STATIC)
        user_secrets(bench)
        mine, moment = data(bench, "o"), bench.clock.now
        other, expired = (
            foreign(bench, "o", at)["etcd-client-ca.crt"] for at in (moment, moment - 3660 * DAY)
        )
        own = mine["etcd-client-ca.crt"]
        put_secret(bench, "o", {**mine, "etcd-client-ca.crt": expired + other + own})
        await bench.run()
        assert {at.tls.authority for at in seen} == {own + other}

    async def test_an_authority_lost_before_anything_runs_is_recreated_and_signs_again(self, bench):
        declare(bench)
        while bench.kube.find(SECRETS, "a-server-tls") is None:
            await bench.once()
        before = data(bench, "a-peer-tls")
        bench.kube.remove(SECRETS, "default", "a-peer-ca")
        await bench.run()
        authority = data(bench, "a-peer-ca")["ca.crt"]
        assert data(bench, "a-peer-tls")["peer-ca.crt"] == authority != before["peer-ca.crt"]
        assert bench.status["phase"] == "Running"

    async def test_an_authority_lost_while_pods_waited_in_start_signed_for_who_had_the_old_bundle(
        self, bench
    ):
        declare(bench)
        while bench.kube.find(SECRETS, "a-client-tls") is None:
            await bench.once()
        bench.nodes.turn()
        before = data(bench, "a-peer-tls")
        bench.kube.remove(SECRETS, "default", "a-peer-ca")
        await bench.run()
        assert bench.kube.find(SECRETS, "a-peer-ca") is None
        assert data(bench, "a-peer-tls") == before
        assert bench.condition("Available")["status"] == "True"
        assert bench.condition("Blocked")["reason"] == "AuthorityLost"

    async def test_an_authority_tampered_with_before_anything_runs_is_not_reported_as_missing(
        self, bench
    ):
        declare(bench)
        while bench.kube.find(SECRETS, "a-peer-ca") is None:
            await bench.once()
        live = bench.kube.live(SECRETS, "a-peer-ca")
        live["data"]["ca.key"] = base64.b64encode(b"mine").decode()
        bench.kube.put(SECRETS, live)
        bench.events.posted.clear()
        await bench.run()
        said = [words for _, _, words in bench.events.posted if "Secret a-peer-ca " in words]
        assert len(said) == 1
        assert "is reissued: " in said[0]

    async def test_one_link_alone(self, bench):
        declare(bench, TLS={"peer": "Managed", "client": "Plaintext"})
        await bench.run()
        made = {name for resource, _, name in bench.kube.objects if resource == SECRETS}
        assert made == {"a-start", "a-peer-ca", "a-peer-tls"}
        assert bench.condition("Plaintext")["message"] == (
            "the traffic of clients is neither encrypted nor authenticated, as spec.TLS asks"
        )
        assert bench.events.reasons().count("Plaintext") == 1

    async def test_without_the_field_both_links_have_tls(self, bench):
        bench.declare(TLS=None)
        await bench.run()
        made = {name for resource, _, name in bench.kube.objects if resource == SECRETS}
        assert made == {"a-start", *SECRET_NAMES}
        assert bench.condition("Plaintext") is None
        assert "Plaintext" not in bench.events.reasons()

    async def test_requested_plaintext_makes_no_certificates_and_is_reported(self, bench):
        bench.declare(TLS=PLAINTEXT)
        await bench.run()
        made = {name for resource, _, name in bench.kube.objects if resource == SECRETS}
        assert made == {"a-start"}
        words = bench.condition("Plaintext")["message"]
        assert words == (
            "the traffic of members and of clients is neither encrypted nor authenticated, as "
            "spec.TLS asks"
        )
        assert [one for one in bench.events.posted if one[1] == "Plaintext"] == [
            ("Warning", "Plaintext", words)
        ]

    async def test_no_key_is_in_a_log_a_status_or_an_event(self, bench, caplog):
        caplog.set_level(logging.DEBUG)
        declare(bench)
        await bench.run()
        told = [caplog.text, repr(bench.body), repr(bench.events.posted)]
        told.append(repr(bench.kube.live(STATEFUL_SETS, "a")))
        assert all(told)
        for name in SECRET_NAMES:
            keys = [one for key, one in data(bench, name).items() if key.endswith(".key")]
            assert keys, name
            for content in keys:
                secret = content.decode().splitlines()[1]
                encoded = base64.b64encode(content).decode()
                assert not [text for text in told if secret in text or encoded in text]

    @pytest.mark.parametrize("name", SECRET_NAMES)
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    async def test_after_a_kill_at_any_write_the_next_operator_continues(self, bench, name, after):
        declare(bench)
        killed = bench.dies_at_creation(name, after=after)
        for _ in range(30):
            try:
                await bench.once()
            except Unavailable:
                break
        assert killed
        bench.begin_process()
        await bench.run()
        assert bench.status["phase"] == "Running"
        assert bench.kube.calls["create Secret"] == len(SECRET_NAMES) + 1
        authority = data(bench, "a-client-ca")["ca.crt"]
        assert data(bench, "a-client-tls")["ca.crt"] == authority


class TestAtRest:
    async def test_nothing_is_read_or_written(self, settled):
        for _ in range(20):
            settled.clock.now += await settled.once()
        assert not settled.kube.calls

    async def test_the_status_says_when_each_expires(self, settled):
        told = {one["secret"]: one["ends"] for one in settled.status["certificates"]}
        assert set(told) == set(SECRET_NAMES)
        assert told["a-peer-tls"] == "2024-11-13T22:13:20Z"

    async def test_a_metric_says_when_the_first_expires(self, settled):
        name = "etcd_cluster_certificate_expiry_timestamp_seconds"
        labels = {"namespace": "default", "etcd_cluster": "a"}
        ends = settled.metrics.registry.get_sample_value(name, labels)
        assert 364 * DAY < ends - settled.clock.now <= 365 * DAY
        settled.kube.remove(ETCD_CLUSTERS, *KEY)
        await settled.once()
        assert settled.metrics.registry.get_sample_value(name, labels) is None

    @pytest.mark.parametrize("edit", [{"paused": True}, {"size": 0}], ids=["paused", "refused"])
    async def test_no_alert_was_raised_for_certificates_that_nobody_renews(self, settled, edit):
        """Once the operator had restarted, a cluster that it leaves alone had no such metrics."""
        body = settled.body
        body["spec"] |= edit
        body["metadata"]["generation"] += 1
        settled.kube.put(ETCD_CLUSTERS, body)
        settled.begin_process()
        await settled.once()

        ends = [seconds(one["ends"]) for one in settled.status["certificates"]]
        told = settled.metrics.registry.get_sample_value
        labels = {"namespace": "default", "etcd_cluster": "a"}
        assert told("etcd_cluster_certificate_expiry_timestamp_seconds", labels) == min(ends)
        assert told("etcd_cluster_authority_expiry_timestamp_seconds", labels) > min(ends)

    async def test_leaves_are_renewed_at_two_thirds_of_their_life(self, settled):
        before = {name: data(settled, name) for name in SECRET_NAMES}
        settled.clock.now += 230 * DAY
        await settled.run()
        assert {name: data(settled, name) for name in SECRET_NAMES} == before
        settled.clock.now += 15 * DAY
        await settled.run()
        changed = {name for name in SECRET_NAMES if data(settled, name) != before[name]}
        assert changed == set(SECRET_NAMES) - {"a-peer-ca", "a-client-ca"}
        assert data(settled, "a-peer-tls")["peer-ca.crt"] == before["a-peer-ca"]["ca.crt"]
        assert settled.kube.calls["apply StatefulSet"] == 0, "etcd takes them up by itself"
        assert settled.condition("Progressing")["reason"] == "AsDeclared"

    async def test_a_leaf_that_lives_for_300_seconds_is_renewed_after_200(self, bench, monkeypatch):
        """Without a nudge: the operator looks again by itself."""
        monkeypatch.setattr(signing, "BACKDATED", 0.0)
        monkeypatch.setattr(issuing, "make", short_lived)
        declare(bench)
        await bench.run()
        before = {name: leaf(bench, name) for name in LEAVES}
        begins = [one.not_valid_before_utc.timestamp() for one in before.values()]
        bench.clock.now = min(begins) + 190
        await bench.run()
        assert {name: leaf(bench, name) for name in LEAVES} == before
        assert bench.clock.now < min(begins) + 200, "otherwise this proves nothing"
        bench.kube.calls.clear()
        while any(leaf(bench, name) == before[name] for name in LEAVES):
            bench.clock.now += await bench.once()
        assert max(begins) + 200 <= bench.clock.now < max(begins) + 235
        assert bench.kube.calls["apply StatefulSet"] == 0
        again = [leaf(bench, name).not_valid_before_utc.timestamp() for name in LEAVES]
        assert min(again) >= min(begins) + 200
        assert bench.condition("Available")["status"] == "True"

    async def test_renewal_is_reported(self, settled):
        settled.clock.now += 250 * DAY
        settled.events.posted.clear()
        await settled.run()
        assert settled.events.reasons().count("CertificateIssued") == 4
        assert "two thirds of its life" in settled.events.posted[0][2]

    async def test_a_deleted_certificate_is_signed_again_by_the_same_authority(self, settled):
        authority = data(settled, "a-client-ca")
        settled.kube.remove(SECRETS, "default", "a-client-tls")
        await settled.run()
        assert data(settled, "a-client-tls")["ca.crt"] == authority["ca.crt"]

    async def test_an_authority_without_its_labels_still_signs(self, settled):
        """The watch does not show it then, but a read does."""
        take_labels(settled, "a-peer-ca")
        settled.kube.remove(SECRETS, "default", "a-peer-tls")
        await settled.run()

        assert settled.condition("Progressing")["reason"] == "AsDeclared"
        assert data(settled, "a-peer-tls")["peer-ca.crt"] == data(settled, "a-peer-ca")["ca.crt"]

    @pytest.mark.parametrize("key", ["generation", "next-ca.crt", "next-ca.key", "old-ca.crt"])
    async def test_an_authority_beside_which_a_rotation_was_damaged_was_made_again_without_end(
        self, bench, key
    ):
        """Only without members. The damaged part stayed beside each new authority."""
        declare(bench)
        while not bench.kube.find(SECRETS, "a-client-ca"):
            await bench.once()
        live = bench.kube.live(SECRETS, "a-client-ca")
        live["data"][key] = base64.b64encode(b"damaged").decode()
        bench.kube.put(SECRETS, live)

        await bench.run()

        assert bench.status["phase"] == "Running"
        assert set(data(bench, "a-client-ca")) == {"ca.crt", "ca.key"}

    async def test_a_renewed_leaf_has_its_labels_again(self, settled):
        take_labels(settled, "a-client-tls")
        settled.clock.now += 300 * DAY
        await settled.run()

        labels = settled.kube.live(SECRETS, "a-client-tls")["metadata"]["labels"]
        assert labels == naming.labels("a")

    async def test_a_certificate_that_was_tampered_with_is_recreated(self, settled):
        put_secret_data = data(settled, "a-server-tls")
        live = settled.kube.live(SECRETS, "a-server-tls")
        live["data"]["server.key"] = base64.b64encode(b"mine").decode()
        settled.kube.put(SECRETS, live)
        await settled.run()
        made = data(settled, "a-server-tls")
        assert made["server.key"] not in (b"mine", put_secret_data["server.key"])

    @pytest.mark.parametrize("link", ["peer", "client"])
    async def test_the_authority_of_another_cluster_signed_once_the_certificates_were_gone_too(
        self, settled, link
    ):
        """Members trust the first one until they restart, and refuse anybody with a certificate of
        another."""
        ours = settled.kube.live(SECRETS, f"a-{link}-ca")
        need = next(one for one in managed(parse_cluster(settled.body)) if one.role == "authority")
        theirs = signing.make(need, {}, settled.clock.now)
        encoded = {key: base64.b64encode(one).decode() for key, one in theirs.items()}
        gone = {"peer": ["a-peer-tls"], "client": ["a-server-tls", "a-operator-tls"]}[link]
        settled.kube.put(SECRETS, ours | {"data": encoded})
        for name in gone:
            settled.kube.remove(SECRETS, "default", name)

        await a_while(settled)

        assert [settled.kube.find(SECRETS, name) for name in gone] == [None] * len(gone)
        assert settled.condition("Blocked")["reason"] == "AuthorityLost"
        settled.kube.put(
            SECRETS, settled.kube.live(SECRETS, f"a-{link}-ca") | {"data": ours["data"]}
        )
        await settled.run()
        assert all(settled.kube.find(SECRETS, name) for name in gone)
        assert settled.status["phase"] == "Running"

    async def test_a_lost_authority_that_members_trust_is_not_recreated(self, settled):
        settled.kube.remove(SECRETS, "default", "a-client-ca")
        await settled.run()
        assert settled.kube.find(SECRETS, "a-client-ca") is None
        told = settled.condition("Blocked")
        assert told["reason"] == "AuthorityLost"
        assert "Secret a-client-ca" in told["message"]
        assert "if no copy is left, turn TLS of that link off and on again" in told["message"]
        assert settled.condition("Available")["status"] == "True"

    async def test_when_certificates_expired_it_no_longer_said_that_their_authority_is_lost(
        self, settled
    ):
        settled.kube.remove(SECRETS, "default", "a-client-ca")
        settled.clock.now += 366 * DAY
        await a_while(settled)
        assert settled.condition("Blocked")["reason"] == "AuthorityLost"

    async def test_of_expired_certificates_it_said_that_the_cluster_works_until_they_expire(
        self, settled
    ):
        settled.kube.remove(SECRETS, "default", "a-client-ca")
        await a_while(settled)
        assert "works until those expire" in settled.condition("Blocked")["message"]
        settled.clock.now += 366 * DAY
        await a_while(settled)
        told = settled.condition("Blocked")["message"]
        assert "until those expire" not in told
        assert "cannot be replaced: Secret a-server-tls (server.crt expired on" in told

    async def test_of_an_expired_authority_it_said_to_restore_the_content_of_its_secret(
        self, settled
    ):
        settled.clock.now += 3651 * DAY
        await a_while(settled)
        told = settled.condition("Blocked")
        assert told["reason"] == "AuthorityLost"
        assert "ca.crt expired on" in told["message"]
        assert "Restore the Secret" not in told["message"]
        assert "delete all pods of the cluster" in told["message"]

        await settled.delete_pods(passes=10)
        for name in ("a-peer-ca", "a-client-ca"):
            made = x509.load_pem_x509_certificate(data(settled, name)["ca.crt"])
            assert made.not_valid_after_utc.timestamp() > settled.clock.now

    @pytest.mark.parametrize("gone", [SECRET_NAMES, ("a-peer-ca", "a-peer-tls")])
    async def test_without_a_copy_of_lost_secrets_nothing_said_how_to_get_new_ones(
        self, settled, gone
    ):
        """TLS cannot be turned off and on either, as pods would need the certificates for that."""
        for name in gone:
            settled.kube.remove(SECRETS, "default", name)
        await a_while(settled)
        told = settled.condition("Blocked")["message"]
        assert "Restore the Secret's content; or, if there is no copy, delete all pods" in told

        await settled.delete_pods(passes=10)
        await settled.run()
        assert settled.condition("Progressing")["reason"] == "AsDeclared"
        assert all(settled.kube.find(SECRETS, name) for name in SECRET_NAMES)

    async def test_without_its_own_certificate_it_said_to_turn_tls_off_and_then_waited_for_etcd(
        self, settled
    ):
        """Before TLS for clients is turned off, etcd is asked whether it has users."""
        for name in ("a-client-ca", "a-operator-tls"):
            settled.kube.remove(SECRETS, "default", name)
        await a_while(settled)
        told = settled.condition("Blocked")["message"]
        assert "turn TLS" not in told
        assert "if there is no copy, delete Secret a-server-tls and then all pods" in told

        settled.kube.remove(SECRETS, "default", "a-server-tls")
        await settled.delete_pods(passes=10)
        await settled.run()
        assert settled.condition("Progressing")["reason"] == "AsDeclared"
        assert all(settled.kube.find(SECRETS, name) for name in SECRET_NAMES)

    async def test_all_pods_were_to_be_deleted_for_a_new_authority_though_their_data_would_go(
        self, bench
    ):
        bench.declare(size=3, TLS=MANAGED, pod={"emptyDir": {}})
        await bench.run()
        bench.clock.now += 3651 * DAY
        await a_while(bench)
        told = bench.condition("Blocked")["message"]
        assert "restore a backup into a new cluster. Do not delete the pods" in told

    async def test_with_an_empty_dir_no_pod_is_to_be_deleted_for_lost_secrets(self, bench):
        bench.declare(size=3, TLS=MANAGED, pod={"emptyDir": {}})
        await bench.run()
        for name in SECRET_NAMES:
            bench.kube.remove(SECRETS, "default", name)
        await a_while(bench)
        told = bench.condition("Blocked")["message"]
        assert "if there is no copy, restore a backup into a new cluster. Do not delete" in told

    async def test_without_its_authority_a_cluster_still_grows(self, settled):
        settled.kube.remove(SECRETS, "default", "a-peer-ca")
        body = settled.body
        body["spec"]["size"] = 5
        settled.kube.put(ETCD_CLUSTERS, body)
        for _ in range(10):
            await settled.once()
        assert settled.kube.live(STATEFUL_SETS, "a")["spec"]["replicas"] == 5

    async def test_a_write_that_conflicts_is_no_failure(self, settled):
        settled.clock.now += 250 * DAY
        settled.kube.failures["patch Secret"] = [Conflict("changed", status=409)]
        await settled.run()
        assert settled.status["certificates"][0]["ends"] > "2025"

    @pytest.mark.parametrize("name", ["a-peer-tls", "a-client-tls"])
    async def test_a_secret_deleted_just_before_its_renewal_was_missing_for_half_a_minute(
        self, settled, name
    ):
        renewals = iter(LEAVES)

        def delete():
            if next(renewals) == name:
                settled.kube.remove(SECRETS, "default", name)
            else:
                settled.kube.before["patch Secret"] = delete

        settled.kube.before["patch Secret"] = delete
        settled.clock.now += 250 * DAY
        began = settled.clock.now
        while settled.kube.before or not settled.kube.find(SECRETS, name):
            settled.clock.now += await settled.once()
        assert settled.clock.now - began < 1
        assert "StepFailed" not in settled.events.reasons()
