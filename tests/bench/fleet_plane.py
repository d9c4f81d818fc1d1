"""A separate control plane on loopback: etcd, an API server, and the StatefulSet controller.

It shares nothing with the local cluster, whose operator serves all namespaces and would interfere.
It has no nodes and no scheduler: `fleet_pods` simulates the kubelet.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.api import NAMESPACES, Kube
from harness.waiting import eventually

from localkube import binaries
from localkube.pki import write_kubeconfig
from localkube.versions import etcd_versions

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
READY_SECONDS = 60
STOP_SECONDS = 10
SPEED = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True)
class Plane:
    kubeconfig: Path
    kube: Kube


@contextmanager
def control_plane() -> Iterator[Plane]:
    """Runs a control plane with our CRDs, and removes all of it afterwards."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        client, peer, api, health = free_ports(4)
        store = f"http://{HOST}:{client}"
        stack.enter_context(process(folder / "etcd.log", *_etcd(folder, store, peer)))
        kubeconfig = _kubeconfig(folder, api)
        server = process(folder / "api-server.log", *_api_server(folder, store, api))
        kube = _until_ready(kubeconfig, stack.enter_context(server), folder / "api-server.log")
        stack.enter_context(process(folder / "controllers.log", *_controllers(kubeconfig, health)))
        _serve_crds(kube)
        yield Plane(kubeconfig, kube)


@contextmanager
def process(log: Path, *command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("ab") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as child,
    ):
        try:
            yield child
        finally:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(STOP_SECONDS)
            child.kill()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _etcd(folder: Path, store: str, peer: int) -> tuple[str | Path, ...]:
    return (
        binaries.etcd(etcd_versions()[-1]) / "etcd",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={store}",
        f"--advertise-client-urls={store}",
        f"--listen-peer-urls=http://{HOST}:{peer}",
        f"--initial-advertise-peer-urls=http://{HOST}:{peer}",
        f"--initial-cluster=default=http://{HOST}:{peer}",
    )


def _api_server(folder: Path, store: str, port: int) -> tuple[str | Path, ...]:
    key = folder / "service-accounts.key"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    return (
        binaries.kubernetes() / "kube-apiserver",
        f"--etcd-servers={store}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--token-auth-file={folder / 'tokens'}",
        "--authorization-mode=AlwaysAllow",
        "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://fleet.invalid",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/16",
    )


def _controllers(kubeconfig: Path, port: int) -> tuple[str | Path, ...]:
    return (
        binaries.kubernetes() / "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        "--controllers=statefulset-controller",
        "--leader-elect=false",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={kubeconfig.parent / 'controllers'}",
        *SPEED,
    )


def _kubeconfig(folder: Path, port: int) -> Path:
    """A kubeconfig for all clients. The API server uses a self-signed certificate."""
    token = secrets.token_hex(16)
    (folder / "tokens").write_text(f"{token},fleet,fleet,system:masters\n")
    server = {
        "server": f"https://{HOST}:{port}",
        "certificate-authority": str(folder / "apiserver.crt"),
    }
    return write_kubeconfig(folder / "kubeconfig", "fleet", server, "fleet", {"token": token})


def _until_ready(kubeconfig: Path, server: subprocess.Popen[bytes], log: Path) -> Kube:
    """Waits until the API server is ready; returns a client. The certificate is written late."""

    def alive() -> bool:
        if server.poll() is not None:
            raise RuntimeError(f"kube-apiserver ended: {log.read_text()[-2000:]}")
        return True

    certificate = kubeconfig.with_name("apiserver.crt")
    eventually("a certificate", lambda: alive() and certificate.exists(), seconds=READY_SECONDS)
    kube = Kube(kubeconfig)
    eventually(
        "the API server is ready",
        lambda: alive() and kube.get(NAMESPACES, None, "default"),
        seconds=READY_SECONDS,
    )
    return kube


def _serve_crds(kube: Kube) -> None:
    kube.kubectl("apply", "--server-side", "--filename", str(ROOT / "crds"))
    kube.kubectl("wait", "--for=condition=Established", "--all", "crd", "--timeout=30s")


def _openssl(*words: str) -> None:
    subprocess.run(("openssl", *words), check=True, capture_output=True)
