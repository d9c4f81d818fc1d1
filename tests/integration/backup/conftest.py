"""Real store servers, and real etcd of each minor on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "etcd")]

import clouds
import memory
import minors
from etcd_live import BINARIES, Cluster, fill, started

from etcd_operator.backup import __main__ as entry
from localkube.azure import AzureServer
from localkube.s3 import S3Server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    server = AzureServer(tmp_path_factory.mktemp("azure")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def oss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("oss")
    server = S3Server(folder, region=clouds.OSS_REGION, domain=clouds.OSS_HOST).start()
    yield server
    server.stop()


@pytest.fixture(params=minors.EACH)
def cluster(request: pytest.FixtureRequest, data: Path) -> Iterator[Cluster]:
    with started(request.param, data, f"token-{request.param}") as found:
        yield found


@pytest.fixture
def bucket(s3: S3Server, request: pytest.FixtureRequest) -> tuple[str, Path]:
    name = "b" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    return name, s3.bucket(name)


@pytest.fixture
def secret(s3: S3Server, tmp_path: Path) -> str:
    folder = tmp_path / "secret"
    folder.mkdir()
    for key, content in s3.secret.items():
        (folder / key).write_text(content)
    return str(folder)


@pytest.fixture
async def one_member(data: Path) -> AsyncIterator[Cluster]:
    """A cluster of the newest minor, for tests that do not depend on the minor."""
    cluster = Cluster(BINARIES / "etcd", data, "token")
    cluster.begin(1)
    await cluster.ready()
    await fill(cluster.first[0], 50)
    yield cluster
    cluster.first[0].kill()


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of the newest minor that all tests share which only read it. Its data makes two
    parts of an upload."""
    with memory.folder(tmp_path_factory.mktemp("etcd")) as folder:
        cluster = Cluster(BINARIES / "etcd", folder, "token")
        cluster.begin(1)

        async def filled() -> None:
            await cluster.ready()
            await fill(cluster.first[0], clouds.FULL // 1_000_000, 1_000_000)

        try:
            asyncio.run(filled())
            yield cluster
        finally:
            cluster.first[0].kill()


@pytest.fixture(autouse=True)
def any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any free port for the progress, as tests may run at the same time."""
    monkeypatch.setattr(entry.orders, "PROGRESS_PORT", 0)
