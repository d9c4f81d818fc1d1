"""A real member whose clients have certificates, as with managed TLS; peers are in plaintext."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from addresses import own_address
from etcd_live import Cluster, eventually

from etcd_operator.credentials import signing
from etcd_operator.etcd.api import Endpoint, Identity
from etcd_operator.etcd.client import GrpcEtcd
from etcd_stateful.certificates import (
    AUTHORITY_FILES,
    OPERATOR_FILES,
    SERVER_FILES,
    CertificateSpec,
)

HOST: Final = "localhost"
CHEAPEST: Final = "4"
"""The lowest bcrypt cost: etcd hashes the password at each login, and here it need not be safe."""

_AUTHORITY: Final = CertificateSpec("authority", "ca", AUTHORITY_FILES, subject="ca")
_SERVER: Final = CertificateSpec(
    "server", "s", SERVER_FILES, (HOST,), serves=True, calls=True, subject="c-server"
)


class Secured:
    """One member, and clients with any common name."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._authority = signing.make(_AUTHORITY, {}, time.time())
        for name, content in signing.make(_SERVER, self._authority, time.time()).items():
            (folder / name).write_bytes(content)
        host = own_address()
        url = f"https://{host}:2379"
        files = SERVER_FILES
        cluster.begin(
            1,
            host,
            listen_client_urls=url,
            advertise_client_urls=url,
            cert_file=str(folder / files.certificate),
            key_file=str(folder / files.key),
            trusted_ca_file=str(folder / files.authority),
            client_cert_auth="true",
            bcrypt_cost=CHEAPEST,
        )

    def at(self, name: str) -> Endpoint:
        """The member's endpoint for a client whose certificate has this common name."""
        need = CertificateSpec("operator", "o", OPERATOR_FILES, calls=True, subject=name)
        made, files = signing.make(need, self._authority, time.time()), OPERATOR_FILES
        shown = Identity(made[files.authority], made[files.certificate], made[files.key], HOST)
        [member] = self._cluster.first
        ids = self._cluster.cluster_id, self._cluster.member_id(member)
        return Endpoint(member.host, *ids, tls=shown)

    async def ready(self) -> GrpcEtcd:
        etcd, at = GrpcEtcd(), self.at("root")

        async def leads() -> bool:
            return (await etcd.status(at)).leader_id != 0

        await eventually(leads)
        return etcd
