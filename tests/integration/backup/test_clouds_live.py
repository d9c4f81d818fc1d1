"""The tests of `test_backup_live.py` with the stores of other clouds."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import clouds
import google_front
import pytest
from backup_orders import order_for
from clouds import FULL, Cloud, written
from etcd_live import Cluster
from test_restore_live import Target

from etcd_operator.backup import clients
from etcd_operator.backup import sink as sinks
from etcd_operator.backup import source as sources
from etcd_operator.backup.__main__ import back_up
from etcd_operator.backup.sink import Sink
from etcd_operator.restore.__main__ import run
from etcd_operator.start.journal import Journal
from etcd_stateful.backup import credentials
from etcd_stateful.backup.outcome import Failure, Removed, Stored
from localkube.azure import AzureServer
from localkube.s3 import S3Server

pytestmark = pytest.mark.integration

STORES = ("ABS", "GCS", "OSS")


def faults(*of: int | str, always: tuple[tuple[str, int | str], ...]) -> pytest.MarkDecorator:
    """Each fault in each store. What comes of one in any request is decided by code that all stores
    share: every run has some, `make verify` the others."""
    cases = [
        pytest.param(store, fault, marks=() if (store, fault) in always else pytest.mark.verify)
        for store in STORES
        for fault in of
    ]
    return pytest.mark.parametrize(("cloud", "fault"), cases, indirect=["cloud"])


@pytest.fixture(params=STORES)
async def cloud(
    request: pytest.FixtureRequest, azurite: AzureServer, s3: S3Server, oss: S3Server,
    monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cloud]:  # fmt: skip
    name = "b" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    match request.param:
        case "ABS":
            made = clouds.azure(azurite, name)
        case "GCS":
            made = clouds.google(s3, name)
        case _:
            made = clouds.alibaba(oss, name)
    # These servers listen on loopback, which no Secret may name.
    monkeypatch.setattr(credentials, "address_problem", lambda _: "")
    async with made as found:
        for client in ("_CLIENT", "_READING", "_WRITING"):
            monkeypatch.setattr(clients, client, {**getattr(clients, client), **found.client})
        monkeypatch.setattr(sinks, "PART", 5 * 1024 * 1024)
        backoff = {"init_backoff": timedelta(milliseconds=20)}
        patience = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
        monkeypatch.setattr(clients, "_PATIENT", {**patience, "backoff": backoff})
        yield found


@pytest.fixture
def secret(cloud: Cloud, tmp_path: Path) -> str:
    return written(tmp_path / "secret", cloud.secret)


async def there(cloud: Cloud, key: str) -> bytes | None:
    """What a reader finds under the name."""
    return await Sink(cloud.store, dict(cloud.secret)).get(key, 2**30)


async def test_a_backup_is_uploaded_in_parts_and_restored(
    shared_cluster: Cluster, cloud: Cloud, secret: str, tmp_path: Path
) -> None:
    done = await back_up(order_for(shared_cluster, cloud.store, verify=True), secret=secret)

    assert isinstance(done, Stored), done
    assert done.verified
    file = await there(cloud, "a/etcd.backup")
    assert file is not None
    assert (len(file), hashlib.sha256(file).hexdigest()) == (done.size, done.sha256)
    beside = json.loads(await there(cloud, "a/etcd.backup.manifest.json") or b"")
    assert beside["sha256"] == done.sha256
    writes = [one for one in cloud.proxy.seen if one.startswith(("PUT", "POST"))]
    assert len(writes) >= 4, writes

    new = Target(shared_cluster, tmp_path / "new", tmp_path)
    order = replace(new.order, store=cloud.store)
    journal = Journal(str(new.said), "restore")
    code = await asyncio.to_thread(run, "fetch", order, new.root, journal, secret=secret)
    assert code == 0, new.said.read_text()
    new.etcdutl()
    assert await new.container("finish") == 0
    assert new.marked


async def test_old_backups_are_deleted_and_other_files_are_kept(
    shared_cluster: Cluster, cloud: Cloud, secret: str
) -> None:
    store = replace(cloud.store, key="daily/etcd")
    order = order_for(shared_cluster, store, stamped=True, keep=1)
    sink = Sink(store, dict(cloud.secret))
    old = [f"daily/etcd_v999999_2020-01-0{day}-00:00:00" for day in (1, 2)]
    for key in ("daily/etcd_vegetables", "daily/etcd-a", "daily/etcd_w", "other", *old):
        await sink.put(key, b"of before")

    done = await back_up(order, secret=secret)

    assert isinstance(done, Stored), done
    assert done.notes == ()
    left = ["daily/etcd-a", done.key, f"{done.key}.manifest.json",
            "daily/etcd_vegetables", "daily/etcd_w"]  # fmt: skip
    assert sorted(await sink.names("daily/")) == sorted(left)
    assert sorted(await sink.names("daily/etcd_v")) == sorted(left[1:-1])

    stranger = replace(order, owner_uid="uid-other", action="delete")
    assert await back_up(stranger, secret=secret) == Removed(0)
    assert await back_up(replace(order, action="delete"), secret=secret) == Removed(1)
    if cloud.store.kind == "OSS":
        assert not [one for one in cloud.proxy.seen if "?delete" in one]
    gone = {done.key, f"{done.key}.manifest.json"}
    assert sorted(await sink.names("daily/")) == sorted(set(left) - gone)


async def test_a_damaged_stream_never_gets_the_final_name(
    shared_cluster: Cluster, cloud: Cloud, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(cloud.store, dict(cloud.secret))
    await sink.put("a/etcd.backup", b"of before")
    whole = sources.Source.snapshot

    async def damaged(self: Any, member: Any) -> Any:
        async for piece in whole(self, member):
            yield bytes([piece[0] ^ 4]) + piece[1:]

    monkeypatch.setattr(sources.Source, "snapshot", damaged)
    done = await back_up(order_for(shared_cluster, cloud.store), secret=secret)

    assert isinstance(done, Failure)
    assert done.reason == "SnapshotDamaged"
    assert await sink.names("a/") == ["a/etcd.backup"]
    assert await there(cloud, "a/etcd.backup") == b"of before"


@faults(503, "reset", "lost", always=(("ABS", "lost"), ("GCS", 503)))
async def test_one_failure_of_any_request_is_retried(
    shared_cluster: Cluster, cloud: Cloud, secret: str, fault: int | str
) -> None:
    await back_up(order_for(shared_cluster, cloud.store), secret=secret)
    cloud.proxy.seen.clear()
    await back_up(order_for(shared_cluster, cloud.store), secret=secret)
    requests = len(cloud.proxy.seen)
    assert requests >= 5, cloud.proxy.seen
    for at in range(requests):
        cloud.proxy.seen.clear()
        cloud.proxy.judge = lambda number, _, at=at: fault if number == at else None
        done = await back_up(order_for(shared_cluster, cloud.store), secret=secret)
        if isinstance(done, Failure) and "InvalidBlockList" in done.message:
            # Azure has made the file, the answer was lost, and the client asked for it once more.
            # The file is whole; the Job's next try says so.
            assert (fault, done.final) == ("lost", False)
            done = await back_up(order_for(shared_cluster, cloud.store), secret=secret)
        assert isinstance(done, Stored), (at, cloud.proxy.seen, done)


@faults(500, 403, always=(("ABS", 500), ("OSS", 403)))
async def test_a_lasting_failure_leaves_no_partial_backup(
    shared_cluster: Cluster, cloud: Cloud, secret: str, fault: int
) -> None:
    sink = Sink(cloud.store, dict(cloud.secret))
    await back_up(order_for(shared_cluster, cloud.store), secret=secret)
    cloud.proxy.seen.clear()
    assert isinstance(await back_up(order_for(shared_cluster, cloud.store), secret=secret), Stored)
    assert len(cloud.proxy.seen) >= 5, cloud.proxy.seen
    for at in range(len(cloud.proxy.seen)):
        cloud.proxy.judge = lambda *_: None
        await sink.put("a/etcd.backup", b"of before")
        cloud.proxy.seen.clear()
        cloud.proxy.judge = lambda number, _, at=at: fault if number >= at else None
        done = await back_up(order_for(shared_cluster, cloud.store), secret=secret)
        assert isinstance(done, Failure), (at, cloud.proxy.seen, done)
        assert f"spec.{cloud.store.section}" in done.message
        cloud.proxy.judge = lambda *_: None
        file = await there(cloud, "a/etcd.backup")
        assert file == b"of before" or len(file or b"") > FULL


async def test_a_truncated_response_is_never_taken_for_the_whole_file(
    shared_cluster: Cluster, cloud: Cloud, secret: str
) -> None:
    """Read on where it ended, or refused."""
    done = await back_up(order_for(shared_cluster, cloud.store), secret=secret)
    assert isinstance(done, Stored)
    sink = Sink(cloud.store, dict(cloud.secret))
    cloud.proxy.seen.clear()
    cloud.proxy.judge = lambda number, _: "cut" if number == 0 else None
    read = hashlib.sha256()
    async for piece in sink.read("a/etcd.backup"):
        read.update(piece)

    assert read.hexdigest() == done.sha256

    cloud.proxy.judge = lambda *_: "cut"
    with pytest.raises(clients.StoreFailed) as failed:
        async for _ in sink.read("a/etcd.backup"):
            pass
    assert f"spec.{cloud.store.section}" in str(failed.value)


async def test_write_only_credentials_are_sufficient_for_a_backup(
    shared_cluster: Cluster, cloud: Cloud, secret: str
) -> None:
    cloud.proxy.judge = lambda _, request: 403 if request.method in ("GET", "HEAD") else None

    assert isinstance(await back_up(order_for(shared_cluster, cloud.store), secret=secret), Stored)


class TestBadInput:
    async def failure(
        self, cloud: Cloud, shared_cluster: Cluster, tmp_path: Path, **changed: str
    ) -> str:
        secret = written(tmp_path / "secret", {**cloud.secret, **changed})
        began = asyncio.get_running_loop().time()
        done = await back_up(order_for(shared_cluster, cloud.store), secret=secret)
        assert isinstance(done, Failure)
        assert done.reason == "StoreRefused"
        assert asyncio.get_running_loop().time() - began < 8
        return done.message

    async def test_a_missing_bucket_is_reported(
        self, shared_cluster: Cluster, cloud: Cloud, tmp_path: Path
    ) -> None:
        cloud.store = replace(cloud.store, bucket="nowhere")
        what = "container" if cloud.store.kind == "ABS" else "bucket"
        words = f"spec.{cloud.store.section}.path: there is no {what} 'nowhere'"

        assert words in await self.failure(cloud, shared_cluster, tmp_path)

    async def test_credentials_unknown_to_the_store_are_reported(
        self, shared_cluster: Cluster, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOOGLE_BASE_URL", cloud.proxy.endpoint)
        wrong = {
            "ABS": {"storage-key": "d3Jvbmc="},
            "GCS": {"access-token": "expired"},
            "OSS": {"accessKeySecret": "wrong"},
        }[cloud.store.kind]
        said = await self.failure(cloud, shared_cluster, tmp_path, **wrong)

        assert (
            f"{cloud.store.secret_field}: the credentials in Secret cloud: the store does not"
            in said
        )
        assert not any(value in said for value in (*wrong.values(), *cloud.secret.values()))

    @pytest.mark.parametrize("cloud", ["GCS"], indirect=True)
    async def test_the_key_of_another_google_account_is_reported(
        self, shared_cluster: Cluster, cloud: Cloud, tmp_path: Path
    ) -> None:
        other = google_front.Google("", s3=cloud.proxy.s3, endpoint=cloud.proxy.endpoint)  # type: ignore[attr-defined]
        said = await self.failure(
            cloud, shared_cluster, tmp_path, **{"credentials.json": other.credentials}
        )

        assert "spec.gcs.gcpSecret: the credentials in Secret cloud" in said


@pytest.mark.parametrize("cloud", ["GCS"], indirect=True)
async def test_a_google_access_token_is_sufficient(
    shared_cluster: Cluster, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """coreos's other form of the Secret; it does not say where Google is."""
    monkeypatch.setenv("GOOGLE_BASE_URL", cloud.proxy.endpoint)
    secret = written(tmp_path / "token", {"access-token": google_front.TOKEN})

    assert isinstance(await back_up(order_for(shared_cluster, cloud.store), secret=secret), Stored)
