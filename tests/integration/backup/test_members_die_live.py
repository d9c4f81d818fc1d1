"""The member that streams a snapshot dies or hangs in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backup_orders import at_s3, endpoint, order_for
from etcd_live import BINARIES, Cluster, Member, eventually, fill
from faulty import Faulty, proxied

from etcd_operator.backup import measuring
from etcd_operator.backup import sink as sinks
from etcd_operator.backup import source as sources
from etcd_operator.backup.__main__ import back_up
from etcd_operator.backup.source import Source
from etcd_operator.backup_controllers.jobs import ask_progress
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Stored
from localkube.s3 import S3Server, free_port

pytestmark = pytest.mark.integration

KEYS = 24
"""Of 1 MB each: more than can be on its way while the store takes nothing."""

SILENT_SECONDS = 8.0
"""More than a member takes on a machine that many tests share."""


@pytest.fixture
async def members(data: Path, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    cluster = Cluster(BINARIES / "etcd", data, "token")
    cluster.begin(request.param)
    etcd = await cluster.ready()
    await fill(cluster.first[0], KEYS, 1_000_000)

    async def is_told() -> bool:
        """etcd tells the size of its last commit to the file, up to a moment ago."""
        told = [await etcd.status(cluster.at(member)) for member in cluster.first]
        return all(one.db_size > KEYS * 1_000_000 for one in told)

    await eventually(is_told)
    yield cluster
    for member in cluster.members:
        member.kill()


@pytest.fixture
async def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Faulty]:
    """A store that takes no part of any upload before it is let go."""
    monkeypatch.setattr(sinks, "PART", 5 * 1024 * 1024)
    monkeypatch.setattr(sources, "SILENT_SECONDS", SILENT_SECONDS)
    async with proxied(s3.endpoint) as found:
        found.judge = lambda _, request: "held" if "partNumber" in request.path_qs else None
        yield found


@pytest.fixture
def order(members: Cluster, s3: S3Server, bucket: tuple[str, Path], proxy: Faulty) -> Order:
    return order_for(members, replace(at_s3(s3, bucket[0]), endpoint=proxy.endpoint))


@contextlib.contextmanager
def stopped(member: Member) -> Iterator[None]:
    """As a machine that hangs: its kernel still takes what comes."""
    assert member.process is not None
    member.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, member.process.pid, os.WSTOPPED)  # until then it may still answer
    try:
        yield
    finally:
        member.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def dead(member: Member) -> Iterator[None]:
    member.kill()
    yield


WAYS = {"killed": dead, "hangs": stopped}


async def streaming(
    members: Cluster, order: Order, secret: str, proxy: Faulty, caplog: pytest.LogCaptureFixture
) -> tuple[asyncio.Task[object], Member]:
    """A backup in the middle, and the member that it is from."""
    caplog.set_level("INFO", "etcd_operator.backup.process")
    work = asyncio.create_task(back_up(order, secret=secret))
    async with asyncio.timeout(90):
        await proxy.waits.wait()
    (where,) = [one.args[1] for one in caplog.records if str(one.msg).startswith("taking")]  # type: ignore[index]
    (member,) = [one for one in members.first if endpoint(one) == where]
    return work, member


def visible(folder: Path) -> list[str]:
    return [
        path.name for path in folder.rglob("*") if path.is_file() and ".sgwtmp" not in str(path)
    ]


@pytest.mark.parametrize("members", [3], indirect=True)
@pytest.mark.parametrize("way", WAYS)
async def test_a_backup_switches_to_another_member(
    members: Cluster, order: Order, bucket: tuple[str, Path], secret: str, proxy: Faulty,
    caplog: pytest.LogCaptureFixture, way: str
) -> None:  # fmt: skip
    work, member = await streaming(members, order, secret, proxy, caplog)
    with WAYS[way](member):
        proxy.let_go.set()
        async with asyncio.timeout(90):
            done = await work

    assert isinstance(done, Stored), done
    assert done.size > KEYS * 1_000_000
    assert len(done.notes) == 1
    assert f"{endpoint(member)}: its snapshot" in done.notes[0]
    assert sorted(visible(bucket[1])) == ["etcd.backup", "etcd.backup.manifest.json"]
    assert any(one.startswith("DELETE") for one in proxy.seen), "the upload was called off"


@pytest.mark.parametrize("members", [1], indirect=True)
@pytest.mark.parametrize("way", ["killed", pytest.param("hangs", marks=pytest.mark.verify)])
async def test_if_the_only_member_dies_nothing_is_left_and_the_next_attempt_succeeds(
    members: Cluster, order: Order, bucket: tuple[str, Path], secret: str, proxy: Faulty,
    caplog: pytest.LogCaptureFixture, way: str
) -> None:  # fmt: skip
    work, member = await streaming(members, order, secret, proxy, caplog)
    with WAYS[way](member):
        proxy.let_go.set()
        async with asyncio.timeout(90):
            done = await work

    assert isinstance(done, Failure)
    assert (done.reason, done.final) == ("EtcdUnreachable", False)
    assert f"spec.etcdEndpoints: {endpoint(member)}: its snapshot" in done.message
    assert visible(bucket[1]) == []
    if way == "killed":
        member.start(members.initial_cluster(members.first), members.token, "existing")
    await members.ready()
    assert isinstance(await back_up(order, secret=secret), Stored)


@pytest.mark.parametrize("members", [3, 1], indirect=True)
async def test_a_member_that_hangs_while_hashing_is_skipped_if_there_is_another(
    members: Cluster, order: Order, secret: str, proxy: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had all the time that there is, as nothing of a hash is seen before its end."""
    monkeypatch.setattr(measuring, "SILENT_SECONDS", SILENT_SECONDS)
    proxy.let_go.set()
    caught_up, hanging = Source.caught_up, contextlib.ExitStack()
    hung: list[Member] = []

    async def and_hangs(self: Source, found: sources.Member) -> sources.Member:
        found = await caught_up(self, found)
        if not hung:
            hung.extend(one for one in members.first if endpoint(one) == found.answer.endpoint)
            hanging.enter_context(stopped(hung[0]))
        return found

    monkeypatch.setattr(Source, "caught_up", and_hangs)
    with hanging:
        done = await back_up(replace(order, measure=True, timeout=90), secret=secret)

    said = f"spec.etcdEndpoints: {endpoint(hung[0])}: DEADLINE_EXCEEDED: it has not hashed its keys"
    if len(members.first) > 1:
        assert isinstance(done, Stored), done
        assert [note.partition(" within")[0] for note in done.notes] == [said]
    else:
        assert isinstance(done, Failure), done
        assert (done.reason, done.final) == ("EtcdUnreachable", False)
        assert done.message.startswith(said)


@pytest.mark.parametrize("members", [1], indirect=True)
async def test_progress_and_speed_can_be_queried_during_a_backup(
    members: Cluster, order: Order, secret: str, proxy: Faulty, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(orders, "PROGRESS_PORT", free_port())
    work, _ = await streaming(members, order, secret, proxy, caplog)

    halfway = await ask_progress("127.0.0.1")
    assert halfway is not None
    assert 0 < halfway.stored < KEYS * 1_000_000 < halfway.size
    assert halfway.bytes_per_second > 0

    proxy.let_go.set()
    done = await work
    assert isinstance(done, Stored), done
    assert await ask_progress("127.0.0.1") is None
