"""What needs no node, with the oldest supported Kubernetes and Helm.

    python tests/oldest/run.py [WORDS FOR PYTEST]

It starts an API server with its controllers and an etcd, beside any other cluster, and runs the
tests of the charts, of the CRDs, of the operator's calls, and those beside this file with them.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from localkube import binaries
from localkube.cache import alone
from localkube.paths import BUILD
from localkube.pki import ADMINS, write_kubeconfig
from localkube.server import Server, free_port
from localkube.shell import run, succeeds, wait_until
from localkube.versions import pinned

sys.path.insert(0, str(Path(__file__).parent))

import release

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = (
    "tests/oldest",
    "tests/integration/helm",
    "tests/integration/crds",
    "tests/integration/shell",
)
NODE: Final = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "nobody"}}
"""For tests that ask for nodes. Nothing runs on it."""

USER: Final = "admin"


@dataclass
class Etcd(Server):
    peers: int = field(default_factory=free_port)

    @property
    def command(self) -> tuple[str, ...]:
        peers, data = f"http://{self.host}:{self.peers}", self.folder / "data"
        clients = (
            f"--listen-client-urls={self.endpoint}",
            f"--advertise-client-urls={self.endpoint}",
        )
        first = (f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}")
        return ("etcd", f"--data-dir={data}", *clients, f"--listen-peer-urls={peers}", *first)


@dataclass
class ApiServer(Server):
    etcd: str = ""
    program: str = ""
    token: str = field(default_factory=secrets.token_hex, repr=False)

    @property
    def authority(self) -> Path:
        """Of the certificate that it makes for itself."""
        return self.folder / "apiserver.crt"

    @property
    def key(self) -> Path:
        """Of service accounts."""
        return self.folder / "accounts.key"

    @property
    def command(self) -> tuple[str, ...]:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tokens").write_text(f"{self.token},{USER},{USER},{ADMINS}\n")
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key)
        return (
            self.program,
            f"--bind-address={self.host}",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder}",
            f"--etcd-servers={self.etcd}",
            "--authorization-mode=Node,RBAC",
            f"--token-auth-file={self.folder / 'tokens'}",
            "--endpoint-reconciler-type=none",  # its address would be refused
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self.key}",
            f"--service-account-signing-key-file={self.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
        )

    def kubeconfig(self) -> Path:
        cluster = {
            "server": f"https://{self.host}:{self.port}",
            "certificate-authority": str(self.authority),
        }
        path = self.folder / "kubeconfig"
        return write_kubeconfig(path, "oldest", cluster, USER, {"token": self.token})


@dataclass
class Controllers(Server):
    program: str = ""
    kubeconfig: str = ""
    key: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        return (
            self.program,
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder}",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.key}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )


def start(folder: Path, stack: ExitStack) -> None:
    """A Kubernetes without nodes, and what names it and helm to tests."""
    with alone():
        programs = binaries.released_kubernetes(pinned("KUBERNETES_OLDEST"))
        etcd = Etcd(folder / "etcd")
        helm = binaries.oldest_helm() / "helm"
    stack.callback(etcd.start().stop)
    server = ApiServer(
        folder / "api", etcd=etcd.endpoint, program=str(programs / "kube-apiserver")
    ).start()
    stack.callback(server.stop)
    kubeconfig = server.kubeconfig()
    asked = (BUILD / "bin" / "kubectl", f"--kubeconfig={kubeconfig}")
    wait_until("the API server is ready", lambda: succeeds(*asked, "get", "--raw", "/readyz"))
    run(*asked, "create", "--filename=-", stdin=json.dumps(NODE))
    controllers = Controllers(
        folder / "controllers",
        program=str(programs / "kube-controller-manager"),
        kubeconfig=str(kubeconfig),
        key=str(server.key),
    ).start()
    stack.callback(controllers.stop)
    own = dict.fromkeys(("KUBECONFIG", release.OWN), str(kubeconfig))
    os.environ |= {"HELM": str(helm), "PROVIDER": "existing", **own}
    print(run(*asked, "version"), run(helm, "version"), sep="", flush=True)


def main(words: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        start(Path(folder), stack)
        release.install()
        command = (sys.executable, "-m", "pytest", "-q", *(words or TESTS))
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
