"""etcd is killed, or hangs, right before each call that a backup makes to it."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import memory
import pytest
from backup_orders import at_s3, endpoint, order_for, restored
from clouds import FULL
from etcd_live import BINARIES, Cluster, Member, fill
from test_members_die_live import WAYS, visible

from etcd_operator.backup import measuring
from etcd_operator.backup import sink as sinks
from etcd_operator.backup import source as sources
from etcd_operator.backup.__main__ import back_up
from etcd_stateful.backup import manifest
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Stored
from localkube.s3 import S3Server

pytestmark = pytest.mark.integration

KEYS = FULL // 1_000_000
SECONDS = 90

CALLS = (
    "Status 1",
    "Range 1",
    "Status 2",
    "HashKV 1",
    "Range 2",
    "Snapshot 1",
    "Status 3",
    "HashKV 2",
)
"""All calls to the only member, in their order. Of three, each is first asked for its status."""

NOT_NEEDED = "HashKV 2"
"""By then the snapshot is stored."""

MAYBE_NOT_NEEDED = "Status 3"
"""By then the rest of a small snapshot may be on its way."""

IN_EVERY_RUN = (("Range 1", "killed"), ("Snapshot 1", "killed"))


def cases() -> list[object]:
    every = [(at, way) for at in CALLS for way in WAYS]
    marks = {one: () if one in IN_EVERY_RUN else (pytest.mark.verify,) for one in every}
    return [pytest.param(*one, marks=marks[one]) for one in every]


class Calls(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Sees the calls to one member before they are sent."""

    def __init__(self, where: str, made: Callable[[str, str], None]) -> None:
        self.where, self.made = where, made

    def _sent(self, onwards: Any, details: Any, request: Any) -> Any:
        self.made(self.where, details.method.rpartition("/")[2])
        return onwards(details, request)

    intercept_unary_unary = intercept_unary_stream = _sent


@dataclass
class Fate:
    """The member that is asked for the first time what `at` says meets its end, in this way."""

    cluster: Cluster
    at: str = ""
    way: str = "killed"
    made: list[str] = field(default_factory=list)
    hit: list[Member] = field(default_factory=list)
    over: ExitStack = field(default_factory=ExitStack)

    def call(self, where: str, name: str) -> None:
        number = Counter(self.made)[name] + 1
        self.made.append(name)
        if f"{name} {number}" == self.at:
            (member,) = [one for one in self.cluster.first if endpoint(one) == where]
            self.hit.append(member)
            self.over.enter_context(WAYS[self.way](member))

    async def mend(self) -> None:
        self.over.close()
        for member in self.hit:
            if member.process is None:
                peers = self.cluster.initial_cluster(self.cluster.first)
                member.start(peers, self.cluster.token, "existing")
        await self.cluster.ready()


@pytest.fixture(scope="module", params=[1, pytest.param(3, marks=pytest.mark.verify)])
def members(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    with memory.folder(tmp_path_factory.mktemp("etcd")) as folder:
        cluster = Cluster(BINARIES / "etcd", folder, "token")
        cluster.begin(request.param)

        async def filled() -> None:
            await cluster.ready()
            await fill(cluster.first[0], KEYS, 1_000_000)

        try:
            asyncio.run(filled())
            yield cluster
        finally:
            for member in cluster.members:
                member.kill()


@pytest.fixture
def fate(members: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fate]:
    """With shorter waits than in the Job, and more than one part."""
    found, opened = Fate(members), sources.open_channels

    def watched(order: Order, where: str) -> Iterator[Any]:
        for channel in opened(order, where):
            yield grpc.intercept_channel(channel, Calls(where, found.call))

    monkeypatch.setattr(sources, "open_channels", watched)
    monkeypatch.setattr(sources, "CATCH_UP_SECONDS", 8.0)
    monkeypatch.setattr(sources, "SILENT_SECONDS", 8.0)
    monkeypatch.setattr(measuring, "SILENT_SECONDS", 8.0)
    monkeypatch.setattr(sinks, "PART", 5 * 1024 * 1024)
    yield found
    asyncio.run(found.mend())


@pytest.fixture
def order(members: Cluster, s3: S3Server, bucket: tuple[str, Path]) -> Order:
    return order_for(members, at_s3(s3, bucket[0]), measure=True, timeout=SECONDS)


def assert_right(done: object, members: Cluster, bucket: Path, tmp_path: Path) -> None:
    """It is all there, and what is said of it is so."""
    assert isinstance(done, Stored), done
    file = bucket / "a" / "etcd.backup"
    assert sorted(visible(bucket)) == [file.name, f"{file.name}.manifest.json"]
    beside = manifest.parse((bucket / "a" / f"{file.name}.manifest.json").read_bytes())
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    assert sha256 == beside.sha256 == done.sha256
    found = restored(members, file, tmp_path)
    assert found["revision"] == done.revision == beside.revision == KEYS + 1
    assert beside.measured is not None
    assert (beside.measured.keys, found["totalKey"]) == (KEYS, KEYS)
    assert beside.measured.hashes


async def test_no_call_of_a_backup_is_left_out(fate: Fate, order: Order, secret: str) -> None:
    assert isinstance(await back_up(order, secret=secret), Stored)

    others = [*CALLS[:1], *["Status"] * (len(order.endpoints) - 1), *CALLS[1:]]
    assert fate.made == [name.partition(" ")[0] for name in others]


@pytest.mark.parametrize(("at", "way"), cases())
async def test_a_member_that_dies_at_any_call_leaves_a_right_backup_or_none(
    members: Cluster, fate: Fate, order: Order, bucket: tuple[str, Path], secret: str, at: str,
    way: str, tmp_path: Path
) -> None:  # fmt: skip
    fate.at, fate.way = at, way
    async with asyncio.timeout(SECONDS + 10):
        done = await back_up(order, secret=secret)

    assert fate.hit, fate.made
    if isinstance(done, Failure):
        assert len(members.first) == 1, done
        assert at != NOT_NEEDED
        assert (done.reason, done.final) == ("EtcdUnreachable", False)
        assert done.message.startswith("spec.etcdEndpoints: ")
        assert endpoint(fate.hit[0]) in done.message
        assert visible(bucket[1]) == []
        await fate.mend()
        done = await back_up(order, secret=secret)
    else:
        assert len(members.first) > 1 or at in (NOT_NEEDED, MAYBE_NOT_NEEDED), done
    assert_right(done, members, bucket[1], tmp_path)
