"""What an upload that fails leaves behind: nothing that still reads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from etcd_operator.backup import sink as sinks
from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.sink import Sink
from etcd_stateful.api.stores import Store

FULL = OSError("No space left on device")


class Upload:
    """A store's client that fails, or is cancelled, while it reads the next piece. Like obstore, it
    then forgets that it reads."""

    def __init__(self) -> None:
        self.pieces: AsyncIterator[bytes] | None = None
        self.read: list[bytes] = []
        self.reading: asyncio.Future[bytes] | None = None
        self.reads_on, self.hangs = True, False
        self.after: Callable[[], None] | None = None

    async def put_async(self, _: Any, __: str, pieces: AsyncIterator[bytes], **___: Any) -> None:
        self.pieces = pieces
        self.read += [await anext(pieces), await anext(pieces)]
        if self.reads_on:
            self.reading = asyncio.ensure_future(anext(pieces))
            await asyncio.wait([self.reading], timeout=0.005)
        if self.hangs:
            await asyncio.Event().wait()
        if self.after:
            asyncio.get_running_loop().call_later(0.005, self.after)
        raise FULL


class Snapshot:
    """Pieces that come from a generator inside another one, as those of a backup do."""

    def __init__(self) -> None:
        self.sends, self.open = asyncio.Event(), 0
        self.last: Exception | None = None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            async with contextlib.aclosing(self._received()) as received:
                async for piece in received:
                    yield piece
        finally:
            self.open -= 1

    async def _received(self) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            yield b"first"
            yield b"second"
            await self.sends.wait()
            if self.last:
                raise self.last
            yield b"third"
        finally:
            await asyncio.sleep(0)
            self.open -= 1


@pytest.fixture
def upload(monkeypatch: pytest.MonkeyPatch) -> Upload:
    found = Upload()
    monkeypatch.setattr(sinks.obstore, "put_async", found.put_async)
    monkeypatch.setattr(sinks, "PART", 8)
    monkeypatch.setattr(sinks, "STOP_SECONDS", 0.02)
    return found


def sink() -> Sink:
    return Sink(Store("S3", "bucket", "etcd.db"), None)


@pytest.mark.parametrize("then", ["silence", "a piece", "an error", "no read"])
async def test_a_failed_upload_left_its_pieces_to_the_garbage_collector(
    upload: Upload, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closed them in any order, and while one of them was still being read: "asynchronous
    generator is already running"."""
    if then != "silence":
        monkeypatch.setattr(sinks, "STOP_SECONDS", 10)  # the piece comes, however slow this is
    upload.reads_on, complaints = then != "no read", list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    snapshot = Snapshot()
    snapshot.last = ValueError("too late to matter") if then == "an error" else None
    if then != "silence":
        upload.after = snapshot.sends.set

    with pytest.raises(StoreFailed, match="the store is full"):
        async with asyncio.timeout(10):
            await sink().write("etcd.db", snapshot.pieces())

    assert upload.read == [b"first", b"second"]
    assert snapshot.open == 0, "it is closed before anyone hears of the failure"
    if upload.reading:
        await asyncio.wait([upload.reading])
    assert len(asyncio.all_tasks()) == 1
    assert complaints == []


async def test_a_cancelled_upload_left_its_pieces_to_the_garbage_collector(upload: Upload) -> None:
    upload.hangs, snapshot = True, Snapshot()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await sink().write("etcd.db", snapshot.pieces())

    assert snapshot.open == 0


async def test_an_upload_that_is_over_cannot_be_completed_with_what_was_read(
    upload: Upload,
) -> None:
    """The client may read once more before it notices. If the pieces just ended, it would store
    what it has as if that were all."""
    with pytest.raises(StoreFailed):
        await sink().write("etcd.db", Snapshot().pieces())

    assert upload.pieces is not None
    with pytest.raises(asyncio.CancelledError):
        await anext(upload.pieces)


async def test_a_snapshot_that_breaks_off_is_reported_with_its_own_error(upload: Upload) -> None:
    """Not with the one that the client makes of it."""
    snapshot = Snapshot()
    snapshot.last = ValueError("the member is gone")
    snapshot.sends.set()

    with pytest.raises(ValueError, match="the member is gone"):
        await sink().write("etcd.db", snapshot.pieces())

    assert upload.reading is not None
    assert isinstance(upload.reading.exception(), ValueError)
    assert snapshot.open == 0
