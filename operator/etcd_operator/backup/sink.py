"""The store, through `obstore`: one upload in parts that becomes visible as a whole, or not at all.

Buckets do that by themselves. In a volume the parts are a file of another name, which gets its own
once it is on the disk. What a Job that was killed has left of one goes before the next is begun.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from etcd_operator.backup.silence import SILENT_SECONDS, aside
from etcd_operator.durable import sync
from etcd_operator.moments import rfc3339
from etcd_stateful.api.stores import VOLUME, Store
from etcd_stateful.backup import names, trouble
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.credentials import Access, BadSecret, access, authorities
from etcd_stateful.backup.foreign_files import File
from etcd_stateful.backup.outcome import Failed, Failure

log = logging.getLogger(__name__)

PART: Final = 8 * 1024 * 1024
"""Parts of this size reach 80 GB within S3's 10,000."""

AT_ONCE: Final = 2
"""Parts on their way: what the memory holds of a snapshot."""

PIECE: Final = 2 * 1024 * 1024

STOP_SECONDS: Final = 1.0
"""For what is on its way to one who wants no more of it."""

_CLIENT: Final[dict[str, Any]] = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=3),
    "timeout": timedelta(seconds=120),
}
_READING: Final = _CLIENT | {"timeout": timedelta(hours=24)}
"""That time is of a whole answer, and one may be a backup of any size. A stall ends it all the
same."""

_WRITING: Final = _CLIENT | {"read_timeout": timedelta(seconds=30)}
"""A part is answered when all of it is there, and the last one may have the store join them all."""

_PATIENT: Final[dict[str, Any]] = {"max_retries": 6}
_STUBBORN: Final[dict[str, Any]] = {"retry_timeout": timedelta(seconds=60)}
_AT_FIRST: Final[dict[str, Any]] = {"max_retries": 1}

Errors: Final = (BaseError, OSError, ValueError)
"""What the client raises."""


class StoreFailed(Failed):
    def __init__(self, failure: Failure, *, forbidden: bool = False) -> None:
        super().__init__(failure)
        self.forbidden = forbidden
        """The store knows who asks, and does not let it do just this."""


class TooLarge(Exception):
    """There is something, and nothing that is read whole may be so large."""


class Sink:
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
            files: of the Secret with the credentials; None where the store has none.
            trusted: of the Secret with the authorities of its certificate.
            owner_uid: of the object that writes, if any does.
        """
        self._store = store
        self._root = Path(root)
        self._owner_uid = owner_uid
        self._unfinished = names.unfinished(store.key, owner_uid, os.urandom(2).hex())
        try:
            self._access = access(store, files)
        except BadSecret as error:
            words = f"{store.secret_field}: Secret {store.secret}: {error}"
            raise StoreFailed(Failure("InvalidSecret", words)) from error
        self._trust = _trust(store, trusted or {})
        self._client = self._made(_PATIENT)

    @property
    def _on_disk(self) -> bool:
        return self._store.kind == VOLUME

    async def check(self) -> None:
        """Whether the store can be had at all, with little patience; raises StoreFailed.

        Who may only write may not list. That is no reason not to write.
        """
        try:
            first = self._made(_AT_FIRST)
            async for _ in obstore.list(first, self._store.key, chunk_size=1):
                break
        except Errors as error:
            failed = self._failed(error)
            if not failed.forbidden:
                raise failed from error

    async def write(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        """All or nothing under `key`; raises StoreFailed, and whatever `pieces` raises."""
        guarded = _Guarded(pieces)
        target = self._unfinished if self._on_disk else key
        try:
            await self.clear()
            client = self._made(_PATIENT | _STUBBORN, _WRITING)
            await obstore.put_async(
                client, target, guarded, chunk_size=PART, max_concurrency=AT_ONCE
            )
            if self._on_disk:
                await self._settle(target, key)
        except Exception as error:
            if guarded.raised is not None:
                raise guarded.raised from None
            if not isinstance(error, Errors):
                raise
            raise self._failed(error) from error

    async def put(self, key: str, data: bytes) -> None:
        """Raises StoreFailed."""
        target = self._unfinished if self._on_disk else key
        try:
            await obstore.put_async(self._client, target, data, use_multipart=False)
            if self._on_disk:
                await self._settle(target, key)
        except Errors as error:
            raise self._failed(error) from error

    async def get(self, key: str, most: int) -> bytes | None:
        """The content of something small; None where there is none. Raises StoreFailed, and
        TooLarge: what cannot be read is there all the same."""
        try:
            found = await self._heard(obstore.get_async(self._client, key))
            if (size := found.meta["size"]) > most:
                raise TooLarge(f"it has {size} bytes, which is more than {most} bytes")
            return bytes(await self._heard(found.bytes_async()))
        except FileNotFoundError:
            return None
        except Errors as error:
            raise self._failed(error) from error

    async def size(self, key: str) -> int | None:
        """None where there is nothing of that name. Raises StoreFailed."""
        found = await self._found(obstore.head_async(self._client, key))
        return None if found is None else int(found["size"])

    async def ends(self, key: str, size: int, tail: bytes) -> bool:
        """Whether what is there has this size, and ends so. Raises StoreFailed."""
        if await self.size(key) != size:
            return False
        end = {"start": size - len(tail), "length": len(tail)}
        found = await self._found(obstore.get_range_async(self._client, key, **end))
        return found is not None and bytes(found) == tail

    async def _found(self, answer: Awaitable[Any]) -> Any:
        try:
            return await self._heard(answer)
        except FileNotFoundError:
            return None
        except Errors as error:
            raise self._failed(error) from error

    async def read(self, key: str) -> AsyncGenerator[memoryview, None]:
        """A large content, piece by piece, one of them ahead; raises StoreFailed."""
        coming: asyncio.Future[Any] | None = None
        try:
            found = await self._heard(obstore.get_async(self._made(_PATIENT, _READING), key))
            stream = aiter(found.stream(min_chunk_size=PIECE))
            coming = asyncio.ensure_future(anext(stream, None))
            while (piece := await self._heard(coming)) is not None:
                coming = asyncio.ensure_future(anext(stream, None))
                yield memoryview(piece)
        except Errors as error:
            raise self._failed(error) from error
        finally:
            if coming is not None:
                # Called off it would still answer, perhaps to a loop that is closed by then.
                await asyncio.wait([coming], timeout=STOP_SECONDS)
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def names(self, start: str) -> list[str]:
        """Keys that begin with `start`, those in its own folder; raises StoreFailed."""
        if self._on_disk:
            return await self._in_folder(start)
        return [one.key async for page in self.pages(start) for one in page]

    async def _in_folder(self, start: str) -> list[str]:
        """Other folders of a volume may be root's alone, such as lost+found."""
        folder = start.rpartition("/")[0]
        try:
            answer = obstore.list_with_delimiter_async(self._client, folder or None)
            found = await self._heard(answer)
        except Errors as error:
            raise self._failed(error) from error
        keys = (one["path"] for one in found["objects"])
        return [k for k in keys if k.startswith(start) and not k.endswith(names.UNFINISHED)]

    async def pages(self, start: str) -> AsyncIterator[list[File]]:
        """What begins with `start`, as the store hands it out; raises StoreFailed."""
        folder = start.rpartition("/")[0]
        try:
            pages = obstore.list(self._client, folder or None, offset=self._before(start))
            async for page in pages:
                keys = (one for one in page if one["path"].startswith(start))
                yield [_file(one) for one in keys if not one["path"].endswith(names.UNFINISHED)]
                last = page[-1]["path"] if page else ""
                if not self._on_disk and last > start and not last.startswith(start):
                    break
        except Errors as error:
            raise self._failed(error) from error

    def _before(self, start: str) -> str | None:
        """Buckets list in order, from here on."""
        return None if self._on_disk else start

    async def delete(self, keys: Iterable[str]) -> None:
        """Raises StoreFailed. What is not there is gone."""
        for key in keys:
            try:
                await obstore.delete_async(self._client, key)
            except FileNotFoundError:
                continue
            except Errors as error:
                raise self._failed(error) from error

    async def clear(self) -> None:
        """What tries that were killed have left in a volume; raises StoreFailed."""
        if self._on_disk:
            await aside(self._clear)

    def _clear(self) -> None:
        folder = (self._root / self._unfinished).parent
        try:
            for path in folder.iterdir() if folder.is_dir() else ():
                key = str(path.relative_to(self._root))
                if names.is_left(self._store.key, self._owner_uid, key):
                    log.info("deleting %s, which was never finished", key)
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(error) from error

    async def _heard(self, answer: Awaitable[Any]) -> Any:
        """A bucket that says nothing is given up by the client, a volume by nobody."""
        if not self._on_disk:
            return await answer
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                return await answer
        except TimeoutError as error:
            where, claim = self._store.path_field, self._store.bucket
            words = f"{where}: volume {claim!r} says nothing for {SILENT_SECONDS:g} s"
            raise StoreFailed(Failure("StoreUnreachable", words)) from error

    async def _settle(self, unfinished: str, key: str) -> None:
        await aside(lambda: sync(self._root / unfinished))
        await obstore.rename_async(self._client, unfinished, key)
        await aside(lambda: self._sync_folders(key))

    def _sync_folders(self, key: str) -> None:
        """Some may have been made on the way to it, and each is a name in the one above."""
        for folder in (self._root / key).parents:
            sync(folder)
            if folder == self._root:
                return

    def _made(self, retry: dict[str, Any], client: dict[str, Any] | None = None) -> Any:
        store, config = self._store, cast("Any", self._access.config)
        silent = timedelta(seconds=SILENT_SECONDS)
        common: dict[str, Any] = {
            "client_options": {"read_timeout": silent} | (client or _CLIENT) | self._trust,
            "retry_config": {"retry_timeout": silent} | retry,
        }
        try:
            match store.kind:
                case "S3" | "OSS":
                    return S3Store(store.bucket, config=config, **common)
                case "ABS":
                    return AzureStore(store.bucket, config=config, **common)
                case "GCS":
                    token = _token(self._access)
                    return GCSStore(
                        store.bucket, config=config, credential_provider=token, **common
                    )
                case _:
                    return LocalStore(self._root)
        except Errors as error:
            raise self._unmade(error) from error

    def _unmade(self, error: BaseException) -> StoreFailed:
        """Nobody was asked yet: what it was made of is wrong, which is what the Secret holds."""
        store, words = self._store, trouble.first_line(str(error))
        if not store.secret:
            return self._failed(error)
        where = f"{store.secret_field}: Secret {store.secret}"
        return StoreFailed(Failure("InvalidSecret", f"{where} cannot be used: {words}"))

    def _failed(self, error: BaseException) -> StoreFailed:
        raw = str(error)
        failure = trouble.store_failure(self._store, raw)
        return StoreFailed(failure, forbidden=trouble.is_forbidden(raw))


def open_sink(
    store: Store, secret: str, ca: str, *, root: str = orders.VOLUME, owner_uid: str = ""
) -> Sink:
    """By what the pod has of the store's Secrets; raises StoreFailed and OSError.

    Args:
        secret: the folder with the credentials.
        ca: the folder with the authorities of its certificate.
    """
    files = read_secret(secret) if store.secret else None
    trusted = read_secret(ca) if store.ca_secret else None
    return Sink(store, files, trusted, root=root, owner_uid=owner_uid)


def _trust(store: Store, files: dict[str, str]) -> dict[str, Any]:
    """For the client, which knows the public authorities by itself and trusts them as well."""
    if not store.ca_secret:
        return {}
    where = f"{store.ca_field}: Secret {store.ca_secret}:"
    try:
        found = authorities(files)
        # The client names no field where it cannot read one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found)
    except BadSecret as error:
        raise StoreFailed(Failure("InvalidSecret", f"{where} {error}")) from error
    except ssl.SSLError as error:
        words = f"{where} key {orders.CA_FILE} holds a certificate that cannot be read"
        raise StoreFailed(Failure("InvalidSecret", words)) from error
    return {"root_certificate": found}


def _file(found: Mapping[str, Any]) -> File:
    modified = rfc3339(found["last_modified"].timestamp())
    return File(found["path"], int(found["size"]), modified)


class _Guarded:
    """Keeps what reading the pieces raised: the client may dress it up as its own."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self.raised: BaseException | None = None

    def __aiter__(self) -> _Guarded:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self.raised = error
            raise


def _token(given: Access) -> Any:
    if not given.token:
        return None

    def provide() -> dict[str, Any]:
        # When it expires is not known; the store says so when it has.
        return {"token": given.token, "expires_at": None}

    return provide


def read_secret(folder: str) -> dict[str, str]:
    """The keys of a Secret that is mounted; empty where there is none. Raises OSError."""
    found = {}
    for path in sorted(Path(folder).glob("*")):
        if path.is_file() and not path.name.startswith(".."):
            found[path.name] = path.read_text(errors="replace")
    return found
