"""Reading from a store: piece by piece, with one piece read ahead."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from etcd_operator.backup import clients
from etcd_operator.backup import sink as sinks
from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.describing import describe
from etcd_operator.backup.download import download
from etcd_operator.backup.removal import remove
from etcd_operator.backup.sink import Sink
from etcd_operator.credentials import signing
from etcd_operator.restore import fetch as fetching
from etcd_stateful.api.stores import CHECKSUMS, Store
from etcd_stateful.backup import names
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Removed
from etcd_stateful.certificates import AUTHORITY_FILES, CertificateSpec
from etcd_stateful.start.configuration import Settings

KEY = "etcd.db"
PIECE = 8192


def _reply(status: bytes, text: bytes) -> bytes:
    kind = b"Content-Type: application/xml\r\nConnection: close"
    length = b"Content-Length: %d" % len(text)
    return b"\r\n".join((b"HTTP/1.1 " + status, kind, length, b"", text))


def _list(content: str) -> bytes:
    words = f"<ListBucketResult><Name>bucket</Name>{content}</ListBucketResult>"
    return _reply(b"200 OK", words.encode())


MODIFIED = "<LastModified>2026-01-01T00:00:00Z</LastModified>"
NOTHING_LISTED = _list("")
UNLISTED = _list(f"<Contents><Key>folder//x</Key><Size>1</Size>{MODIFIED}</Contents>")
NO_BUCKET = _reply(b"404 Not Found", b"<Error><Code>NoSuchBucket</Code></Error>")


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    monkeypatch.setattr(sinks, "PIECE", PIECE)
    return Sink(Store("Volume", "claim", KEY), None, root=str(tmp_path))


async def read(sink: Sink) -> list[bytes]:
    return [bytes(piece) async for piece in sink.read(KEY)]


@pytest.mark.parametrize("size", [0, 1, PIECE, 10 * PIECE - 1, 10 * PIECE + 1])
async def test_every_byte_is_read_once_and_in_order(sink: Sink, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / KEY).write_bytes(content)

    pieces = await read(sink)

    assert b"".join(pieces) == content
    assert all(len(piece) >= PIECE for piece in pieces[:-1])


async def test_only_one_piece_is_read_ahead(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a backup of any size would be in memory."""
    (tmp_path / KEY).write_bytes(bytes(50 * PIECE))
    asked, real = [], anext

    def counted(stream: Any, *otherwise: Any) -> Any:
        asked.append(1)
        return real(stream, *otherwise)

    monkeypatch.setattr(sinks, "anext", counted, raising=False)
    taken, ahead = 0, set()
    async for _ in sink.read(KEY):
        await asyncio.sleep(0.001)
        taken += 1
        ahead.add(len(asked) - taken)

    assert taken > 1
    assert ahead == {1}


async def test_a_file_that_is_replaced_while_it_is_read_is_not_mixed_with_the_new_one(
    sink: Sink, tmp_path: Path
) -> None:
    """An interval writes to the same path."""
    content = os.urandom(50 * PIECE)
    (tmp_path / KEY).write_bytes(content)
    async with contextlib.aclosing(sink.read(KEY)) as pieces:
        found = [bytes(await anext(pieces))]
        (tmp_path / "new").write_bytes(bytes(len(content)))
        (tmp_path / "new").rename(tmp_path / KEY)
        found += [bytes(piece) async for piece in pieces]

    assert b"".join(found) == content


async def test_a_file_is_written_and_checked_piece_by_piece(sink: Sink, tmp_path: Path) -> None:
    content = os.urandom(512 * 20)
    content += hashlib.sha256(content).digest()
    (tmp_path / KEY).write_bytes(content)
    with (tmp_path / "copy").open("wb") as file:
        checked = await download(sink, KEY, file, len(content))

    assert (tmp_path / "copy").read_bytes() == content
    assert checked.finish() == hashlib.sha256(content).hexdigest()


async def test_folders_created_for_a_backup_were_not_synced_to_disk_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that lost power lost them, and with them what the status reported as stored."""
    key, synced, real = "of/this/cluster/etcd.db", list[str](), sinks.fsync

    def kept(path: Path) -> None:
        synced.append(os.path.relpath(path, tmp_path))
        real(path)

    monkeypatch.setattr(sinks, "fsync", kept)
    await Sink(Store("Volume", "claim", key), None, root=str(tmp_path)).put(key, b"manifest")

    assert (tmp_path / key).read_bytes() == b"manifest"
    assert synced[0].endswith(names.UNFINISHED)
    assert synced[1:] == ["of/this/cluster", "of/this", "of", "."]


@pytest.fixture
def full() -> Iterator[BinaryIO]:
    with Path("/dev/full").open("wb", buffering=0) as file:
        yield file


async def test_a_full_disk_is_reported_at_once(sink: Sink, tmp_path: Path, full: BinaryIO) -> None:
    (tmp_path / KEY).write_bytes(bytes(50 * PIECE))
    with pytest.raises(OSError, match="No space"):
        await download(sink, KEY, full, 50 * PIECE)


def made_clients(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options with which each S3 client is created from now on."""
    made: list[dict[str, Any]] = []
    real = clients.S3Store

    def kept(bucket: str, **options: Any) -> Any:
        made.append(options)
        return real(bucket, **options)

    monkeypatch.setattr(clients, "S3Store", kept)
    return made


async def test_a_job_made_before_the_claim_was_recorded_wrote_over_the_files_of_its_member(
    sink: Sink, tmp_path: Path
) -> None:
    """The claim was looked at before the Job was made, and the pod of the Job started much later,
    beside that of the member."""
    (tmp_path / "member.json").write_bytes(b"{}")
    (tmp_path / KEY).write_bytes(b"the member's")

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"a snapshot"

    with pytest.raises(StoreFailed) as refused:
        await sink.write(KEY, pieces())

    assert (refused.value.failure.reason, refused.value.failure.final) == ("VolumeOfCluster", True)
    assert "spec.volume.claimName: PersistentVolumeClaim 'claim'" in str(refused.value)
    assert (tmp_path / KEY).read_bytes() == b"the member's"


@pytest.mark.parametrize("checksum", ["", *CHECKSUMS])
def test_a_requested_checksum_reaches_the_stores_client(
    checksum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_clients(monkeypatch)
    Sink(Store("S3", "mybucket", KEY, checksum=checksum), None)

    assert made
    assert all(one["config"].get("checksum_algorithm", "") == checksum for one in made)


def test_certificate_authorities_reach_the_stores_client_beside_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = made_clients(monkeypatch)
    need = CertificateSpec("authority", "ca", AUTHORITY_FILES, subject="ca")
    found = signing.make(need, {}, 0.0)["ca.crt"].decode()
    Sink(Store("S3", "mybucket", KEY, ca_secret="ca"), None, {"ca.crt": found})

    [options] = [one["client_options"] for one in made]
    assert options["root_certificate"] == found
    assert options["allow_http"] is True, "also of what is said of every client"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "Secret ca: it has no key ca.crt"),
        ("nothing", "Secret ca: key ca.crt holds no certificate in PEM"),
        ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
         "Secret ca: key ca.crt holds a certificate that cannot be read"),
    ],
)  # fmt: skip
def test_unreadable_authorities_are_reported_with_their_key(found: str | None, words: str) -> None:
    """The client itself only says `builder error`."""
    store = Store("S3", "mybucket", KEY, ca_secret="ca")

    with pytest.raises(StoreFailed, match=f"^spec.s3.caSecret: {words}") as caught:
        Sink(store, None, {"ca.crt": found} if found else {})
    assert caught.value.failure.reason == "InvalidSecret"


KEY_FILE = {"type": "service_account", "private_key": "S3CRET", "client_email": "a@b"}


@pytest.mark.parametrize(
    ("kind", "files", "field"),
    [
        ("ABS", {"storage-account": "etcd", "storage-key": "S3CRET!"}, "spec.abs.absSecret"),
        ("GCS", {"credentials.json": json.dumps(KEY_FILE)}, "spec.gcs.gcpSecret"),
        (
            "GCS",
            {"credentials.json": json.dumps(KEY_FILE | {"disable_oauth": "S3CRET"})},
            "spec.gcs.gcpSecret",
        ),
    ],
)
def test_an_invalid_key_was_blamed_on_the_path(
    kind: str, files: dict[str, str], field: str
) -> None:
    with pytest.raises(StoreFailed) as caught:
        Sink(Store(kind, "bucket", KEY, "keys"), files)

    failure = caught.value.failure
    assert failure.reason == "InvalidSecret"
    assert failure.message.startswith(f"{field}: Secret keys cannot be used: ")
    assert "S3CRET" not in failure.message


async def test_a_missing_file_is_reported(sink: Sink) -> None:
    with pytest.raises(StoreFailed, match=r"spec\.volume"):
        await read(sink)


async def test_a_reader_that_stops_early_leaves_no_request_behind(
    sink: Sink, tmp_path: Path
) -> None:
    (tmp_path / KEY).write_bytes(bytes(50 * PIECE))
    async with contextlib.aclosing(sink.read(KEY)) as pieces:
        await anext(pieces)

    assert len(asyncio.all_tasks()) == 1


ASKED: dict[str, Callable[[Sink], Awaitable[object]]] = {
    "get": lambda sink: sink.get(KEY, 100),
    "put": lambda sink: sink.put(KEY, b"manifest"),
    "size": lambda sink: sink.size(KEY),
    "names": lambda sink: sink.names(KEY),
    "delete": lambda sink: sink.delete([KEY]),
    "read": read,
}


@contextlib.asynccontextmanager
async def answering(answer: Callable[[bytes], bytes], after: float = 0.0) -> AsyncIterator[Store]:
    """A store that answers each request so, some seconds later; with nothing, it never does."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
            said = answer(await reader.readuntil(b"\r\n\r\n"))
            await asyncio.sleep(after)
            writer.write(said)
            if not said:
                await reader.read()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield Store("S3", "bucket", KEY, "aws", f"http://{host}:{port}", path_style=True)


def silent() -> contextlib.AbstractAsyncContextManager[Store]:
    return answering(lambda _: b"")


def opened(store: Store) -> Sink:
    keys = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
    return Sink(store, {"credentials": keys})


@pytest.mark.parametrize("what", ASKED)
async def test_a_store_that_accepts_requests_and_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The request was repeated for a minute, which is all the time that a backup has."""
    monkeypatch.setattr(clients, "SILENT_SECONDS", 0.3)
    async with silent() as store:
        with pytest.raises(StoreFailed, match=f"{store.endpoint} cannot be reached") as caught:
            async with asyncio.timeout(10):
                await ASKED[what](opened(store))

    assert caught.value.failure.reason == "StoreUnreachable"
    assert "retries" not in caught.value.failure.message


async def fetched(store: Store, sink: Sink, volume: Path) -> str:
    settings = Settings("uid", 1, "c-0", "pod", "127.0.0.1", "c-0.c.ns.svc")
    with pytest.raises(fetching.Unfinished) as told:
        await fetching.fetch(fetching.Order(settings, 1, 2, store, "3.7.3"), sink, volume)
    return str(told.value)


async def told(job: str, store: Store, volume: Path) -> str:
    """What the Job says of the store."""
    order, sink = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", store), opened(store)
    if job == "restore":
        return await fetched(store, sink, volume)
    done = await (describe if job == "describe" else remove)(order, sink)
    assert isinstance(done, Failure)
    return done.message


@pytest.mark.parametrize("job", ["restore", "describe", "delete"])
async def test_a_job_waited_for_twenty_seconds_before_it_named_a_store_that_never_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, job: str
) -> None:
    """A status has to name it within ten, and the pod's start is a part of these."""
    assert clients.FIRST_LOOK_SECONDS < 6
    monkeypatch.setattr(clients, "FIRST_LOOK_SECONDS", 0.3)
    async with silent() as store, asyncio.timeout(10):
        said = await told(job, store, tmp_path)

    assert f"s3.endpoint: {store.endpoint} cannot be reached" in said


async def test_a_slow_store_passes_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is silence, not how long all of it takes."""
    monkeypatch.setattr(clients, "FIRST_LOOK_SECONDS", 1.0)
    async with answering(lambda _: NOTHING_LISTED, after=0.4) as store:
        await opened(store).check()


async def test_a_file_of_others_that_no_list_can_show_kept_backups_from_being_made() -> None:
    """Of those at an interval whose path ends in a slash, each failed, although nothing has to be
    listed to make one."""
    async with answering(lambda _: UNLISTED) as store:
        sink = opened(replace(store, key="folder/"))
        with pytest.raises(StoreFailed, match="a file of another tool"):
            await sink.names("folder/")

        await sink.check()


async def test_a_file_of_others_in_a_folder_that_follows_kept_all_old_backups() -> None:
    """It was on the page of the list that has the backups, and the client gave all of that up."""
    kept, unlisted = f"{KEY}_v1_2026-01-01-00:00:00", f"{KEY}_v_old"
    listed = f"<Contents><Key>{kept}</Key><Size>1</Size>{MODIFIED}</Contents>"
    beyond = f"<Contents><Key>{unlisted}//x</Key><Size>1</Size>{MODIFIED}</Contents>"
    folder = f"<CommonPrefixes><Prefix>{unlisted}/</Prefix></CommonPrefixes>"

    def answer(request: bytes) -> bytes:
        return _list(listed + (folder if b"delimiter" in request else beyond))

    async with answering(answer) as store:
        assert await opened(store).names(f"{KEY}_v") == [kept]


async def test_a_restore_from_a_bucket_that_does_not_exist_said_that_the_file_is_missing(
    tmp_path: Path,
) -> None:
    async with answering(lambda _: NO_BUCKET) as store:
        said = await told("restore", store, tmp_path)

    assert said == "spec.bootstrap.restore.s3.path: there is no bucket 'bucket'"


async def test_the_object_of_a_backup_can_be_deleted_after_its_bucket() -> None:
    async with answering(lambda _: NO_BUCKET) as store:
        order = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", store)

        assert await remove(order, opened(store)) == Removed(0)


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """Like a file on a volume whose server is gone: opening it blocks until the server is back."""
    os.mkfifo(tmp_path / KEY)
    os.mkfifo(tmp_path / names.manifest_of(KEY))
    yield tmp_path
    for path in tmp_path.iterdir():
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


@pytest.mark.parametrize("what", ["get", "read"])
async def test_a_hanging_volume_blocked_a_restore_silently(
    sink: Sink, hung: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(sinks, "SILENT_SECONDS", 0.3)
    with pytest.raises(StoreFailed, match="volume 'claim' has not answered for") as said:
        async with asyncio.timeout(10):
            await ASKED[what](sink)

    assert said.value.failure.reason == "StoreUnreachable"


async def test_a_volume_that_hangs_while_it_is_listed_is_reported(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hanging(*_: Any, **__: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield []

    monkeypatch.setattr(sinks, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(sinks.obstore, "list", hanging)
    with pytest.raises(StoreFailed, match="volume 'claim' has not answered for"):
        async with asyncio.timeout(10):
            await sink.check()


async def test_a_hanging_volume_kept_a_backup_from_reporting_that_its_time_was_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else ran meanwhile, not even the timer."""
    back = threading.Event()
    monkeypatch.setattr(sinks, "fsync", lambda _: back.wait(20))
    sink = Sink(Store("Volume", "claim", KEY), None, root=str(tmp_path))
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await sink.put(KEY, b"manifest")

    assert time.monotonic() - began < 10
    back.set()
