"""etcd of each minor with TLS: configured by `start`, queried by the operator's client."""

from __future__ import annotations

import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from start_pods import PATIENCE, NoReply, Pod, World, eventually
from start_tls import CALLER, CLUSTER, NEEDS, Tls
from unhurried import make_unhurried

from etcd_operator.etcd.api import Endpoint, Identity, NoAnswer
from etcd_operator.etcd.client import GrpcEtcd
from etcd_stateful import identity, naming
from etcd_stateful.manifests import tls as manifests

pytestmark = pytest.mark.integration

SHORT = 15.0
"""Seconds that a certificate is good for, where a test waits for its end."""


def at(pod: Pod, shown: Identity | None) -> Endpoint:
    return Endpoint(pod.settings.host, port=pod.settings.client_port, tls=shown)


def serial(pod: Pod) -> int:
    """Of the certificate that the member shows."""
    context = pod.world.tls.context  # type: ignore[union-attr]
    where = (pod.settings.host, pod.settings.client_port)
    with (
        socket.create_connection(where, PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname=where[0]) as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown or b"").serial_number


def holds_nothing(pod: Pod) -> bool:
    """It serves, and nobody has written to it."""
    try:
        return pod.get("k") is None
    except NoReply:
        return False


async def test_members_answer_the_operator_with_the_predicted_ids(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_unhurried(monkeypatch)
    pods = world.secure().bootstrap(3)
    etcd, mine = GrpcEtcd(), world.tls.identity  # type: ignore[union-attr]

    statuses = [await etcd.status(at(pod, mine)) for pod in pods]
    view = await etcd.member_list(at(pods[0], mine))

    predicted = {identity.member_id([pod.peer_url], world.token) for pod in pods}
    assert {status.member_id for status in statuses} == predicted
    assert {url for member in view.members for url in member.peer_urls} == {
        pod.peer_url for pod in pods
    }
    assert pods[0].peer_url.startswith("https://")
    pods[0].put("k", "v")
    assert pods[1].get("k") == "v"


async def test_without_the_right_certificates_no_client_is_served(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_unhurried(monkeypatch)
    [pod] = world.secure().bootstrap(1)
    etcd, mine = GrpcEtcd(), world.tls.identity  # type: ignore[union-attr]
    other = Tls(world.root).identity

    for shown in (
        None,
        replace(mine, certificate=other.certificate, key=other.key),  # of another authority
        replace(mine, authority=other.authority),  # the member is nobody that it trusts
        replace(mine, host="c-0.elsewhere.ns.svc"),  # the member has another name
    ):
        with pytest.raises(NoAnswer):
            await etcd.status(at(pod, shown))
    assert (await etcd.status(at(pod, mine))).member_id
    assert "PRIVATE" not in repr(at(pod, mine))


def test_a_member_with_a_certificate_of_another_ca_cannot_join(world: World) -> None:
    pods = world.secure().bootstrap(3)
    pods[2].stop()
    stranger = Tls(world.root)
    stranger.mount(pods[2].volume.parent, pods[2].settings.host)

    stays_alone(pods[2], pods[0])


def stays_alone(pod: Pod, another: Pod) -> None:
    """It is started, and the others do not let it in."""
    pod.runs()
    said = len(pod.log.read_text())
    pod.restart_container()

    eventually(lambda: "certificate" in pod.log.read_text()[said:], PATIENCE)
    eventually(lambda: holds_nothing(another), PATIENCE)  # it may have been the leader that left
    with pytest.raises(NoReply):
        pod.get("k")


def test_certificates_are_read_again_for_each_handshake(world: World) -> None:
    """So renewal needs no restart; and what is not renewed ends."""
    pods = world.secure().bootstrap(3)
    tls = world.tls
    assert tls is not None
    before = serial(pods[0])
    for pod in pods:
        tls.mount(pod.volume.parent, pod.settings.host, seconds=SHORT)
    ends = time.time() + SHORT
    assert serial(pods[0]) != before
    pods[0].put("k", "short")

    time.sleep(SHORT * 2 / 3)
    for pod in pods:
        tls.mount(pod.volume.parent, pod.settings.host, "peer")
    for pod in pods[:2]:
        tls.mount(pod.volume.parent, pod.settings.host, "server")
    time.sleep(max(0.0, ends - time.time()) + 1.5)

    pods[0].put("k", "renewed")
    pods[0].stop()
    pods[0].runs()
    pods[0].serves()
    assert pods[0].get("k") == "renewed", "its peer takes it back"
    with pytest.raises(NoReply, match=r"(?i)certificate"):
        pods[2].status()


def test_etcdctl_connects_with_the_environment_of_the_pod(world: World) -> None:
    """Without a scheme in the endpoint, as by etcdctl's default, and also with its own flags."""
    [pod] = world.secure().bootstrap(1)
    tls = world.tls
    assert tls is not None
    folder = str(pod.volume.parent / "server")
    given = {
        name: path.replace(naming.SERVER_TLS, folder)
        for name, path in manifests.environment(CLUSTER).items()
    }

    for where in (f"{pod.settings.host}:{pod.settings.client_port}", pod.client_url):
        assert etcdctl(pod, given, "--endpoints", where, "put", "k", where) == "OK"
        assert etcdctl(pod, given, "--endpoints", where, "get", "-w", "fields", "k")
    with pytest.raises(subprocess.CalledProcessError):
        etcdctl(pod, {}, "--command-timeout=3s", "--endpoints", pod.client_url, "get", "k")


def etcdctl(pod: Pod, environment: dict[str, str], *words: str) -> str:
    # `etcd-3.7.3` -> `etcdctl-3.7.3`, of the same version
    tool = Path(pod.etcd).with_name(Path(pod.etcd).name.replace("etcd-", "etcdctl-"))
    done = subprocess.run(
        (tool, "--command-timeout=20s", *words),
        env=environment,
        capture_output=True,
        check=True,
        text=True,
        timeout=PATIENCE,
    )
    return done.stdout.strip()


async def test_the_client_ca_admits_no_peers_and_the_peer_ca_no_clients(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_unhurried(monkeypatch)
    pods = world.secure().bootstrap(3)
    tls = world.tls
    assert tls is not None
    need = NEEDS["c-peer-tls"]
    peer = tls.make(need)
    shown = replace(tls.identity, certificate=peer["peer.crt"], key=peer["peer.key"])
    with pytest.raises(NoAnswer):
        await GrpcEtcd().status(at(pods[0], shown))
    assert (await GrpcEtcd().status(at(pods[0], tls.identity))).member_id

    pods[2].stop()
    signer, addresses = NEEDS["c-client-tls"].signed_by, (CALLER, pods[2].settings.host)
    made = tls.make(need, signed_by=signer, addresses=addresses)
    for file in ("peer.crt", "peer.key"):
        (pods[2].volume.parent / "peer" / file).write_bytes(made[file])
    stays_alone(pods[2], pods[0])
