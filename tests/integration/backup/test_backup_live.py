"""The entry point of a backup's Job against real etcd and a real S3 server: what it stores."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from backup_orders import at_s3, endpoint, order_for, restored
from etcd_live import Cluster, fill
from faulty import proxied
from minors import NEWEST, OLDEST, differing

from etcd_operator.backup import pruning, surveying
from etcd_operator.backup import sink as sinks
from etcd_operator.backup import source as sources
from etcd_operator.backup.__main__ import back_up
from etcd_stateful.api.stores import CHECKSUMS, Store
from etcd_stateful.backup import manifest
from etcd_stateful.backup import names as stored_names
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.foreign_files import ForeignFiles
from etcd_stateful.backup.outcome import Failure, Removed, Stored
from localkube.s3 import S3Server, free_port

pytestmark = pytest.mark.integration


def with_an_old_one(bucket: tuple[str, Path]) -> str:
    """The bucket's name; there is a backup of an interval in it that is due to be deleted."""
    name, folder = bucket
    (folder / "daily").mkdir()
    (folder / "daily" / "etcd_v9_2020-01-01-00:00:00").write_text("old")
    return name


def deletes(request: web.Request) -> bool:
    return request.method == "DELETE" or "delete" in request.query


@pytest.fixture
async def etcd(cluster: Cluster) -> Cluster:
    """One member with a few hundred keys."""
    cluster.begin(1)
    await cluster.ready()
    await fill(cluster.first[0], 50)
    return cluster


@differing("cluster", OLDEST, NEWEST)
async def test_a_backup_in_s3_can_be_restored_by_etcd(
    etcd: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str, tmp_path: Path
) -> None:
    name, folder = bucket

    done = await back_up(order_for(etcd, at_s3(s3, name)), secret=secret)

    assert isinstance(done, Stored)
    data = (folder / "a" / "etcd.backup").read_bytes()
    assert done.sha256 == hashlib.sha256(data).hexdigest()
    assert done.size == len(data)
    assert done.version.startswith(etcd.minor)
    beside = json.loads((folder / "a" / "etcd.backup.manifest.json").read_text())
    assert beside["sha256"] == done.sha256
    assert beside["clusterID"] == done.cluster_id == f"{etcd.cluster_id:016x}"
    assert (beside["size"], beside["compression"]) == (len(data), "none")
    found = restored(etcd, folder / "a" / "etcd.backup", tmp_path)
    assert found["revision"] == done.revision == beside["etcdRevision"]


async def test_a_backup_of_a_follower_has_every_acknowledged_write(
    cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str, tmp_path: Path
) -> None:
    cluster.begin(3)
    client = await cluster.ready()
    revision = await fill(cluster.first[0], 30)
    dead = f"http://127.0.0.1:{free_port()}"
    order = order_for(cluster, at_s3(s3, bucket[0]))

    async with sources.Source(replace(order, endpoints=(dead, *order.endpoints))) as source:
        members = await source.members()
    leader = endpoint(await cluster.leader(client))
    assert [one.answer.endpoint for one in members].index(leader) == 2
    done = await back_up(replace(order, endpoints=(dead, *order.endpoints)), secret=secret)

    assert isinstance(done, Stored)
    assert done.revision >= revision
    assert restored(cluster, bucket[1] / "a" / "etcd.backup", tmp_path)["revision"] >= revision


async def test_a_large_backup_is_uploaded_in_parts_with_little_memory(
    one_member: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str, tmp_path: Path
) -> None:
    """In a process of its own, as in the Job: 64 MiB must not be 64 MiB of memory."""
    await fill(one_member.first[0], 64, 1_000_000)
    script = tmp_path / "run.py"
    script.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from etcd_operator.backup import __main__ as entry\n"
        "from etcd_operator.job_exit import exit_at_once\n"
        "entry.orders.STORE_FOLDER = entry.back_up.__kwdefaults__['secret'] = sys.argv[1]\n"
        "code = entry.main(os.environ)\n"
        # Not `ru_maxrss`, which begins with that of the process that started this one.
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"
        "exit_at_once(code)\n"
    )
    order = orders.serialise(order_for(one_member, at_s3(s3, bucket[0])))
    environment = {**os.environ, "BACKUP": order, "TERMINATION_LOG": str(tmp_path / "end")}

    run = await asyncio.create_subprocess_exec(
        sys.executable, str(script), secret, env=environment, stdout=-1, stderr=-1
    )
    out, errors = await run.communicate()

    assert run.returncode == 0, errors.decode()
    assert json.loads((tmp_path / "end").read_text())["stored"]["size"] > 60_000_000
    assert int(out) < 128 * 1024, f"{int(out) // 1024} MiB"


async def test_a_backup_is_stored_in_a_volume_and_old_ones_are_deleted(
    shared_cluster: Cluster, tmp_path: Path
) -> None:
    store = Store("Volume", "claim", "daily/etcd")
    order = order_for(shared_cluster, store, stamped=True, keep=1)
    root = tmp_path / "volume"
    (root / "daily").mkdir(parents=True)
    (root / "daily" / "etcd_vegetables").write_text("a neighbour")
    for moment in ("2020-01-01-00:00:00", "2020-01-02-00:00:00"):
        (root / "daily" / f"etcd_v999999_{moment}").write_text("old")

    done = await back_up(order, root=str(root))

    assert isinstance(done, Stored)
    names = sorted(path.name for path in (root / "daily").iterdir())
    mine = done.location.rpartition("/")[2]
    assert names == sorted([mine, f"{mine}.manifest.json", "etcd_vegetables"])


async def test_a_store_that_deletes_slowly_does_not_fail_a_complete_backup(
    etcd: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Old backups were deleted within the time of the new one. It was stored and read back, and
    reported as failed for want of time, for good."""
    monkeypatch.setattr(pruning, "SECONDS", 11)
    name = with_an_old_one(bucket)
    async with proxied(s3.endpoint) as proxy:
        proxy.judge = lambda _, request: "slow" if deletes(request) else None
        store = replace(at_s3(s3, name, "daily/etcd"), endpoint=proxy.endpoint)
        order = order_for(etcd, store, stamped=True, keep=1, timeout=10)
        loop = asyncio.get_running_loop()
        began = loop.time()
        done = await back_up(order, secret=secret)

    assert isinstance(done, Stored), done
    assert loop.time() - began > order.timeout
    assert done.notes == (
        "old backups are still there: the store takes a long time to delete them",
    )


async def test_a_backup_interrupted_after_it_is_complete_reports_success(
    etcd: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    name = with_an_old_one(bucket)
    async with proxied(s3.endpoint) as proxy:
        proxy.judge = lambda _, request: "held" if deletes(request) else None
        store = replace(at_s3(s3, name, "daily/etcd"), endpoint=proxy.endpoint)
        order = order_for(etcd, store, stamped=True, keep=1)
        work = asyncio.create_task(back_up(order, secret=secret))
        await asyncio.wait_for(proxy.waits.wait(), 30)
        os.kill(os.getpid(), signal.SIGTERM)
        done = await asyncio.wait_for(work, 30)
        proxy.let_go.set()

    assert isinstance(done, Stored), done
    assert done.notes == ()


SCHEDULED = "nightly/etcd_2026-11-21-03:00_0123abcd"


async def test_a_scheduled_backup_reports_other_backups_in_the_store(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    name, folder = bucket
    (folder / "nightly").mkdir()
    for path in ("etcd_v7_2020-01-01-00:00:00", "etcd_2026-11-20-03:00_ffffffff", "etcd-b", "e"):
        (folder / "nightly" / path).write_text("of before")
    order = order_for(shared_cluster, at_s3(s3, name, SCHEDULED), scheduled=True)

    done = await back_up(order, secret=secret)

    assert isinstance(done, Stored)
    assert done.others is not None
    found = {item.rest: item.size for item in done.others.newest}
    assert found == {"_v7_2020-01-01-00:00:00": 9, "_2026-11-20-03:00_ffffffff": 9}
    assert (done.others.count, done.others.partial) == (2, False)
    once = await back_up(replace(order, scheduled=False), secret=secret)
    assert isinstance(once, Stored)
    assert once.others is None


async def test_a_backup_exactly_at_the_path_of_a_schedule_was_not_found_in_a_bucket(
    s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    """A bucket lists what comes after a name."""
    name, folder = bucket
    (folder / "nightly").mkdir()
    (folder / "nightly" / "etcd").write_text("by hand")
    sink = sinks.Sink(at_s3(s3, name), sinks.read_secret(secret))

    found = await surveying.survey(sink, SCHEDULED)

    assert found is not None
    assert [(one.rest, one.size) for one in found.newest] == [("", 7)]


async def test_a_finished_run_is_not_stored_again_by_a_restored_etcdbackup(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    """A namespace that was restored with its EtcdBackups, and without their statuses, stored the
    cluster of today under the names of all its history."""
    name, folder = bucket
    order = order_for(shared_cluster, at_s3(s3, name, SCHEDULED), scheduled=True)
    assert isinstance(await back_up(order, secret=secret), Stored)
    stored, beside = folder / SCHEDULED, folder / stored_names.manifest_of(SCHEDULED)
    before = (stored.stat().st_mtime_ns, beside.read_text())

    again = await back_up(replace(order, owner_uid="of another object"), secret=secret)

    assert isinstance(again, Failure)
    assert (again.reason, again.final) == ("AlreadyStored", True)
    assert f"{SCHEDULED} is the backup that {order.owner} (UID {order.owner_uid})" in again.message
    assert (stored.stat().st_mtime_ns, beside.read_text()) == before
    assert isinstance(await back_up(order, secret=secret), Stored)


async def test_a_store_that_cannot_be_listed_is_not_overwritten(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    """Any failure to look was taken for nothing being there, and the day's backup was replaced."""
    name, folder = bucket
    store = at_s3(s3, name, SCHEDULED)
    order = order_for(shared_cluster, store, scheduled=True)
    assert isinstance(await back_up(order, secret=secret), Stored)
    before = (folder / SCHEDULED).stat().st_mtime_ns
    other = replace(order, owner_uid="of another object")
    async with proxied(s3.endpoint) as proxy:
        proxy.judge = lambda _, request: (
            503 if "manifest.json" in request.path and request.method == "GET" else None
        )
        behind = replace(other, store=replace(store, endpoint=proxy.endpoint))
        unsaid = await back_up(behind, secret=secret)
    beside = folder / stored_names.manifest_of(SCHEDULED)
    beside.write_text('{"format": 9, "compression": "none"}')
    garbled = await back_up(other, secret=secret)

    assert isinstance(unsaid, Failure)
    assert (unsaid.reason, unsaid.final) == ("StoreUnreachable", False)
    assert isinstance(garbled, Failure)
    assert (garbled.reason, garbled.final) == ("AlreadyStored", True)
    assert (folder / SCHEDULED).stat().st_mtime_ns == before


async def test_the_last_page_of_a_list_is_read_too(
    s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    """The coreos operator read one page, of a thousand."""
    name, folder = bucket
    (folder / "daily").mkdir()
    keys = [f"daily/etcd_v{number}_2020-01-01-00:00:00" for number in range(2100)]
    for key in keys:
        (folder / key).touch()
    sink = sinks.Sink(at_s3(s3, name), sinks.read_secret(secret))

    assert sorted(await sink.names("daily/etcd_v")) == sorted(keys)
    found = await surveying.survey(sink, "daily/2026-11-21-03:00_0123abcd")
    assert found is not None
    assert (found.count, found.partial) == (2100, False)


@pytest.mark.parametrize("checksum", ["", *CHECKSUMS])
async def test_each_upload_has_the_configured_checksum(
    s3: S3Server, bucket: tuple[str, Path], secret: str, checksum: str
) -> None:
    """Some stores require one, and others refuse those that they do not know."""
    name, folder = bucket
    content = os.urandom(2 * sinks.PART + 1)
    sent: list[dict[str, str]] = []

    def judge(_: int, request: web.Request) -> None:
        if request.method == "PUT":
            kept = ((key.lower(), value) for key, value in request.headers.items())
            sent.append({key: value for key, value in kept if key.startswith("x-amz-checksum-")})

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield content

    async with proxied(s3.endpoint) as proxy:
        proxy.judge = judge
        store = replace(at_s3(s3, name), endpoint=proxy.endpoint, checksum=checksum)
        sink = sinks.Sink(store, sinks.read_secret(secret))
        await sink.write("large", pieces())
        await sink.put("small", b"manifest")

    assert ((folder / "large").read_bytes(), (folder / "small").read_bytes()) == (
        content,
        b"manifest",
    )
    header = f"x-amz-checksum-{checksum.lower()}"
    assert len(sent) == 4, "three parts, and what is sent at once"
    assert all(set(one) == ({header} if checksum else set()) for one in sent)
    if checksum == "SHA256":
        digest = base64.b64encode(hashlib.sha256(b"manifest").digest()).decode()
        assert sent[-1][header] == digest


async def test_a_slow_or_large_bucket_does_not_delay_a_backup(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Nor does one that may not be listed."""
    name, folder = bucket
    (folder / "nightly").mkdir()
    (folder / "nightly" / "etcd_v7_2020-01-01-00:00:00").write_text("of before")
    async with proxied(s3.endpoint) as proxy:
        store = replace(at_s3(s3, name, SCHEDULED), endpoint=proxy.endpoint)
        order = order_for(shared_cluster, store, scheduled=True)
        listings = "prefix=nightly%2F&"
        for verdict, seconds, other in (
            ("slow", 0.5, ForeignFiles(0, partial=True)),
            (403, 30, None),
        ):
            monkeypatch.setattr(surveying, "SECONDS", seconds)
            proxy.judge = lambda _, request, verdict=verdict: (
                verdict if listings in f"{request.rel_url.raw_query_string}&" else None
            )
            done = await back_up(order, secret=secret)
            assert isinstance(done, Stored)
            assert (done.others, done.notes) == (other, ())
        proxy.judge = lambda *_: None
        monkeypatch.setattr(surveying, "MOST_LOOKED_AT", 1)
        done = await back_up(order, secret=secret)

    assert isinstance(done, Stored)
    assert done.others is not None
    assert done.others.partial


async def test_files_of_another_etcdbackup_are_not_deleted(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    """Of the same path, and by the same name: the UID tells them apart."""
    name, folder = bucket
    interval = order_for(shared_cluster, at_s3(s3, name, "daily/etcd"), stamped=True)
    once = order_for(shared_cluster, at_s3(s3, name, "once"))
    assert isinstance(await back_up(interval, secret=secret), Stored)
    assert isinstance(await back_up(once, secret=secret), Stored)
    (folder / "daily" / "etcd_v7_2020-01-01-00:00:00").write_text("without a manifest")
    before = sorted(path.name for path in folder.rglob("*") if path.is_file())

    for order in (interval, once):
        other = replace(order, owner_uid="uid-other", action="delete")
        assert await back_up(other, secret=secret) == Removed(0)
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == before

    for order in (interval, once):
        assert await back_up(replace(order, action="delete"), secret=secret) == Removed(1)
        assert await back_up(replace(order, action="delete"), secret=secret) == Removed(0)
    left = [path.name for path in folder.rglob("*") if path.is_file()]
    assert left == ["etcd_v7_2020-01-01-00:00:00"]


@pytest.mark.parametrize("fault", ["flipped", "truncated"])
async def test_a_damaged_stream_never_gets_the_final_name(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str,
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:  # fmt: skip
    """A file that already has that name is kept."""
    name, folder = bucket
    (folder / "a").mkdir()
    (folder / "a" / "etcd.backup").write_text("of before")
    whole = sources.Source.snapshot

    async def damaged(self: Any, member: Any) -> Any:
        async for piece in whole(self, member):
            changed = bytearray(piece)
            changed[1000] ^= 4
            yield bytes(changed) if fault == "flipped" else piece[:-512]

    monkeypatch.setattr(sources.Source, "snapshot", damaged)

    done = await back_up(order_for(shared_cluster, at_s3(s3, name)), secret=secret)

    assert isinstance(done, Failure)
    assert done.reason == "SnapshotDamaged"
    assert (folder / "a" / "etcd.backup").read_text() == "of before"
    assert not (folder / "a" / "etcd.backup.manifest.json").exists()


async def test_a_file_that_reads_back_differently_is_no_backup(
    shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    name, folder = bucket
    order = order_for(shared_cluster, at_s3(s3, name), verify=True)
    before = await back_up(order, secret=secret)
    assert isinstance(before, Stored)
    assert before.verified

    whole = sinks.Sink.write

    async def rotten(self: Any, key: str, pieces: Any) -> None:
        await whole(self, key, pieces)
        file = folder / key
        content = bytearray(file.read_bytes())
        content[4096] ^= 1
        file.write_bytes(content)

    monkeypatch.setattr(sinks.Sink, "write", rotten)
    done = await back_up(order, secret=secret)
    assert isinstance(done, Failure)
    assert done.reason == "VerificationFailed"
    assert "spec.s3.path" in done.message
    # It has taken the place of the one before. No manifest vouches for it, and no restore takes it.
    data = (folder / "a" / "etcd.backup").read_bytes()
    assert hashlib.sha256(data[:-32]).digest() != data[-32:]
    marked = manifest.undecided("uid-b", before.cluster_id)
    assert (folder / "a" / "etcd.backup.manifest.json").read_bytes() == marked
    removed = await back_up(replace(order, action="delete"), secret=secret)
    assert removed == Removed(1)
