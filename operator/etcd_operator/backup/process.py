"""Makes one backup, from the first question to the manifest. It tries one member after another,
until one sends a whole snapshot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from etcd_operator.backup.clients import StoreFailed, unless_forbidden
from etcd_operator.backup.overwriting import (
    MadeBefore,
    check_overwrite,
    made_before,
    mark,
    withdraw,
)
from etcd_operator.backup.progress import Meter
from etcd_operator.backup.pruning import prune
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.source import Member, Source, Unusable
from etcd_operator.backup.stored_manifest import UNREADABLE, owner_of
from etcd_operator.backup.surveying import survey
from etcd_operator.tasks import cancel
from etcd_operator.timestamps import rfc3339
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.integrity import Damaged, SnapshotCheck
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.backup.measurement import Measured
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failed, Failure, Stored
from etcd_stateful.identity import to_hex

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""How long an upload has to abort cleanly, so that the store keeps no parts of it."""

MARK_SECONDS = 5.0
"""How long the store has to take a mark on what a failed backup leaves there."""

INTERRUPTED = "Interrupted"
"""The reason of a backup whose pod was told to stop."""

LEFT_OUT = "the spec of the EtcdCluster is too long to be stored with it: keep it yourself"


@dataclass(frozen=True, slots=True)
class _Taken:
    """A snapshot that is in the store under its final name."""

    member: Member
    key: str
    size: int
    sha256: str
    tail: bytes
    """Its last bytes, which no other snapshot has."""
    measured: Measured | None


class Backup:
    """One backup. `run` makes it and is called once."""

    def __init__(
        self,
        order: Order,
        sink: Sink,
        meter: Meter,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._order = order
        self._sink = sink
        self._meter = meter
        self._wall_clock = wall_clock
        self._stop: asyncio.Future[Failure] = asyncio.get_running_loop().create_future()
        self._notes: list[str] = [LEFT_OUT] if order.left_out else []
        self._left: _Taken | None = None
        """What is stored, or about to be, and does not count yet."""
        self._is_stored = False
        """Whether the file of `_left` was seen to be stored, and not to be damaged since."""

    def stop(self, failure: Failure) -> None:
        """Ends the backup early, with this failure unless the backup is stored by then."""
        if not self._stop.done():
            self._stop.set_result(failure)

    async def run(self) -> Stored | Failure:
        """Makes the backup, within `order.timeout` seconds.

        Errors of etcd or the store are returned as a Failure, not raised. Once the backup is
        stored, neither the timeout nor `stop` makes it a failure.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._order.timeout, lambda: self.stop(self._too_long()))
        work = asyncio.create_task(self._work())
        await self._until(work)
        timer.cancel()
        if not work.done():
            await asyncio.wait([work], timeout=STOP_SECONDS)
        await cancel(work)
        try:
            stored = work.result()
        except Failed as error:
            return await self._failed(error.failure)
        except asyncio.CancelledError:
            return await self._failed(self._stop.result())
        return await self._with_what_follows(stored)

    async def _failed(self, failure: Failure) -> Failure:
        """The failure, with what it leaves in the store. Old files are deleted then, too: if each
        run failed like this, these would fill the store."""
        with contextlib.suppress(Failed, TimeoutError):
            async with asyncio.timeout(MARK_SECONDS):
                await self._mark_what_is_left()
        if self._left is None:
            return failure
        if failure.reason != INTERRUPTED:  # A restore may have been declared since it began.
            await self._prune(self._left.key)
        return replace(failure, left=self._order.store.location(self._left.key))

    async def _mark_what_is_left(self) -> None:
        """Marks a file that has no manifest yet, or nobody would know whose it is."""
        if (left := self._left) is None:
            return
        is_own = await owner_of(self._sink, left.key) == self._order.owner_uid
        if is_own and not self._is_stored:
            return  # Whichever file of this object it is.
        await self._compare(left)
        if not is_own:
            await self._mark_as_own(left)

    async def _with_what_follows(self, stored: Stored) -> Stored:
        """Deletes old backups and lists other files, if there is time: the backup is stored, so
        neither its deadline nor a signal makes it a failure."""
        following = asyncio.create_task(self._follow(stored))
        await self._until(following)
        if following.done():
            return following.result()
        await cancel(following)
        return replace(stored, notes=tuple(self._notes))

    async def _until(self, work: asyncio.Task[Stored]) -> None:
        """Waits until the work is done or the backup has to stop."""
        either: tuple[asyncio.Future[Any], ...] = (self._stop, work)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    async def _follow(self, stored: Stored) -> Stored:
        await self._prune(stored.key)
        others = await survey(self._sink, stored.key) if self._order.scheduled else None
        return replace(stored, others=others, notes=tuple(self._notes))

    def _too_long(self) -> Failure:
        done, field = self._meter.progress(), "spec.backupPolicy.timeoutInSecond"
        words = f"{field}: {self._order.timeout} s have passed, with {done.stored} of {done.size} "
        return Failure("TimedOut", f"{words}bytes read; set it higher", final=True)

    async def _work(self) -> Stored:
        try:
            async with Source(self._order) as source:
                taken = await self._take(source, await self._members(source))
        except MadeBefore as error:
            return self._as_before(error.made)
        return await self._finish(taken)

    async def _members(self, source: Source) -> list[Member]:
        """The members to try, best first, if a backup has to be made and may be stored."""
        try:
            members, _ = await asyncio.gather(source.members(), self._sink.check())
        except Unusable:
            if made := await made_before(self._order, self._sink):
                raise MadeBefore(made) from None
            raise
        cluster_id = to_hex(members[0].answer.cluster_id)
        await check_overwrite(self._order, self._sink, cluster_id)
        return members

    def _as_before(self, before: Manifest) -> Stored:
        words = f"it was made at {before.made_at}, by a try that did not report its result"
        self._notes.append(words)
        return self._stored(self._order.store.key, before)

    def _stored(self, key: str, content: Manifest) -> Stored:
        return Stored(
            location=self._order.store.location(key),
            cluster_id=content.cluster_id,
            revision=content.revision,
            version=content.version,
            size=content.size,
            sha256=content.sha256,
            key=key,
            verified=self._order.verify,
        )

    async def _finish(self, taken: _Taken) -> Stored:
        """Writes the manifest; with `verify`, only once the backup was read back. Until then, an
        undecided manifest names the owner, so that the file is deleted along with this object."""
        self._is_stored = True
        if self._order.verify:
            await self._mark_as_own(taken)
            await self._verify(taken)
        await self._compare(taken)
        return self._stored(taken.key, await self._describe(taken))

    async def _mark_as_own(self, taken: _Taken) -> None:
        """Marks the file as unfinished, unless another object has replaced it since."""
        own = self._order.owner_uid
        theirs: str | None = None
        with unless_forbidden():
            theirs = await owner_of(self._sink, taken.key)
        if theirs not in (None, UNREADABLE, own):
            await self._compare(taken)
        await mark(self._sink, taken.key, own, to_hex(taken.member.answer.cluster_id))

    async def _take(self, source: Source, members: list[Member]) -> _Taken:
        """Stores the first whole snapshot. If no member sends one, raises the last failure."""
        for number, member in enumerate(members, 1):
            try:
                return await self._take_from(source, member)
            except (Unusable, Damaged) as error:
                failure = _as_failure(error, member)
                log.warning("%s", failure.message)
                if number == len(members):
                    raise Unusable(failure) from error
                self._notes.append(failure.message)
        raise AssertionError("there is a member, or nothing is tried")

    async def _take_from(self, source: Source, member: Member) -> _Taken:
        member, measured = await source.caught_up(member), None
        self._meter.begin(member.answer.db_size)
        if self._order.measure:
            member, measured = await source.measured(member)
        answer = member.answer
        key = self._key(answer.revision)
        log.info("taking revision %d from %s to %s", answer.revision, answer.endpoint, key)
        checked = SnapshotCheck()

        def taken() -> _Taken:
            """Raises Damaged."""
            return _Taken(member, key, checked.size, checked.finish(), checked.tail, measured)

        async def pieces() -> AsyncGenerator[bytes, None]:
            async with contextlib.aclosing(source.snapshot(member)) as snapshot:
                async for piece in snapshot:
                    if self._stop.done():
                        raise Failed(self._stop.result())
                    checked.update(piece)
                    self._meter.add(len(piece))
                    yield piece
            # An error here aborts the upload, which is not completed yet.
            whole = taken()
            cluster_id = to_hex(answer.cluster_id)
            await withdraw(self._order, self._sink, key, cluster_id, answer.revision)
            self._left = whole

        await self._sink.write(key, pieces())
        if measured:
            measured = await source.measure_again(member, measured)
        return taken()

    def _key(self, revision: int) -> str:
        path = self._order.store.key
        if not self._order.stamped:
            return path
        now = datetime.fromtimestamp(self._wall_clock(), UTC)
        return names.stamped(path, revision, now.strftime(names.MOMENT))

    async def _describe(self, taken: _Taken) -> Manifest:
        answer = taken.member.answer
        content = Manifest(
            cluster_id=to_hex(answer.cluster_id),
            revision=answer.revision,
            version=answer.version,
            size=taken.size,
            sha256=taken.sha256,
            made_at=rfc3339(self._wall_clock()),
            owner=self._order.owner,
            owner_uid=self._order.owner_uid,
            measured=taken.measured,
            cluster=self._order.cluster,
            left_out=self._order.left_out,
            run=self._order.run,
        )
        await self._sink.put(names.manifest_of(taken.key), manifest.serialise(content))
        return content

    async def _verify(self, taken: _Taken) -> None:
        """Reads back what is stored; raises Failed if that differs from what was sent."""
        checked = SnapshotCheck()
        async with contextlib.aclosing(self._sink.read(taken.key)) as pieces:
            async for piece in pieces:
                if self._stop.done():
                    raise Failed(self._stop.result())
                checked.update(piece)
        try:
            found = checked.finish()
        except Damaged as error:
            self._is_stored = False
            found = str(error)
        else:
            if found != taken.sha256:  # Whole, so it is most likely another's.
                await self._compare(taken)
        if found != taken.sha256:
            where = self._order.store.path_field
            words = f"{where}: what was stored as {taken.key} reads back differently: {found}"
            raise Failed(Failure("VerificationFailed", words))

    async def _compare(self, taken: _Taken) -> None:
        """Raises Failed if something else has written to the same path meanwhile: its file would
        not match this manifest, and could not be restored.

        With write-only credentials nothing is compared.
        """
        same = True
        with unless_forbidden():
            same = await self._sink.ends(taken.key, taken.size, taken.tail)
        if same:
            return
        self._left = None
        if await owner_of(self._sink, taken.key) == self._order.owner_uid:
            # Otherwise that file would be deleted with this object.
            await mark(self._sink, taken.key)
        words = f"{self._order.store.path_field}: what lies at {taken.key} is not what was stored "
        words += "there a moment ago: something else writes to the same path. Give each EtcdBackup "
        raise Failed(Failure("VerificationFailed", f"{words}a path of its own"))

    async def _prune(self, made: str) -> None:
        """Deletes old backups beyond those that are kept. A failure only adds a note."""
        if not self._order.stamped or not self._order.keep:
            return
        try:
            await prune(self._order, self._sink, made)
        except StoreFailed as error:
            self._notes.append(f"old backups are still there: {error.failure.message}")
        except TimeoutError:
            words = "the store takes a long time to delete them"
            self._notes.append(f"old backups are still there: {words}")


def _as_failure(error: Unusable | Damaged, member: Member) -> Failure:
    if isinstance(error, Unusable):
        return error.failure
    return Failure("SnapshotDamaged", f"the snapshot of {member.answer.endpoint}: {error}")
