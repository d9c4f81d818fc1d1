"""Whole passes over a cluster whose TLS is turned on or off: what is queried and reported."""

from __future__ import annotations

import pytest
from fakes import PLAINTEXT
from reconcile_bench import Bench

from etcd_operator.kube.api import CLAIMS, PODS, SECRETS, Unavailable
from etcd_operator.objects.reading import secret as read_secret
from etcd_stateful.api.tls import Level, Levels
from etcd_stateful.manifests.start_settings import levels_in
from unit.credentials.test_rotation_passes import RollingNodes
from unit.credentials.tls_passes.secrets import (
    MANAGED,
    SECRET_NAMES,
    STATIC,
    edit,
    put_secret,
    user_secrets,
)

TLS = Levels(Level.TLS, Level.TLS)
BOTH = {**MANAGED, "allowPlaintextClients": True}


@pytest.fixture
async def bench():
    """A settled cluster in plaintext."""
    return await settled(PLAINTEXT)


async def settled(tls):
    bench = Bench()
    bench.nodes = RollingNodes(bench.kube, bench.start, bench.etcd)
    bench.declare(TLS=tls)
    await bench.run()
    await bench.run()
    bench.forget()
    return bench


async def rest(bench):
    """Everything that follows from an edit, including restarts, which the fakes carry out in the
    next round."""
    for _ in range(400):
        delay = await bench.once()
        bench.nodes.turn()
        bench.clock.now += min(delay or 1.0, 1.0)
        if bench.condition("ChangingTLS") is None and delay is not None and delay >= 5:
            return
    raise AssertionError((bench.condition("ChangingTLS"), bench.kube.log[-8:]))


def urls(bench):
    return {url for member in bench.etcd.listed.values() for url in member.peer_urls}


def scheme_on_claims(bench):
    claims = [obj for (kind, *_), obj in bench.kube.objects.items() if kind == CLAIMS]
    key = "etcd.database.coreos.com/peer-scheme"
    return {one["metadata"]["annotations"].get(key, "http") for one in claims}


def levels(bench):
    return {
        levels_in(obj["spec"]) for (kind, *_), obj in bench.kube.objects.items() if kind == PODS
    }


async def test_tls_is_turned_on_and_off_again(bench):
    edit(bench, TLS=MANAGED)
    await rest(bench)
    assert urls(bench) == {f"https://a-{one}.a.default.svc:2380" for one in range(3)}
    assert scheme_on_claims(bench) == {"https"}
    assert bench.condition("Plaintext") is None
    assert bench.status["phase"] == "Running"
    made = {name for resource, _, name in bench.kube.objects if resource == SECRETS}
    assert made == {"a-start", *SECRET_NAMES}
    told = [words for _, reason, words in bench.events.posted if reason == "TLSChanges"]
    first = "members get certificates for each other; until all have them they listen in plaintext"
    then = "members listen for each other with TLS from now on"
    assert told == [
        f"{first}; clients are served with TLS and in plaintext from now on",
        f"{then}; clients are served only with TLS from now on",
    ]
    assert bench.events.reasons().count("MemberUpdated") == 6

    edit(bench, TLS=PLAINTEXT)
    await rest(bench)
    assert urls(bench) == {f"http://a-{one}.a.default.svc:2380" for one in range(3)}
    assert scheme_on_claims(bench) == {"http"}
    assert "as spec.TLS asks" in bench.condition("Plaintext")["message"]
    record = read_secret(bench.kube.live(SECRETS, "a-start")).bootstrap
    assert record.links.are_plaintext
    bench.forget()
    for _ in range(10):
        bench.clock.now += await bench.once()
    assert not bench.kube.writes(), "and stays"


async def test_an_alert_fired_for_certificates_of_a_cluster_without_tls(bench):
    ends = [f"etcd_cluster_{one}_expiry_timestamp_seconds" for one in ("certificate", "authority")]
    labels = {"namespace": "default", "etcd_cluster": "a"}

    def told():
        return [bench.metrics.registry.get_sample_value(name, labels) for name in ends]

    edit(bench, TLS=MANAGED)
    await rest(bench)
    assert all(told())
    edit(bench, TLS=PLAINTEXT)
    await rest(bench)

    assert told() == [None, None]


async def test_the_status_kept_the_dates_of_certificates_that_are_not_used_any_more(bench):
    """They were never looked at again, and seemed to have expired a year later."""
    edit(bench, TLS=MANAGED)
    await rest(bench)
    assert bench.status["certificates"]
    edit(bench, TLS=PLAINTEXT)
    await rest(bench)

    assert "certificates" not in bench.status


async def test_conditions_are_true_at_each_step_of_the_switch(bench):
    """No pass reports encrypted traffic while some pod still listens in plaintext."""
    edit(bench, TLS=MANAGED)
    said = []
    for _ in range(200):
        delay = await bench.once()
        bare = bench.condition("Plaintext")
        is_bare = any(one.peer_scheme == "http" for one in levels(bench))
        assert bare is not None or not is_bare
        if bare:
            said.append(bare["message"])
        if change := bench.condition("ChangingTLS"):
            said.append(change["message"])
        bench.nodes.turn()
        bench.clock.now += min(delay or 1.0, 1.0)
    assert levels(bench) == {TLS}
    assert any("until every pod has changed to TLS" in one for one in said)
    assert any("1 of 3 pods listen for each other with TLS" in one for one in said)
    assert bench.condition("ChangingTLS") is None


async def test_a_pause_at_any_moment_does_not_lose_the_switch(bench):
    """It did if everything that was left was in etcd's member list, which is not requested during a
    pause."""
    edit(bench, TLS=MANAGED)
    held = 0
    for _ in range(200):
        delay = await bench.once()
        if bench.condition("ChangingTLS"):
            edit(bench, TLS=MANAGED, paused=True)
            await bench.once()
            assert bench.condition("ChangingTLS")["reason"] == "Paused"
            held += 1
            edit(bench, TLS=MANAGED, paused=False)
        bench.nodes.turn()
        bench.clock.now += min(delay or 1.0, 1.0)
    assert held > 5
    assert bench.condition("ChangingTLS") is None, "it is over, and is said to be"


async def test_plaintext_and_tls_are_both_served_and_reported_while_the_spec_says_so(bench):
    edit(bench, TLS=BOTH)
    await rest(bench)
    assert bench.condition("Plaintext")["message"] == (
        "the traffic of clients is neither encrypted nor authenticated where they connect without "
        "TLS, as spec.TLS.allowPlaintextClients asks"
    )
    assert set(bench.etcd.served.values()) >= {frozenset({"http", "https"})}
    edit(bench, TLS=MANAGED)
    await rest(bench)
    assert bench.condition("Plaintext") is None


@pytest.mark.parametrize("then", ["MANAGED", "PLAINTEXT"])
async def test_after_a_kill_at_any_write_the_next_operator_continues(then):
    at_first, wanted = (PLAINTEXT, MANAGED) if then == "MANAGED" else (MANAGED, PLAINTEXT)
    for at in (2, 8, 13, 18):
        bench = await settled(at_first)
        edit(bench, TLS=wanted)
        killed = kill_at(bench, at)
        for _ in range(60):
            try:
                await bench.once()
            except Unavailable:
                break
            if killed:
                break
            bench.nodes.turn()
            bench.clock.now += 1.0
        assert killed
        bench.begin_process()
        await rest(bench)
        scheme = "https" if then == "MANAGED" else "http"
        assert {url.partition(":")[0] for url in urls(bench)} == {scheme}


def kill_at(bench, at):
    """The operator dies after its `at`th write to Kubernetes or etcd."""
    killed, count = [], [0]

    def counted(call):
        async def wrapped(*args, **options):
            answer = await call(*args, **options)
            if args and getattr(args[0], "kind", "") == "EtcdCluster":
                return answer
            count[0] += 1
            if count[0] == at:
                killed.append(at)
                raise Unavailable("killed")
            return answer

        return wrapped

    for target, names in (
        (bench.kube, ("apply", "create", "merge_patch", "delete")),
        (bench.etcd, ("member_update", "move_leader")),
    ):
        for name in names:
            setattr(target, name, counted(getattr(target, name)))
    return killed


async def test_an_invalid_user_secret_is_reported_and_nothing_is_changed(bench):
    edit(bench, TLS=STATIC)
    for _ in range(4):
        bench.clock.now += await bench.once()
    told = bench.condition("Blocked")
    assert told["reason"] == "CertificatesUnusable"
    assert "Secret p" in told["message"]
    assert set(bench.kube.writes()) == {"apply EtcdCluster/status"}
    user_secrets(bench, s={"server.key": b"no"})
    for _ in range(8):
        bench.clock.now += await bench.once()
    assert "Secret s" in bench.condition("Blocked")["message"]
    assert set(bench.kube.writes()) == {"apply EtcdCluster/status"}


async def test_tls_with_user_provided_certificates_is_turned_on_and_off(bench):
    user_secrets(bench)
    edit(bench, TLS=STATIC)
    await rest(bench)
    assert levels(bench) == {TLS}
    edit(bench, TLS=PLAINTEXT)
    await rest(bench)
    assert {url.partition(":")[0] for url in urls(bench)} == {"http"}


async def test_a_foreign_secret_with_a_needed_name_is_reported_before_any_change(bench):
    put_secret(bench, "a-peer-tls", {"peer.crt": b"theirs"})
    edit(bench, TLS=MANAGED)
    for _ in range(20):
        bench.clock.now += await bench.once()
        bench.nodes.turn()
    told = bench.condition("Blocked")
    assert told["reason"] == "NameTaken"
    assert "Secret a-peer-tls" in told["message"]
    assert set(bench.kube.writes()) == {"apply EtcdCluster/status"}
    bench.kube.remove(SECRETS, "default", "a-peer-tls")
    bench.clock.now += 20
    await rest(bench)
    assert levels(bench) == {TLS}


async def test_nothing_is_written_while_the_cluster_is_paused(bench):
    edit(bench, TLS=MANAGED)
    for _ in range(12):
        await bench.once()
        bench.nodes.turn()
    edit(bench, paused=True)
    await bench.once()
    bench.forget()
    for _ in range(5):
        await bench.once()
    assert set(bench.kube.writes()) <= {"apply EtcdCluster/status"}
    assert not bench.etcd.changes
    edit(bench, paused=False)
    await rest(bench)
    assert levels(bench) == {TLS}
