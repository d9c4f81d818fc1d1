"""How a Job writes to a store, reads from it and deletes: an upload becomes visible as a whole, or
not at all.

Buckets guarantee that by themselves. On a volume, the upload is a file with a temporary name, which
is renamed once the file is synced. Such files that killed Jobs left are deleted before the next
upload.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import obstore

from etcd_operator.backup.clients import Clients, Errors, StoreFailed, failures_of, store_failed
from etcd_operator.backup.idle_timeout import SILENT_SECONDS
from etcd_operator.fsync import fsync
from etcd_operator.tasks import cancel
from etcd_operator.timestamps import rfc3339
from etcd_stateful.api.stores import VOLUME, Store
from etcd_stateful.backup import names, trouble
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.foreign_files import File
from etcd_stateful.backup.outcome import Failure
from etcd_stateful.start import marker

log = logging.getLogger(__name__)

PART: Final = 8 * 1024 * 1024
"""With parts of this size, S3's limit of 10,000 parts allows for 80 GB."""

AT_ONCE: Final = 2
"""Parts that are uploaded at a time, which limits how much of a snapshot is held in memory."""

PIECE: Final = 2 * 1024 * 1024

STOP_SECONDS: Final = 1.0
"""How long to wait for the piece that is being read when a read is broken off."""


class TooLarge(Exception):
    """The file exists, but is too large to be read whole."""


class Sink:
    """One store. A key is a path in its bucket, or on its volume."""

    def __init__(
        self,
        store: Store,
        files: dict[str, str] | None,
        trusted: dict[str, str] | None = None,
        *,
        root: str = orders.VOLUME,
        owner_uid: str = "",
    ) -> None:
        """Raises StoreFailed.

        Args:
            files: the content of the Secret with the credentials; None if the store names none.
            trusted: the content of the Secret with the CA certificates.
            owner_uid: the UID of the object that writes, if any does.
        """
        self._store = store
        self._root = Path(root)
        self._owner_uid = owner_uid
        self._unfinished = names.unfinished(store.key, owner_uid, os.urandom(2).hex())
        self._clients = Clients(store, files, trusted, self._root)
        self._client = self._clients.for_small()

    @property
    def _on_disk(self) -> bool:
        return self._store.kind == VOLUME

    async def check(self) -> None:
        """Raises StoreFailed if the store cannot be reached; gives up early.

        Write-only credentials may not list, which is no reason not to write. Nor is a file of
        others that no list can show.
        """
        try:
            first = self._clients.for_first_look()
            pages = obstore.list(first, self._store.key, chunk_size=1)
            await self._answered(anext(aiter(pages), None))
        except Errors as error:
            failed = store_failed(self._store, error)
            if not (failed.forbidden or trouble.is_unlisted(str(error))):
                raise failed from error

    async def write(self, key: str, pieces: AsyncGenerator[bytes, None]) -> None:
        """Stores all pieces or nothing, and closes them; raises StoreFailed, and whatever `pieces`
        raises."""
        guarded = _Guarded(pieces)
        target = self._unfinished if self._on_disk else key
        try:
            if self._on_disk:
                await _in_thread(self._spare_a_members)
            await self.clear()
            await self._upload(target, guarded)
            if self._on_disk:
                await self._settle(target, key)
        except Exception as error:
            if guarded.raised is not None:
                raise guarded.raised from None
            if not isinstance(error, Errors):
                raise
            raise store_failed(self._store, error) from error
        finally:
            await guarded.end()

    async def _upload(self, target: str, pieces: _Guarded) -> None:
        """Sends up to one part in a single request. If the Job is killed, the bucket then keeps no
        parts, which would be invisible but billed."""
        client, first, size = self._clients.for_writing(), list[bytes](), 0
        async for piece in pieces:
            first.append(piece)
            size += len(piece)
            if size > PART:
                break
        else:
            await obstore.put_async(client, target, b"".join(first), use_multipart=False)
            return
        pieces.again = first
        await obstore.put_async(client, target, pieces, chunk_size=PART, max_concurrency=AT_ONCE)

    async def put(self, key: str, data: bytes) -> None:
        """Stores something small; raises StoreFailed."""
        target = self._unfinished if self._on_disk else key
        with failures_of(self._store):
            await obstore.put_async(self._client, target, data, use_multipart=False)
            if self._on_disk:
                await self._settle(target, key)

    async def get(self, key: str, most: int) -> bytes | None:
        """The content of a small file; None if there is none. Raises StoreFailed, and TooLarge if
        it has more than `most` bytes."""
        with failures_of(self._store), suppress(FileNotFoundError):
            found = await self._answered(obstore.get_async(self._client, key))
            if (size := found.meta["size"]) > most:
                raise TooLarge(f"it has {size} bytes, which is more than {most} bytes")
            return bytes(await self._answered(found.bytes_async()))
        return None

    async def file(self, key: str) -> File | None:
        """Size and time of a file; None if there is none. Raises StoreFailed."""
        found = await self._found(obstore.head_async(self._client, key))
        return None if found is None else _file(found)

    async def size(self, key: str) -> int | None:
        """The size of a file in bytes; None if there is none. Raises StoreFailed."""
        found = await self.file(key)
        return None if found is None else found.size

    async def ends(self, key: str, size: int, tail: bytes) -> bool:
        """Whether the file has this size and ends with `tail`. Raises StoreFailed."""
        if await self.size(key) != size:
            return False
        end = {"start": size - len(tail), "length": len(tail)}
        found = await self._found(obstore.get_range_async(self._client, key, **end))
        return found is not None and bytes(found) == tail

    async def _found(self, answer: Awaitable[Any]) -> Any:
        """The answer; None if there is no such file. Raises StoreFailed."""
        with failures_of(self._store), suppress(FileNotFoundError):
            return await self._answered(answer)
        return None

    async def read(self, key: str) -> AsyncGenerator[memoryview, None]:
        """Yields the content of a large file in pieces, reading one ahead; raises StoreFailed."""
        coming: asyncio.Future[Any] | None = None
        try:
            with failures_of(self._store):
                found = await self._answered(obstore.get_async(self._clients.for_reading(), key))
                stream = aiter(found.stream(min_chunk_size=PIECE))
                coming = asyncio.ensure_future(anext(stream, None))
                while (piece := await self._answered(coming)) is not None:
                    coming = asyncio.ensure_future(anext(stream, None))
                    yield memoryview(piece)
        finally:
            if coming is not None:
                await _given_up(coming)

    async def names(self, start: str) -> list[str]:
        """Keys that begin with `start`, perhaps in its folder only; raises StoreFailed."""
        if not self._on_disk:
            try:
                return [one.key async for page in self.pages(start) for one in page]
            except StoreFailed as error:
                if not trouble.is_unlisted(str(error.__cause__)):
                    raise
        # Other folders on a volume may be root's, such as lost+found, and those of a bucket may
        # have files that no list can show.
        files, _ = await self._folder(start.rpartition("/")[0], start)
        return [one.key for one in files]

    async def _folder(self, folder: str, start: str) -> tuple[list[File], list[str]]:
        """The files and the folders in it whose keys begin with `start`."""
        with failures_of(self._store):
            answer = obstore.list_with_delimiter_async(self._client, folder or None)
            found = await self._answered(answer)
        within = [one for one in found["common_prefixes"] if f"{one}/".startswith(start)]
        return _listed(found["objects"], start), within

    async def pages(self, start: str) -> AsyncIterator[list[File]]:
        """Yields the files whose keys begin with `start`, page by page; raises StoreFailed."""
        folder = start.rpartition("/")[0]
        if self._on_disk:
            folders = [folder]
            while folders:
                files, within = await self._folder(folders.pop(), start)
                folders += within
                yield files
            return
        with failures_of(self._store):
            async for page in obstore.list(self._client, folder or None, offset=start):
                yield _listed(page, start)
                last = page[-1]["path"] if page else ""
                if last > start and not last.startswith(start):
                    break

    async def delete(self, keys: Iterable[str]) -> None:
        """Deletes files. Those that do not exist are skipped. Raises StoreFailed."""
        for key in keys:
            with failures_of(self._store), suppress(FileNotFoundError):
                await obstore.delete_async(self._client, key)

    def _spare_a_members(self) -> None:
        """Raises StoreFailed on the volume of a member. The operator looks at the claim before it
        makes the Job, but that may be before the claim is recorded."""
        if (self._root / marker.FILE).exists():
            raise StoreFailed(trouble.of_a_member(self._store))

    async def clear(self) -> None:
        """Deletes unfinished files that killed Jobs left on a volume; raises StoreFailed."""
        if self._on_disk:
            await _in_thread(self._clear)

    def _clear(self) -> None:
        folder = (self._root / self._unfinished).parent
        with failures_of(self._store):
            for path in folder.iterdir() if folder.is_dir() else ():
                key = str(path.relative_to(self._root))
                if names.is_left(self._store.key, self._owner_uid, key):
                    log.info("deleting %s, which was never finished", key)
                    path.unlink(missing_ok=True)

    async def _answered(self, answer: Awaitable[Any]) -> Any:
        """Awaits the answer, with a deadline for a volume. A bucket's client has one itself."""
        if not self._on_disk:
            return await answer
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                return await answer
        except TimeoutError as error:
            where, claim = self._store.path_field, self._store.bucket
            words = f"{where}: volume {claim!r} has not answered for {SILENT_SECONDS:g} s"
            raise StoreFailed(Failure("StoreUnreachable", words)) from error

    async def _settle(self, unfinished: str, key: str) -> None:
        await _in_thread(lambda: fsync(self._root / unfinished))
        await obstore.rename_async(self._client, unfinished, key)
        await _in_thread(lambda: self._sync_folders(key))

    def _sync_folders(self, key: str) -> None:
        """Syncs every folder up to the root: each may be a new entry of the one above it."""
        for folder in (self._root / key).parents:
            fsync(folder)
            if folder == self._root:
                return


def open_sink(
    store: Store, secret: str, ca: str, *, root: str = orders.VOLUME, owner_uid: str = ""
) -> Sink:
    """Opens a store with the Secrets that are mounted in the pod; raises StoreFailed and OSError.

    Args:
        secret: the folder with the credentials.
        ca: the folder with the CA certificates for the store.
    """
    files = read_secret(secret) if store.secret else None
    trusted = read_secret(ca) if store.ca_secret else None
    return Sink(store, files, trusted, root=root, owner_uid=owner_uid)


async def _in_thread(work: Callable[[], None]) -> None:
    """Runs work that may block, and can be cancelled. The thread is not awaited then, as it may
    never return from a volume that hangs."""
    thread = ThreadPoolExecutor(1)
    try:
        await asyncio.get_running_loop().run_in_executor(thread, work)
    finally:
        thread.shutdown(wait=False)


def _listed(found: Iterable[Mapping[str, Any]], start: str) -> list[File]:
    wanted = (one for one in found if one["path"].startswith(start))
    return [_file(one) for one in wanted if not one["path"].endswith(names.UNFINISHED)]


def _file(found: Mapping[str, Any]) -> File:
    modified = rfc3339(found["last_modified"].timestamp())
    return File(found["path"], int(found["size"]), modified)


async def _given_up(coming: asyncio.Future[Any]) -> None:
    # If it were just cancelled, it could still answer after the loop is closed.
    await asyncio.wait([coming], timeout=STOP_SECONDS)
    await cancel(coming)


class _Guarded:
    """Passes the pieces on to a client. It keeps the error that reading them raised, as the client
    may wrap it in one of its own, and the read that is under way, as the client forgets it when it
    fails."""

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = pieces
        self._coming: asyncio.Future[bytes | None] | None = None
        self._over = False
        self.again: list[bytes] = []
        """Pieces that were read already, and come first."""
        self.raised: BaseException | None = None

    def __aiter__(self) -> _Guarded:
        return self

    async def __anext__(self) -> bytes:
        if self._over:  # A client that has not noticed yet must not take this for all of the file.
            raise asyncio.CancelledError
        if self.again:
            return self.again.pop(0)
        try:
            self._coming = asyncio.ensure_future(anext(self._pieces, None))
            piece = await self._coming
        except BaseException as error:
            self.raised = error
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def end(self) -> None:
        """Closes the pieces. If the garbage collector did, it could be while they are read."""
        self._over = True
        if self._coming is not None:
            await _given_up(self._coming)
        await self._pieces.aclose()


def read_secret(folder: str) -> dict[str, str]:
    """The content of a mounted Secret; empty if none is mounted. Raises OSError."""
    found = {}
    for path in sorted(Path(folder).glob("*")):
        if path.is_file() and not path.name.startswith(".."):
            found[path.name] = path.read_text(errors="replace")
    return found
