"""Whole passes over clusters whose TLS is edited, and Secrets that cannot be changed."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

import pytest
from fakes import PLAINTEXT
from reconcile_bench import KEY, Bench

from etcd_operator.credentials import checking, issuing, signing
from etcd_operator.kube.api import (
    ETCD_CLUSTERS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.objects.reading import secret as read_secret
from etcd_operator.step_result import Outdated
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.certificates import DAY, managed
from etcd_stateful.membership.steps import IssueCertificate
from unit.credentials.tls_passes.secrets import MANAGED, STATIC, data, declare, edit, user_secrets


@pytest.fixture
async def old():
    """A cluster without TLS whose spec has no TLS field, after the upgrade to this version."""
    bench = Bench()
    bench.declare(TLS=PLAINTEXT)
    await bench.run()
    body = bench.body
    del body["spec"]["TLS"]
    body["status"]["conditions"] = [
        one for one in body["status"]["conditions"] if one["type"] != "Plaintext"
    ]
    bench.kube.put(ETCD_CLUSTERS, body)
    bench.kube.calls.clear()
    bench.events.posted.clear()
    bench.begin_process()
    await bench.run()
    return bench


class TestEdits:
    async def test_other_certificates_for_a_running_cluster_are_refused_and_nothing_is_touched(
        self, settled
    ):
        edit(settled, TLS=STATIC)
        await settled.run()
        told = settled.condition("Blocked")
        assert told["reason"] == "TLSCannotChange"
        assert "certificates in Secret p" in told["message"]
        assert set(settled.kube.writes()) == {"apply EtcdCluster/status"}

    async def test_removing_the_field_changes_nothing(self, settled):
        body = settled.body
        del body["spec"]["TLS"]
        settled.kube.put(ETCD_CLUSTERS, body)
        await settled.run()
        assert settled.condition("Blocked") is None
        assert set(settled.kube.writes()) <= {"apply EtcdCluster/status"}

    async def test_a_cluster_older_than_the_tls_default_stays_in_plaintext_and_is_reported_once(
        self, old
    ):
        """As after an upgrade of the operator."""
        assert set(old.kube.writes()) == {"apply EtcdCluster/status"}
        words = old.condition("Plaintext")["message"]
        assert words == (
            "the traffic of members and of clients is neither encrypted nor authenticated: the "
            "cluster began without TLS, and goes on as it began"
        )
        assert [one for one in old.events.posted if one[1] == "Plaintext"] == [
            ("Warning", "Plaintext", words)
        ]
        old.kube.calls.clear()
        old.begin_process()
        await old.run()
        assert not old.kube.writes()
        assert old.events.reasons().count("Plaintext") == 1

    async def test_one_from_before_that_lost_its_records_comes_back_without(self, old):
        old.kube.remove(SECRETS, "default", "a-start")
        old.kube.remove(STATEFUL_SETS, "default", "a")
        for _ in range(40):
            await old.once()
            old.nodes.turn()
        record = read_secret(old.kube.live(SECRETS, "a-start")).bootstrap
        assert record.links.are_plaintext
        assert old.kube.find(SECRETS, "a-peer-tls") is None
        assert old.condition("Plaintext")

    @pytest.mark.parametrize("lost", ["secret", "secret and StatefulSet"])
    async def test_links_are_remembered_when_the_record_is_lost(self, settled, lost):
        settled.kube.remove(SECRETS, "default", "a-start")
        if lost != "secret":
            settled.kube.remove(STATEFUL_SETS, "default", "a")
        body = settled.body
        del body["spec"]["TLS"]
        settled.kube.put(ETCD_CLUSTERS, body)
        for _ in range(40):
            await settled.once()
            settled.nodes.turn()
        record = read_secret(settled.kube.live(SECRETS, "a-start")).bootstrap
        assert record.links.peer.mode == "Managed"
        if lost == "secret":
            assert record.links.client.mode == "Managed"


async def test_nothing_is_remembered_of_a_deleted_cluster(bench):
    declare(bench)
    await bench.run()
    bench.kube.remove(ETCD_CLUSTERS, *KEY)
    await bench.once()
    look = bench.reconciler._observer._certificates
    assert not [
        memory for memory in (look._secrets._reads, look._examined, look._identities) if memory
    ]


async def test_keys_that_a_failed_pass_still_waited_for_were_kept_of_a_deleted_cluster(bench):
    """The first read that failed ended the pass, and the others went on without it."""
    bench.declare(TLS=STATIC)
    user_secrets(bench)
    get, held = bench.kube.get, asyncio.Event()

    async def late(resource, namespace, name):
        if name == "s":
            raise Unavailable("no answer")
        if name == "p":
            await held.wait()
        return await get(resource, namespace, name)

    bench.kube.get = late
    with pytest.raises(Unavailable):
        await bench.once()
    bench.kube.remove(ETCD_CLUSTERS, *KEY)
    await bench.once()
    held.set()
    await asyncio.sleep(0.01)

    assert not bench.reconciler._observer._certificates._secrets._reads


async def test_an_operators_certificate_with_another_name_is_recreated_without_a_restart(settled):
    """Older versions used such names."""
    cluster = parse_cluster(settled.body)
    need = next(one for one in managed(cluster) if one.role == "operator")
    older = replace(need, subject="etcd-operator")
    authority = data(settled, "a-client-ca")
    put_own(settled, older, signing.make(older, authority, settled.clock.now))
    await settled.run()

    files = data(settled, "a-operator-tls")
    assert checking.examine(need, files).subject == "root"
    assert [one for one in settled.kube.log if "a-operator-tls" in one]
    assert not [one for one in settled.kube.log if "Pod" in one or "StatefulSet" in one]


def put_own(bench, need, files):
    encoded = {key: base64.b64encode(content).decode() for key, content in files.items()}
    bench.kube.put(SECRETS, {**bench.kube.live(SECRETS, need.secret), "data": encoded})


async def a_moment(bench):
    for _ in range(80):
        delay = await bench.once()
        bench.nodes.turn()
        bench.clock.now += min(delay or 0.01, 1.0)


def immutable(bench, name):
    """Makes this Secret immutable: the API server accepts no change of its content."""
    real = bench.kube.merge_patch

    async def merge_patch(resource, namespace, named, patch, **more):
        if (resource, named) == (SECRETS, name) and "data" in patch:
            raise Rejected(
                "data: Forbidden: field is immutable when `immutable` is set", status=422
            )
        return await real(resource, namespace, named, patch, **more)

    bench.kube.merge_patch = merge_patch


class TestSecretThatCannotBeChanged:
    @pytest.mark.parametrize("name", ["a-server-tls", "a-peer-tls", "a-client-tls"])
    async def test_a_refused_renewal_kept_everything_else_waiting(self, settled, name):
        immutable(settled, name)
        before = data(settled, name)
        settled.clock.now += 250 * DAY
        settled.kube.remove(SERVICES, "default", "a-client")
        settled.declare(TLS=MANAGED, size=4)
        await a_moment(settled)

        assert settled.kube.find(SERVICES, "a-client")
        assert len(settled.etcd.listed) == 4
        assert data(settled, name) == before
        others = {"a-server-tls", "a-peer-tls", "a-operator-tls", "a-client-tls"} - {name}
        renewed = {one["secret"]: one["ends"] for one in settled.status["certificates"]}
        assert all(renewed[one] > renewed[name] for one in others)
        told = settled.condition("Progressing")
        assert told["reason"] == "StepFailed"
        assert f"Secret {name}" in told["message"]
        assert "immutable" in told["message"]

    @pytest.mark.parametrize("name", ["a-server-tls", "a-peer-tls", "a-client-tls"])
    async def test_one_that_was_deleted_to_mend_that_was_missing_until_the_next_try(
        self, settled, name
    ):
        immutable(settled, name)
        settled.clock.now += 250 * DAY
        await settled.until_failed()

        assert await settled.missing_for(SECRETS, name) < 1

    async def test_one_that_cannot_be_created_either_keeps_nothing_waiting(self, settled):
        settled.kube.remove(SECRETS, "default", "a-client-tls")
        settled.kube.failures["create Secret"] = [Rejected("quota", status=403)] * 99
        settled.kube.remove(SERVICES, "default", "a-client")
        await a_moment(settled)

        assert settled.kube.find(SERVICES, "a-client")
        assert settled.kube.calls["create Secret"] <= 3

    async def test_one_that_is_not_good_any_more_is_waited_for(self, settled):
        immutable(settled, "a-server-tls")
        settled.clock.now += 366 * DAY
        settled.kube.remove(SERVICES, "default", "a-client")
        await a_moment(settled)

        assert not settled.kube.find(SERVICES, "a-client")

    async def test_a_rotation_that_cannot_begin_holds_up_nothing_else(self, settled):
        immutable(settled, "a-peer-ca")
        settled.declare(TLS={**MANAGED, "rotation": {"peer": 2, "client": 2}})
        settled.kube.remove(SERVICES, "default", "a-client")
        await a_moment(settled)

        assert settled.kube.find(SERVICES, "a-client")
        assert "a-peer-ca" in settled.condition("Progressing")["message"]


async def test_tls_that_could_not_be_turned_on_could_not_be_turned_off_again_either(bench):
    """A quota let no Secret be created. So nothing else was done for the cluster either."""
    bench.declare(size=3, TLS=PLAINTEXT)
    await bench.run()
    await bench.run()
    create = bench.kube.create

    async def refuse(resource, manifest):
        if resource == SECRETS:
            raise Rejected("exceeded quota: secrets", status=403)
        return await create(resource, manifest)

    bench.kube.create = refuse
    bench.declare(size=3, TLS=MANAGED)
    await a_moment(bench)
    assert bench.condition("Progressing")["reason"] == "StepFailed"

    bench.declare(size=4, TLS=PLAINTEXT)
    await a_moment(bench)

    assert len(bench.etcd.listed) == 4
    assert bench.condition("Progressing")["reason"] == "AsDeclared"
    assert bench.condition("ChangingTLS") is None


async def test_an_authority_replaced_after_the_decision_signed_certificates_nobody_trusted(bench):
    declare(bench)
    await bench.run()
    cluster = parse_cluster(bench.body)
    need = next(one for one in managed(cluster) if one.role == "peer")
    before = data(bench, "a-peer-tls")
    version = bench.kube.live(SECRETS, "a-peer-tls")["metadata"]["resourceVersion"]
    step = IssueCertificate(need, version, "is renewed", authority="that of the decision")

    applied = await issuing.carry_out(
        bench.kube, Finder(bench.kube, bench.store), cluster, step, bench.clock.now
    )

    assert applied == Outdated("Secret a-peer-ca holds another authority by now")
    assert data(bench, "a-peer-tls") == before
