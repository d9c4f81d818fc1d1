"""Managed certificates for pods without Kubernetes: made as the operator makes them, in a folder in
the place of a Secret's volume."""

from __future__ import annotations

import json
import ssl
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from worlds import body

from etcd_operator.credentials import signing
from etcd_operator.etcd.api import Identity
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.certificates import CertificateSpec, managed
from etcd_stateful.manifests import tls

CLUSTER = parse_cluster(body(3, TLS={"peer": "Managed", "client": "Managed"}))
NEEDS = {need.secret: need for need in managed(CLUSTER)}
CALLER = "127.0.0.1"
"""Where connections to any loopback address come from."""

HOST = "localhost"
"""A name that every member's certificate has; the pods here have addresses alone."""


@dataclass
class Tls:
    root: Path
    secrets: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for need in managed(CLUSTER):
            self.secrets[need.secret] = self.make(need)

    def make(self, need: CertificateSpec, **how: Any) -> dict[str, bytes]:
        need = replace(need, **how)
        return signing.make(need, self.secrets.get(need.signed_by, {}), time.time())

    def mount(self, folder: Path, address: str, *only: str, **how: Any) -> None:
        """Writes a member's certificates, also over existing ones."""
        for directory in only or ("peer", "server"):
            need = NEEDS[f"c-{directory}-tls"]
            # etcd asks whether a name or address of a peer's certificate leads to the peer.
            addresses = {*need.addresses, address, CALLER}
            files = self.make(need, addresses=tuple(sorted(addresses)), **how)
            (folder / directory).mkdir(exist_ok=True)
            for file, content in files.items():
                (folder / directory / file).write_bytes(content)

    def options(self, folder: Path) -> dict[str, Any]:
        """What the manifest gives `start`, with this folder's paths."""
        text = json.dumps(tls.options(CLUSTER))
        text = text.replace(naming.PEER_TLS, str(folder / "peer"))
        found: dict[str, Any] = json.loads(text.replace(naming.SERVER_TLS, str(folder / "server")))
        return found

    @property
    def identity(self) -> Identity:
        mine = self.secrets["c-operator-tls"]
        return Identity(
            mine["etcd-client-ca.crt"], mine["etcd-client.crt"], mine["etcd-client.key"], HOST
        )

    @cached_property
    def context(self) -> ssl.SSLContext:
        """An application's."""
        mine, file = self.secrets["c-client-tls"], self.root / "application.pem"
        file.write_bytes(mine["tls.key"] + mine["tls.crt"])
        context = ssl.create_default_context(cadata=mine["ca.crt"].decode())
        context.load_cert_chain(file)
        return context
