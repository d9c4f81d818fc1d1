"""A store with a certificate from a private authority: storing and reading, and the message if it
is not trusted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from backup_orders import order_for
from clouds import written
from etcd_live import Cluster
from test_restore_live import Target

from etcd_operator.backup.__main__ import back_up
from etcd_operator.credentials import signing
from etcd_operator.restore.__main__ import run
from etcd_operator.start.journal import Journal
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.outcome import Described, Failure, Removed, Stored
from etcd_stateful.certificates import APPLICATION_FILES, AUTHORITY_FILES, CertificateSpec
from localkube.s3 import S3Server

pytestmark = pytest.mark.integration

BUCKET = "private"
SOON = 8
"""Seconds in which it is said."""


class Private(NamedTuple):
    server: S3Server
    authority: str
    """Folders with the content of Secrets, as the pod finds them."""
    another: str

    @property
    def store(self) -> Store:
        place = Store("S3", BUCKET, "a/etcd.backup", "aws", self.server.endpoint, path_style=True)
        return replace(place, ca_secret="minio-ca")


def authority(name: str) -> dict[str, bytes]:
    return signing.make(
        CertificateSpec("authority", name, AUTHORITY_FILES, subject=name), {}, time.time()
    )


def mounted(folder: Path, secret: dict[str, bytes]) -> str:
    return written(folder, {"ca.crt": secret["ca.crt"].decode()})


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    folder = tmp_path_factory.mktemp("private")
    ours, another = authority("ours"), authority("another")
    need = CertificateSpec(
        "server", "tls", APPLICATION_FILES, addresses=("127.0.0.1",), serves=True
    )
    shown = signing.make(replace(need, signed_by="ours", subject="minio"), ours, time.time())
    files = folder / "tls.crt", folder / "tls.key"
    for file in files:
        file.write_bytes(shown[file.name])
    server = S3Server(folder / "s3", certificate=files).start()
    server.bucket(BUCKET)
    yield Private(server, mounted(folder / "ours", ours), mounted(folder / "another", another))
    server.stop()


@pytest.fixture
def secret(private: Private, tmp_path: Path) -> str:
    return written(tmp_path / "aws", private.server.secret)


async def test_a_backup_to_a_store_with_a_private_ca_can_be_restored(
    shared_cluster: Cluster, private: Private, secret: str, tmp_path: Path
) -> None:
    of = {"name": "c", "spec": {"size": 1}}
    order = replace(order_for(shared_cluster, private.store, verify=True), cluster=of)
    folders: dict[str, Any] = {"secret": secret, "ca": private.authority}

    done = await back_up(order, **folders)

    assert isinstance(done, Stored), done
    assert done.verified
    file = private.server.folder / "data" / BUCKET / "a" / "etcd.backup"
    assert file.stat().st_size == done.size
    described = await back_up(replace(order, action="describe"), **folders)
    assert isinstance(described, Described), described

    new = Target(shared_cluster, tmp_path / "new", tmp_path)
    fetch = "fetch", replace(new.order, store=private.store), new.root
    journal = Journal(str(new.said), "restore")
    assert await asyncio.to_thread(run, *fetch, journal, **folders) == 0, new.said.read_text()
    new.etcdutl()
    assert await new.container("finish") == 0

    assert await back_up(replace(order, action="delete"), **folders) == Removed(1)
    assert not file.exists()


async def test_public_cas_are_trusted_beside_a_private_one(
    shared_cluster: Cluster, private: Private, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that opens connections may be there one day and gone the next."""
    monkeypatch.setenv("SSL_CERT_FILE", f"{private.authority}/ca.crt")

    done = await back_up(
        order_for(shared_cluster, private.store), secret=secret, ca=private.another
    )

    assert isinstance(done, Stored), done


class TestWhatIsNotTrusted:
    """Told by its field, in words, and at once."""

    async def failure(self, shared_cluster: Cluster, store: Store, secret: str, ca: str) -> Failure:
        began = asyncio.get_running_loop().time()
        done = await back_up(order_for(shared_cluster, store), secret=secret, ca=ca)
        assert asyncio.get_running_loop().time() - began < SOON
        assert isinstance(done, Failure), done
        return done

    async def test_a_private_ca_without_a_ca_secret_is_reported(
        self, shared_cluster: Cluster, private: Private, secret: str
    ) -> None:
        store = replace(private.store, ca_secret="")

        failure = await self.failure(shared_cluster, store, secret, private.authority)

        assert failure.reason == "StoreUnreachable"
        assert failure.message == (
            f"spec.s3.caSecret: the certificate of {store.endpoint} is not signed by a public "
            "authority; name a Secret with its own as ca.crt"
        )

    async def test_a_restore_reports_a_private_ca_with_its_own_field(
        self, shared_cluster: Cluster, private: Private, secret: str, tmp_path: Path
    ) -> None:
        new = Target(shared_cluster, tmp_path / "new", tmp_path)
        order = replace(new.order, store=replace(private.store, ca_secret=""))
        journal = Journal(str(new.said), "restore")

        code = await asyncio.to_thread(run, "fetch", order, new.root, journal, secret=secret)

        assert code == 1
        assert "spec.bootstrap.restore.s3.caSecret: the certificate of" in new.said.read_text()

    async def test_the_ca_of_another_store_is_reported(
        self, shared_cluster: Cluster, private: Private, secret: str
    ) -> None:
        failure = await self.failure(shared_cluster, private.store, secret, private.another)

        assert failure.message == (
            f"spec.s3.caSecret: the certificate of {private.store.endpoint} is signed neither by "
            "Secret minio-ca nor by a public authority"
        )

    async def test_a_missing_secret_is_reported(
        self, shared_cluster: Cluster, private: Private, secret: str, tmp_path: Path
    ) -> None:
        failure = await self.failure(
            shared_cluster, private.store, secret, str(tmp_path / "nothing")
        )

        assert failure.reason == "InvalidSecret"
        assert "spec.s3.caSecret: Secret minio-ca: it has no key ca.crt" in failure.message

    async def test_a_certificate_for_another_name_is_reported(
        self, shared_cluster: Cluster, private: Private, secret: str
    ) -> None:
        elsewhere = f"https://localhost:{private.server.port}"
        store = replace(private.store, endpoint=elsewhere)

        failure = await self.failure(shared_cluster, store, secret, private.authority)

        assert f"spec.s3.endpoint: {elsewhere}: its certificate is not" in failure.message
        assert "NotValidForName" in failure.message
