"""Whole passes of a rotation, with real keys and certificates: what is written to which Secret."""

from __future__ import annotations

import copy
import hashlib
import json
import logging

import pytest
from cryptography import x509
from fakes import Nodes
from reconcile_bench import Bench

from etcd_operator.kube.api import (
    ETCD_CLUSTERS,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    Conflict,
    Unavailable,
)
from etcd_operator.objects.reading import contents
from etcd_stateful import naming
from unit.credentials.tls_passes.secrets import STATIC, edit, foreign, put_secret, user_secrets

OVERLAP = 300
ROTATED = {"peer": 2, "client": 2, "overlapSeconds": OVERLAP}
LEAVES = {
    "a-peer-tls": ("peer.crt", "peer-ca.crt"),
    "a-server-tls": ("server.crt", "server-ca.crt"),
    "a-operator-tls": ("etcd-client.crt", "etcd-client-ca.crt"),
    "a-client-tls": ("tls.crt", "ca.crt"),
}


class RollingNodes(Nodes):
    """Nodes that also set the revision of pods, so that pods are restarted."""

    def turn(self):
        stateful_set = self.kube.objects.get((STATEFUL_SETS, "default", "a"))
        if stateful_set is not None:
            text = json.dumps(stateful_set["spec"]["template"], sort_keys=True)
            revision = hashlib.sha256(text.encode()).hexdigest()[:8]
            status = {"updateRevision": revision}
            if stateful_set.get("status") != status:
                self.kube.put(STATEFUL_SETS, {**stateful_set, "status": status})
        pods = [obj for (kind, *_), obj in self.kube.objects.items() if kind == PODS]
        addresses = {pod["status"].get("podIP") for pod in pods}
        for gone in set(self.etcd.members) - addresses:
            del self.etcd.members[gone]
        super().turn()
        for (kind, *_), obj in list(self.kube.objects.items()):
            labels = obj["metadata"].get("labels") or {}
            if kind == PODS and "controller-revision-hash" not in labels and stateful_set:
                marked = copy.deepcopy(obj)
                marked["metadata"]["labels"]["controller-revision-hash"] = revision
                self.kube.put(PODS, marked)


async def settled(size=3):
    bench = Bench()
    bench.nodes = RollingNodes(bench.kube, bench.start, bench.etcd)
    bench.declare(size=size, TLS={"rotation": {"overlapSeconds": OVERLAP}})
    await bench.run()
    await bench.run()
    bench.forget()
    return bench


def wish(bench, **rotation):
    body = bench.body
    body["spec"]["TLS"]["rotation"] |= rotation
    bench.kube.put(ETCD_CLUSTERS, body)


def data(bench, name):
    return contents(bench.kube.live(SECRETS, name))


def authority(bench, name="a-client-ca", key="ca.crt"):
    return x509.load_pem_x509_certificate(data(bench, name)[key])


def signed(certificate, by):
    """Whether this authority signed it."""
    try:
        certificate.verify_directly_issued_by(by)
    except Exception:  # noqa: BLE001 - of any kind
        return False
    return True


def bundle(bench, name):
    return x509.load_pem_x509_certificates(data(bench, name)[LEAVES[name][1]])


def leaf(bench, name):
    return x509.load_pem_x509_certificate(data(bench, name)[LEAVES[name][0]])


async def until(bench, stage):
    """Continues until the file of the client authority is at this stage, and everything that
    follows is done."""
    for _ in range(400):
        delay = await bench.once()
        bench.nodes.turn()
        if stage in data(bench, "a-client-ca") and (delay is None or delay >= 5):
            return
        bench.clock.now += min(delay or 0.0, 10.0)
    raise AssertionError(f"never came to {stage}: {bench.kube.log[-12:]}")


async def through(bench, seconds=2 * OVERLAP + 60):
    """A whole rotation."""
    ends = bench.clock.now + seconds
    while bench.clock.now < ends:
        delay = await bench.once()
        bench.nodes.turn()
        bench.clock.now += 40.0 if delay is None or delay >= 5 else delay
    await bench.run()


def is_done(bench, generation=b"2"):
    for name in ("a-peer-ca", "a-client-ca"):
        assert set(data(bench, name)) == {"ca.crt", "ca.key", "generation"}
        assert data(bench, name)["generation"] == generation
    for name in LEAVES:
        above = authority(bench, "a-peer-ca" if name == "a-peer-tls" else "a-client-ca")
        assert bundle(bench, name) == [above]
        assert signed(leaf(bench, name), above)
    template = bench.kube.live(STATEFUL_SETS, "a")["spec"]["template"]
    for (kind, *_), pod in bench.kube.objects.items():
        if kind == PODS:
            assert pod["spec"]["volumes"] == template["spec"]["volumes"]
            assert mounted(pod) <= set(data(bench, "a-peer-tls")) | set(data(bench, "a-server-tls"))
    assert bench.condition("Rotating") is None
    assert bench.condition("Progressing")["reason"] == "AsDeclared"


def mounted(pod):
    return {
        item["key"]
        for volume in pod["spec"]["volumes"]
        if volume["name"] in ("peer-tls", "server-tls")
        for item in volume["secret"]["items"]
    }


async def test_authorities_without_their_labels():
    """Then only a read shows them. The first turn labels them again."""
    bench = await settled()
    for name in ("a-peer-ca", "a-client-ca"):
        secret = bench.kube.live(SECRETS, name)
        secret["metadata"]["labels"] = {}
        bench.kube.put(SECRETS, secret)
    wish(bench, **ROTATED)

    await until(bench, "next-ca.crt")
    labels = bench.kube.live(SECRETS, "a-client-ca")["metadata"]["labels"]
    assert labels == naming.labels("a")
    await through(bench)
    is_done(bench)


async def test_a_whole_rotation():
    bench = await settled()
    first = {name: data(bench, name) for name in ("a-peer-ca", "a-client-ca", *LEAVES)}
    wish(bench, **ROTATED)

    await until(bench, "next-ca.crt")

    before, following = authority(bench), authority(bench, key="next-ca.crt")
    assert data(bench, "a-client-ca")["ca.key"] == first["a-client-ca"]["ca.key"]
    for name in ("a-server-tls", "a-operator-tls", "a-client-tls"):
        assert bundle(bench, name) == [before, following]
        assert signed(leaf(bench, name), before)
    assert bench.condition("Rotating")["message"].startswith("the authority in Secret a-peer-ca is")
    assert bench.kube.calls["delete Pod"] == 3

    await until(bench, "old-ca.crt")

    assert authority(bench) == following
    assert "ca.key" in data(bench, "a-client-ca")
    assert data(bench, "a-client-ca")["ca.key"] != first["a-client-ca"]["ca.key"]
    for name in ("a-server-tls", "a-operator-tls", "a-client-tls"):
        assert bundle(bench, name) == [before, following]
        assert signed(leaf(bench, name), following)
    assert bench.kube.calls["delete Pod"] == 3

    await through(bench)

    is_done(bench)
    assert bench.kube.calls["delete Pod"] == 6
    told = {one["secret"]: one.get("generation") for one in bench.status["certificates"]}
    assert told == {"a-peer-ca": 2, "a-client-ca": 2} | dict.fromkeys(LEAVES)
    assert bench.events.reasons().count("AuthorityRotates") == 6


async def test_at_the_age_that_is_due_by_itself():
    bench = await settled()
    bench.clock.now += 3650 * 86400 * 2 / 3
    await through(bench)
    is_done(bench)
    name = "etcd_cluster_authority_expiry_timestamp_seconds"
    labels = {"namespace": "default", "etcd_cluster": "a"}
    ends = bench.metrics.registry.get_sample_value(name, labels)
    assert ends - bench.clock.now > 3649 * 86400


class Killed(Unavailable):
    pass


async def test_after_a_kill_around_any_write_it_continues():
    """One link of a cluster of one: each write of a rotation, alternately just before and just
    after it."""
    writes = await _writes_of_a_rotation()
    assert len(writes) == 10, writes
    for number in range(len(writes)):
        bench = await settled(1)
        _kill_at(bench, number, after=bool(number % 2))
        wish(bench, peer=2)
        await _through_deaths(bench)
        assert set(data(bench, "a-peer-ca")) == {"ca.crt", "ca.key", "generation"}
        assert bundle(bench, "a-peer-tls") == [authority(bench, "a-peer-ca")]
        assert _of_rotation(bench) == writes, number


async def _writes_of_a_rotation():
    bench = await settled(1)
    wish(bench, peer=2)
    await through(bench)
    return _of_rotation(bench)


def _of_rotation(bench):
    """The writes of a rotation, each once, however often it was tried."""
    kept = [one for one in bench.kube.log if one.startswith(("patch Sec", "apply Stat", "delete"))]
    return [one for at, one in enumerate(kept) if at == 0 or kept[at - 1] != one]


def _kill_at(bench, number, *, after):
    count = iter(range(1000))

    def deadly(call, resources):
        async def dies(resource, *args, **how):
            deed = resource in resources and not how.get("status") and next(count) == number
            if deed and not after:
                raise Killed("killed")
            done = await call(resource, *args, **how)
            if deed:
                raise Killed("killed")
            return done

        return dies

    kube = bench.kube
    kube.merge_patch = deadly(kube.merge_patch, [SECRETS])
    kube.apply = deadly(kube.apply, [STATEFUL_SETS])
    kube.delete = deadly(kube.delete, [PODS])


async def _through_deaths(bench):
    try:
        await through(bench)
    except Killed:
        bench.begin_process()
        await through(bench)


async def test_a_secret_keeps_the_file_that_a_pod_mounts_until_none_does():
    bench = await settled()
    wish(bench, peer=2)
    await through(bench)
    pod = bench.kube.live(PODS, "a-0")
    old = next(one for one in mounted(pod) if one.startswith("peer-ca-"))
    wish(bench, peer=3)
    for _ in range(400):
        delay = await bench.once()
        if delay != 0.0:
            bench.nodes.turn()
        bench.clock.now += min(delay or 0.0, 10.0)
        for (kind, *_), obj in bench.kube.objects.items():
            if kind == PODS:
                found = {one for one in mounted(obj) if one.startswith("peer")}
                assert found <= set(data(bench, "a-peer-tls"))
    await through(bench)
    assert old not in data(bench, "a-peer-tls")
    assert data(bench, "a-peer-ca")["generation"] == b"3"


@pytest.mark.parametrize(
    ("stage", "key", "said"),
    [
        ("next-ca.crt", "next-ca.key", "next-ca.key is not a private key"),
        ("next-ca.crt", "next-ca.crt", "next-ca.crt is not a certificate"),
        ("old-ca.crt", "old-ca.crt", "old-ca.crt is not a certificate"),
        ("old-ca.crt", "generation", "generation is not a number"),
    ],
)
async def test_a_rotation_that_was_tampered_with_is_reported_and_continues_when_repaired(
    stage, key, said
):
    bench = await settled()
    wish(bench, **ROTATED)
    await until(bench, stage)
    sound = bench.kube.live(SECRETS, "a-client-ca")
    broken = copy.deepcopy(sound)
    broken["data"][key] = "bm8="
    bench.kube.put(SECRETS, broken)
    pods = bench.kube.calls["delete Pod"]
    for _ in range(60):
        bench.clock.now += 10
        await bench.once()
    told = bench.condition("Blocked")
    assert told["reason"] == "AuthorityLost"
    assert said in told["message"]
    assert bench.kube.calls["delete Pod"] == pods
    mended = bench.kube.live(SECRETS, "a-client-ca")
    mended["data"] = sound["data"]
    bench.kube.put(SECRETS, mended)
    await through(bench)
    is_done(bench)


async def test_a_pause_does_not_make_it_forget_that_it_rotates():
    """Secrets are not looked at during a pause."""
    bench = await settled(size=1)
    wish(bench, **ROTATED)
    await until(bench, "next-ca.crt")
    before = bench.condition("Rotating")
    bench.kube.put(ETCD_CLUSTERS, {**bench.body, "spec": {**bench.body["spec"], "paused": True}})
    for _ in range(2):
        await bench.once()

    found = bench.condition("Rotating")

    assert (found["status"], found["reason"]) == ("True", "Paused")
    assert found["message"] == before["message"]
    bench.kube.put(ETCD_CLUSTERS, {**bench.body, "spec": {**bench.body["spec"], "paused": False}})
    await through(bench)
    assert bench.condition("Rotating") is None


async def test_a_turn_that_conflicts_is_no_failure():
    bench = await settled()
    bench.kube.failures["patch Secret"] = [Conflict("changed", status=409)]
    wish(bench, **ROTATED)
    await through(bench)
    is_done(bench)


async def test_no_key_is_logged_or_reported(caplog):
    caplog.set_level(logging.DEBUG)
    bench = await settled()
    wish(bench, **ROTATED)
    keys = set()
    for stage in ("next-ca.crt", "old-ca.crt"):
        await until(bench, stage)
        for (kind, *_), obj in bench.kube.objects.items():
            if kind == SECRETS:
                found = contents(obj)
                keys |= {one for name, one in found.items() if name.endswith(".key")}
    await through(bench)
    told = [caplog.text, repr(bench.body), repr(bench.events.posted)]
    assert len(keys) > 8
    assert not [one for one in keys for text in told if one.decode().splitlines()[1] in text]


async def test_a_number_for_a_link_without_an_authority_is_reported():
    bench = Bench()
    bench.declare(TLS={"client": "Plaintext", "rotation": {"client": 2}})
    await bench.run()
    said = bench.condition("Accepted")["message"]
    assert said == (
        "spec.TLS.rotation.client: has no effect: spec.TLS does not ask for managed certificates "
        "on this link"
    )


async def test_a_successor_of_a_clock_that_was_ahead_took_over_and_nothing_could_be_signed():
    """The authority was not valid for as long as the clock had been ahead, and the key of the one
    before was gone (`AuthorityLost`)."""
    bench = await settled(1)
    bench.clock.now += 400 * 86400
    wish(bench, **ROTATED)
    await until(bench, "next-ca.crt")
    early = authority(bench, key="next-ca.crt")
    bench.clock.now -= 400 * 86400
    bench.begin_process()  # on another node

    await until(bench, "old-ca.crt")

    assert authority(bench).not_valid_before_utc.timestamp() < bench.clock.now
    assert authority(bench) != early
    await through(bench)
    is_done(bench)


async def of_users():
    """A cluster with certificates of its user."""
    bench = Bench()
    bench.nodes = RollingNodes(bench.kube, bench.start, bench.etcd)
    bench.declare(TLS=STATIC)
    user_secrets(bench)
    await bench.run()
    await bench.run()
    return bench


def uids(bench):
    return {bench.kube.live(PODS, f"a-{one}")["metadata"]["uid"] for one in range(3)}


async def restarted(bench, label):
    """Whether all pods are restarted for an edit; False if none is."""
    before = uids(bench)
    edit(bench, pod={"labels": {"edited": label}})
    for _ in range(60):
        bench.clock.now += await bench.once() or 5.0
        bench.nodes.turn()
    after = uids(bench)
    assert after == before or not after & before
    return after != before


async def test_a_member_restarted_into_an_authority_of_peers_that_the_others_refuse():
    """It reached none of them, and no message said why."""
    bench = await of_users()
    good = data(bench, "p")
    put_secret(bench, "p", foreign(bench, "p", bench.clock.now))

    assert not await restarted(bench, "yes")

    told = bench.condition("Blocked")
    assert told["reason"] == "CertificatesUnusable"
    assert "no authority that a-0, a-1, a-2 trusts has signed peer.crt" in told["message"]
    assert "Put its previous content back. Replace" in told["message"]
    put_secret(bench, "p", good)
    assert await restarted(bench, "again")
    assert bench.condition("Blocked") is None


async def test_a_users_authority_of_peers_is_replaced_step_by_step():
    bench = await of_users()
    old, new = data(bench, "p"), foreign(bench, "p", bench.clock.now)
    both = {"peer-ca.crt": old["peer-ca.crt"] + new["peer-ca.crt"]}

    for number, files in enumerate((old | both, new | both, new)):
        put_secret(bench, "p", files)
        assert await restarted(bench, str(number)), number
        assert bench.condition("Blocked") is None
