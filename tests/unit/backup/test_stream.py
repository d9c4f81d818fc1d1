"""Streaming a snapshot from etcd: complete, in order, and with bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from aetcd import rpc

from etcd_operator.backup import source as sources
from etcd_operator.backup.channel import open_channels
from etcd_operator.backup.process import Backup
from etcd_operator.backup.progress import Meter
from etcd_operator.backup.read_ahead import read_ahead
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.source import Member, Source, Unusable
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.choice import EndpointStatus
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Stored

BLOB = bytes(range(256)) * 128
ORDER = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", Store("S3", "bucket", "key"))
ANSWER = EndpointStatus("etcd:2379", 1, 2, 2, learner=False, revision=3, version="3.7.3", db_size=0)


class Etcd:
    """A member that sends pieces of 32 KiB, and then ends as a test says."""

    def __init__(self) -> None:
        self.blobs, self.left, self.ends = 5, 0, "well"
        self.over = threading.Event()
        method = grpc.unary_stream_rpc_method_handler(self.snapshot)
        handler = grpc.method_handlers_generic_handler(
            "etcdserverpb.Maintenance", {"Snapshot": method}
        )
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        self.server.add_generic_rpc_handlers((handler,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def snapshot(self, _: bytes, context: Any) -> Iterator[bytes]:
        for number in range(self.blobs):
            left = (self.blobs - number - 1) * len(BLOB) + self.left
            reply = rpc.SnapshotResponse(remaining_bytes=left, blob=BLOB)
            yield reply.SerializeToString()
        if self.ends == "stalled":
            self.over.wait(60)
        if self.ends == "cut":
            context.abort(grpc.StatusCode.UNAVAILABLE, "the member is gone")
        if self.ends == "denied":
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")

    def stop(self) -> None:
        self.over.set()
        self.server.stop(None)


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Etcd]:
    monkeypatch.setattr(sources, "PIECE", 2 * len(BLOB))
    found = Etcd()
    yield found
    found.stop()


@contextlib.asynccontextmanager
async def snapshot(etcd: Etcd) -> Any:
    channel = next(open_channels(ORDER, f"http://127.0.0.1:{etcd.port}"))
    with contextlib.closing(channel):
        stream = Source(ORDER).snapshot(Member(ANSWER, channel))
        async with contextlib.aclosing(stream) as pieces:
            yield pieces


class TestSnapshot:
    async def test_every_byte_arrives_once_in_larger_pieces(self, etcd: Etcd) -> None:
        async with snapshot(etcd) as stream:
            pieces = [piece async for piece in stream]

        assert b"".join(pieces) == 5 * BLOB
        assert [len(piece) for piece in pieces] == [65536, 65536, 32768]

    async def test_a_truncated_stream_is_not_a_snapshot(self, etcd: Etcd) -> None:
        etcd.left = 7
        with pytest.raises(Unusable, match="ended its snapshot 7 bytes early"):
            async with snapshot(etcd) as stream:
                _ = [piece async for piece in stream]

    @pytest.mark.parametrize("blobs", [0, 1, 4])
    @pytest.mark.parametrize(
        ("ends", "reason", "words"),
        [
            ("cut", "EtcdUnreachable", "UNAVAILABLE: the member is gone"),
            ("denied", "EtcdRefused", "spec.clientTLSSecret"),
        ],
    )
    async def test_a_stream_that_fails_says_why(
        self, etcd: Etcd, blobs: int, ends: str, reason: str, words: str
    ) -> None:
        etcd.blobs, etcd.ends = blobs, ends
        with pytest.raises(Unusable, match=words) as failed:
            async with snapshot(etcd) as stream:
                _ = [piece async for piece in stream]

        assert failed.value.failure.reason == reason

    @pytest.mark.parametrize("taken", [0, 1, 2])
    async def test_a_member_that_stalls_does_not_block_a_reader_that_stops(
        self, etcd: Etcd, taken: int
    ) -> None:
        """The thread that waits for the member is released at once, wherever it is."""
        etcd.ends = "stalled"

        async def take() -> None:
            async with snapshot(etcd) as stream:
                for _ in range(taken + 3):
                    await anext(stream)

        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await take()

        assert time.monotonic() - began < 30

    @pytest.mark.parametrize("blobs", [0, 3])
    async def test_a_silent_member_is_given_up_and_named(
        self, etcd: Etcd, blobs: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It would use up all the time, and none would be left for another member."""
        monkeypatch.setattr(sources, "SILENT_SECONDS", 1.0)
        etcd.blobs, etcd.ends = blobs, "stalled"
        words = (
            f"etcd:2379: its snapshot sent nothing more for 1 s, after {blobs * len(BLOB)} bytes"
        )
        with pytest.raises(Unusable, match=words) as failed:
            async with snapshot(etcd) as stream:
                _ = [piece async for piece in stream]

        assert failed.value.failure.reason == "EtcdUnreachable"
        assert not failed.value.failure.final

    async def test_a_slow_store_is_not_taken_for_a_silent_member(
        self, etcd: Etcd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sources, "SILENT_SECONDS", 1.5)
        async with snapshot(etcd) as stream:
            pieces = [await anext(stream)]
            await asyncio.sleep(2)
            pieces += [piece async for piece in stream]

        assert b"".join(pieces) == 5 * BLOB


class TestAhead:
    async def test_only_one_piece_is_read_ahead_of_a_slow_reader(self) -> None:
        """Otherwise the whole snapshot would be in memory."""
        read: list[int] = []

        def pieces() -> Iterator[bytes]:
            for number in range(20):
                read.append(number)
                yield b"%d" % number

        most = 0
        async for taken in read_ahead(pieces(), lambda: None):
            await asyncio.sleep(0.002)
            most = max(most, len(read) - int(taken) - 1)

        assert most == 1

    async def test_the_next_piece_is_read_while_one_is_processed(self) -> None:
        turns = threading.Barrier(2, timeout=30)

        def pieces() -> Iterator[bytes]:
            yield b"one"
            turns.wait()
            yield b"two"

        found = []
        async for piece in read_ahead(pieces(), lambda: None):
            if piece == b"one":
                await asyncio.to_thread(turns.wait)
            found.append(piece)

        assert found == [b"one", b"two"]

    async def test_an_error_is_raised_after_all_earlier_pieces(self) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"one"
            raise ValueError("no more")

        stopped = threading.Event()
        async with contextlib.aclosing(read_ahead(pieces(), stopped.set)) as stream:
            assert await anext(stream) == b"one"
            with pytest.raises(ValueError, match="no more"):
                await anext(stream)

        assert stopped.is_set()

    async def test_a_reader_that_stops_early_leaves_no_thread_behind(self) -> None:
        let_go = threading.Event()

        def pieces() -> Iterator[bytes]:
            yield b"one"
            assert let_go.wait(10)
            raise ValueError("called off")

        before = set(threading.enumerate())
        async with contextlib.aclosing(read_ahead(pieces(), let_go.set)) as stream:
            assert await anext(stream) == b"one"

        assert set(threading.enumerate()) <= before


class Members:
    """The members behind a Service. The one that the connection then leads to sends the
    snapshot."""

    def __init__(self) -> None:
        self.asked, self.sends, self.after = 2, 2, grpc.StatusCode.OK
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        asked = grpc.unary_unary_rpc_method_handler
        maintenance = {
            "Status": asked(self.status),
            "Snapshot": grpc.unary_stream_rpc_method_handler(self.snapshot),
        }
        for service, methods in (
            ("Maintenance", maintenance),
            ("KV", {"Range": asked(self.range)}),
        ):
            handler = grpc.method_handlers_generic_handler(f"etcdserverpb.{service}", methods)
            self.server.add_generic_rpc_handlers((handler,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.taken = False

    def _header(self) -> Any:
        member = self.sends if self.taken else self.asked
        return rpc.ResponseHeader(cluster_id=1, member_id=member, revision=7)

    def status(self, _: bytes, context: Any) -> bytes:
        if self.taken and self.after != grpc.StatusCode.OK:
            context.abort(self.after, "connection refused")
        status = rpc.StatusResponse(header=self._header(), leader=9, version="3.7.3")
        return bytes(status.SerializeToString())

    def range(self, _: bytes, __: Any) -> bytes:
        return bytes(rpc.RangeResponse(header=self._header()).SerializeToString())

    def snapshot(self, _: bytes, __: Any) -> Iterator[bytes]:
        self.taken = True
        body = bytes(4096)
        blob = body + hashlib.sha256(body).digest()
        yield rpc.SnapshotResponse(remaining_bytes=0, blob=blob).SerializeToString()


@pytest.fixture
def members() -> Iterator[Members]:
    found = Members()
    yield found
    found.server.stop(None)


class TestSender:
    @staticmethod
    async def run(members: Members, root: Path) -> Stored | Failure:
        store = Store("Volume", "claim", "etcd.db")
        endpoint = f"http://127.0.0.1:{members.port}"
        order = replace(ORDER, store=store, endpoints=(endpoint,))
        return await Backup(order, Sink(store, None, root=str(root)), Meter()).run()

    async def test_a_member_that_was_behind_sent_the_snapshot_requested_from_another(
        self, members: Members, tmp_path: Path
    ) -> None:
        """Between the status request and the snapshot, the connection broke and then led to another
        member. What that member did not have yet was missing in the backup, which was reported to
        contain it."""
        members.sends = 3

        found = await self.run(members, tmp_path)

        assert isinstance(found, Failure)
        assert (found.reason, found.final) == ("EtcdUnreachable", False)
        assert "changed the member behind it" in found.message
        assert not (tmp_path / "etcd.db").exists()

    @pytest.mark.parametrize("after", [grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE])
    async def test_a_member_that_does_not_answer_while_it_sends_does_not_fail_the_backup(
        self, members: Members, tmp_path: Path, after: grpc.StatusCode
    ) -> None:
        members.after = after

        found = await self.run(members, tmp_path)

        assert isinstance(found, Stored)
        assert found.revision == 7
