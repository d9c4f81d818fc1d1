"""Makes a certificate authority, and a certificate for each component, with openssl."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from localkube.addresses import chosen, in_url
from localkube.paths import PKI
from localkube.shell import run

ADMINS = "system:masters"
API_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
DAYS = "3650"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    name: str

    @property
    def certificate(self) -> Path:
        return PKI / f"{self.name}.crt"

    @property
    def key(self) -> Path:
        return PKI / f"{self.name}.key"


CA = Pair("ca")
SERVICE_ACCOUNTS = Pair("service-accounts")


def authority() -> None:
    """Makes the authority, which is kept as long as the cluster's data."""
    PKI.mkdir(mode=0o700, parents=True, exist_ok=True)
    for pair in (CA, SERVICE_ACCOUNTS):
        if not pair.certificate.exists():
            _request(pair, f"/CN={pair.name}")


def issue(name: str, user: str, group: str = "", addresses: tuple[str, ...] = ()) -> Pair:
    """A certificate for servers and clients, with the user's name and the server's addresses."""
    pair = Pair(name)
    if not pair.certificate.exists():
        subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
        names = ",".join(map(_alternative, addresses))
        extra = ["-addext", f"subjectAltName={names}"] if names else []
        _request(pair, subject, "-CA", CA.certificate, "-CAkey", CA.key, *extra)
    return pair


def kubeconfig(path: Path, pair: Pair) -> Path:
    """A self-contained kubeconfig, which can be copied anywhere."""
    cluster = {"server": api_server(), "certificate-authority-data": _data(CA.certificate)}
    user = {
        "client-certificate-data": _data(pair.certificate),
        "client-key-data": _data(pair.key),
    }
    return write_kubeconfig(path, "local", cluster, pair.name, user)


def write_kubeconfig(
    path: Path, name: str, cluster: dict[str, str], user_name: str, user: dict[str, str]
) -> Path:
    """Writes a kubeconfig with one context; `cluster` and `user` have kubectl's fields."""
    text = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": user_name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user_name}}],
            "current-context": name,
        },
        indent=2,
    )
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def api_server() -> str:
    return f"https://{in_url(chosen().control)}:6443"


def _request(pair: Pair, subject: str, *extra: str | Path) -> None:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    unfinished = pair.certificate.with_suffix(".new")
    files = ("-keyout", pair.key, "-out", unfinished)
    run("openssl", "req", "-x509", *curve, "-days", DAYS, "-subj", subject, *files, *extra)
    unfinished.rename(pair.certificate)


def _alternative(name: str) -> str:
    return f"IP:{name}" if name[0].isdigit() or ":" in name else f"DNS:{name}"


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
