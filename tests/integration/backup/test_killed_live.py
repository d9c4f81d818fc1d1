"""A backup is killed at any point, without any clean-up: no half-written backup is ever visible."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from backup_orders import at_s3, order_for
from etcd_live import Cluster, fill
from faulty import Faulty, Verdict, proxied
from killed import backing_up

from etcd_operator.backup import sink as sinks
from etcd_operator.backup.__main__ import back_up
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, names, outcome
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Removed, Stored
from localkube.s3 import S3Server

pytestmark = pytest.mark.integration

PART = 5 * 1024 * 1024
MORE = 20
"""MB than can be on their way while the store takes nothing."""

KILLED = -signal.SIGKILL
WAITS_SECONDS = 90
WHOLE = {"etcd.backup", "etcd.backup.manifest.json"}


def seen(folder: Path) -> set[str]:
    """What a list of the backup's folder shows: no unfinished upload."""
    return {path.name for path in (folder / "a").iterdir() if "unfinished" not in path.name}


def staged(folder: Path) -> list[str]:
    return [path.name for path in (folder / "a").iterdir() if "unfinished" in path.name]


def uploads(folder: Path) -> int:
    """In a bucket, that were neither completed nor called off."""
    return len(list((folder / ".sgwtmp" / "multipart").glob("*/*")))


def was_called_off(proxy: Faulty) -> bool:
    """The one upload. What it was by then told of a part may be there all the same, and goes as the
    parts of one that was killed do."""
    (begun,) = [one.partition("uploadId=")[2] for one in proxy.seen if "partNumber=1&" in one]
    return any(one.startswith("DELETE") and one.endswith(begun) for one in proxy.seen)


def speaks_of(folder: Path) -> str:
    """Whose manifest lies beside the file, which is whole in any case."""
    file = (folder / "a" / "etcd.backup").read_bytes()
    assert hashlib.sha256(file[:-32]).digest() == file[-32:]
    text = (folder / "a" / "etcd.backup.manifest.json").read_bytes()
    try:
        beside = manifest.parse(text)
    except manifest.Undecided:
        return "nobody"
    assert beside.sha256 == hashlib.sha256(file).hexdigest()
    return beside.owner_uid


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[Faulty]:
    async with proxied(s3.endpoint) as found:
        yield found


@pytest.fixture
async def order(
    one_member: Cluster, s3: S3Server, bucket: tuple[str, Path], proxy: Faulty,
    monkeypatch: pytest.MonkeyPatch
) -> Order:  # fmt: skip
    """Goes up in two parts."""
    monkeypatch.setattr(sinks, "PART", PART)
    await fill(one_member.first[0], 6, 1_000_000)
    store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
    return order_for(one_member, store, verify=True)


def held_at(request: web.Request, writes: list[int]) -> Verdict:
    """When so many were let through."""
    if request.method == "GET":
        return None
    writes[0] -= 1
    return "held" if writes[0] < 0 else None


async def waits_or_ends(proxy: Faulty, process: Any) -> bool:
    """Whether it has come to the request that is held."""
    both = [asyncio.ensure_future(it()) for it in (proxy.waits.wait, process.wait)]
    async with asyncio.timeout(WAITS_SECONDS):
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    both[0].cancel()
    return proxy.waits.is_set()


async def test_a_backup_killed_before_its_first_write_is_made_by_the_next_attempt(
    one_member: Cluster,
    order: Order,
    bucket: tuple[str, Path],
    secret: str,
    proxy: Faulty,
    tmp_path: Path,
) -> None:
    """Where a backup was before. Nobody sees the parts that are left: a rule of the bucket's ends
    them."""
    folder, word = bucket[1], tmp_path / "word"
    assert isinstance(await back_up(replace(order, owner_uid="old"), secret=secret), Stored)
    found: list[str] = []
    for at in range(20):
        await fill(one_member.first[0], 1)
        begun = uploads(folder)
        proxy.begin_anew()
        proxy.judge = lambda _, request, writes=[at]: held_at(request, writes)
        async with backing_up(order, secret, tmp_path, word, part=PART) as process:
            if not await waits_or_ends(proxy, process):
                assert await process.wait() == 0
                break
        assert not word.exists()
        assert seen(folder) == WHOLE
        assert uploads(folder) <= begun + 1
        found.append(speaks_of(folder))

        proxy.judge = lambda *_: None
        again = replace(order, owner_uid="old")
        assert isinstance(await back_up(again, secret=secret), Stored)
        assert speaks_of(folder) == "old"

    assert found == sorted(found, reverse=True), "first of the old one, then of neither"
    assert set(found) == {"old", "nobody"}
    assert len(found) >= 6, "begun, two parts, the old manifest, the end, the new manifest"
    assert speaks_of(folder) == "uid-b"


@pytest.mark.parametrize(("size", "in_parts"), [(1, False), (PART, False), (PART + 1, True)])
async def test_a_small_backup_that_was_killed_left_parts_in_the_bucket(
    s3: S3Server, bucket: tuple[str, Path], proxy: Faulty, monkeypatch: pytest.MonkeyPatch,
    *, size: int, in_parts: bool
) -> None:  # fmt: skip
    monkeypatch.setattr(sinks, "PART", PART)
    content = os.urandom(size)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, size, sinks.PIECE):
            yield content[at : at + sinks.PIECE]

    store = replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint)
    await sinks.Sink(store, s3.secret).write("a/etcd.backup", pieces())

    assert (bucket[1] / "a" / "etcd.backup").read_bytes() == content
    assert any("upload" in request for request in proxy.seen) is in_parts


async def test_a_stopped_backup_aborts_its_upload_and_reports_it(
    one_member: Cluster,
    order: Order,
    bucket: tuple[str, Path],
    secret: str,
    proxy: Faulty,
    tmp_path: Path,
) -> None:
    await fill(one_member.first[0], MORE, 1_000_000)
    folder, word = bucket[1], tmp_path / "word"
    proxy.judge = lambda _, request: "held" if "partNumber=1" in request.path_qs else None
    async with backing_up(order, secret, tmp_path, word, part=PART) as process:
        assert await waits_or_ends(proxy, process)
        process.send_signal(signal.SIGTERM)
        proxy.let_go.set()
        async with asyncio.timeout(WAITS_SECONDS):
            assert await process.wait() == 1

    failure = outcome.parse(word.read_text()).failure
    assert failure is not None
    assert failure.reason == "Interrupted"
    assert was_called_off(proxy)
    assert not (folder / "a").exists()


async def test_remains_of_a_backup_killed_at_any_write_are_removed_by_the_next_attempt(
    one_member: Cluster, tmp_path: Path
) -> None:
    """Or a few Jobs that were killed would have filled it."""
    await fill(one_member.first[0], 3, 1_000_000)
    order = order_for(one_member, Store("Volume", "claim", "a/etcd.backup"))
    folder, word = tmp_path / "volume", tmp_path / "word"
    (folder / "a").mkdir(parents=True)
    first = replace(order, owner_uid="old-uid-of-another")
    assert isinstance(await back_up(first, root=str(folder)), Stored)
    found: list[str] = []
    most = 0
    for at in range(1, 30):
        await fill(one_member.first[0], 1)
        async with backing_up(order, "", folder, word, part=2**20, effect=at) as process:
            async with asyncio.timeout(WAITS_SECONDS):
                if await process.wait() == 0:
                    break
            assert process.returncode == KILLED
        assert not word.exists()
        assert seen(folder) == WHOLE
        assert len(staged(folder)) <= 2, "of the snapshot, and of a manifest"
        most = max(most, len(staged(folder)))
        found.append(speaks_of(folder))

    assert most > 0
    assert [one for number, one in enumerate(found) if one not in found[:number]] == [
        "old-uid-of-another",
        "nobody",
        "uid-b",
    ]
    assert staged(folder) == []


async def test_deleting_an_etcdbackup_removes_only_its_own_unfinished_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").mkdir()
    mine, others = (names.unfinished("a/etcd", uid, "09af") for uid in ("uid-b", "uid-c"))
    for name in (mine, f"{mine}#1", others):
        (tmp_path / name).touch()
    order = Order("ns/b", "uid-b", (), "", Store("Volume", "claim", "a/etcd"), action="delete")

    assert await back_up(replace(order, scheduled=True), root=str(tmp_path)) == Removed(0)
    assert len(staged(tmp_path)) == 3, "another run of the schedule may write to it"
    assert await back_up(order, root=str(tmp_path)) == Removed(0)
    assert staged(tmp_path) == [Path(others).name]
