"""Deleting an EtcdBackup deletes everything it has stored, and nothing that others have stored."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.backup import process
from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.overwriting import withdraw
from etcd_operator.backup.process import Backup
from etcd_operator.backup.progress import Meter
from etcd_operator.backup.removal import remove
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.source import Member
from etcd_operator.backup.stored_manifest import AT_ONCE
from etcd_operator.restore import fetch as fetching
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.backup.measurement import Measured
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Removed
from unit.backup.killed_deletions import killed_after_one_deletion
from unit.backup.reading_at_once import count_reads
from unit.backup.test_spared import Etcd

STORE = Store("Volume", "claim", "etcd")
ORDER = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", STORE, verify=True)
DELETION = replace(ORDER, action="delete", verify=False)
MANIFEST = Manifest("0a", 5, "3.7.3", 1056, "ff", "2026-01-01T00:00:00Z", "ns/b", "uid-b")
STOPPED = Failure("Interrupted", "the pod was told to stop")


class Folder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.sink = Sink(STORE, None, root=str(root), owner_uid="uid-b")

    def put(self, key: str, owner: str = "uid-b") -> str:
        beside = manifest.serialise(replace(MANIFEST, owner_uid=owner))
        (self.root / key).touch()
        (self.root / names.manifest_of(key)).write_bytes(beside)
        return key

    def files(self) -> list[str]:
        return sorted(one.name for one in self.root.iterdir())

    async def remove(self, **changes: Any) -> Removed | Failure:
        return await remove(replace(DELETION, **changes), self.sink)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


class Taken:
    """A member whose snapshot was already taken."""

    answer = type("Answer", (), {"cluster_id": 10, "revision": 5, "version": "3.7.3"})


async def taken(folder: Folder, backup: Backup, key: str = "etcd") -> Any:
    """Runs a backup until just after the snapshot has its final name."""
    body = bytes(4096)
    data = body + hashlib.sha256(body).digest()

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield data
        await withdraw(backup._order, backup._sink, key, "00000000000000aa", 9)

    await folder.sink.write(key, pieces())
    sha256 = hashlib.sha256(data).hexdigest()
    fields = {"member": Taken, "key": key, "size": len(data), "sha256": sha256, "measured": None}
    return type("Taken", (), fields | {"tail": data[-32:]})


async def stopped_while_it_reads(folder: Folder, key: str = "etcd") -> None:
    backup = Backup(ORDER, folder.sink, Meter())
    found = await taken(folder, backup, key)
    backup.stop(STOPPED)
    with pytest.raises(Exception, match="told to stop"):
        await backup._finish(found)


async def test_a_backup_that_was_stopped_while_it_was_read_back_was_left_behind(
    folder: Folder,
) -> None:
    """It had its final name and no manifest, so nothing said whose it was."""
    await stopped_while_it_reads(folder)
    assert "etcd" in folder.files()

    assert await folder.remove() == Removed(1)
    assert not folder.files()


async def test_a_backup_that_was_killed_while_it_was_read_back_was_left_behind(
    folder: Folder,
) -> None:
    backup = Backup(ORDER, folder.sink, Meter())

    begun = asyncio.Event()

    async def hang(_: str) -> AsyncIterator[bytes]:
        begun.set()
        await asyncio.Event().wait()
        yield b""

    folder.sink.read = hang  # type: ignore[assignment,method-assign]
    reading = asyncio.create_task(backup._finish(await taken(folder, backup)))
    await begun.wait()
    reading.cancel()
    await asyncio.wait([reading])

    assert await folder.remove() == Removed(1)
    assert not folder.files()


class Hashing(Etcd):
    """A member that reads its keys from a slow disk, once more after the snapshot."""

    async def measured(self, member: Member) -> tuple[Member, Measured]:
        return member, Measured(1, ())

    async def measure_again(self, *_: object) -> Measured:
        self.late()
        await asyncio.Event().wait()
        raise AssertionError

    def late(self) -> None:
        """Called when the time is over."""


@pytest.mark.parametrize("shared", [False, True], ids=["its own", "another object's by then"])
async def test_a_backup_whose_time_was_over_at_the_last_hash_was_left_behind(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Each night a schedule with `verify: Restore` left a whole file without a manifest. No status
    named it, and neither retention nor deletionPolicy deleted it."""
    monkeypatch.setattr(process, "Source", Hashing)
    monkeypatch.setattr(process, "STOP_SECONDS", 0.01)
    order = replace(ORDER, verify=False, measure=True)
    backup = Backup(order, folder.sink, Meter())

    def late(_: Any) -> None:
        backup.stop(replace(STOPPED, reason="TimedOut", final=True))
        if shared:
            folder.put("etcd", "uid-other")
            (folder.root / "etcd").write_bytes(b"theirs")

    monkeypatch.setattr(Hashing, "late", late)
    said = await backup.run()

    assert isinstance(said, Failure)
    assert said.reason == "TimedOut"
    assert said.left == ("" if shared else STORE.location("etcd"))
    assert await folder.remove() == Removed(0 if shared else 1)
    assert bool(folder.files()) == shared


async def test_a_failed_backup_named_and_then_deleted_the_file_of_another_at_its_path(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It replaced the file between its mark and the failure, as a script does that has no manifest.
    The mark still said that the file was of this object."""
    monkeypatch.setattr(process, "Source", Etcd)
    backup = Backup(ORDER, folder.sink, Meter())

    async def replaced(_: str) -> AsyncIterator[bytes]:
        (folder.root / "etcd").write_bytes(b"theirs")
        raise StoreFailed(Failure("StoreUnreachable", "the store fell silent"))
        yield b""

    monkeypatch.setattr(folder.sink, "read", replaced)
    said = await backup.run()

    assert isinstance(said, Failure)
    assert (said.reason, said.left) == ("StoreUnreachable", "")
    assert await folder.remove() == Removed(0)
    assert "etcd" in folder.files()


@pytest.mark.parametrize("reason", ["Interrupted", "TimedOut"])
async def test_a_backup_that_was_told_to_stop_still_deleted_old_ones(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """It is stopped because a restore has been declared that reads one of them."""
    monkeypatch.setattr(process, "Source", Etcd)
    monkeypatch.setattr(process, "STOP_SECONDS", 0.01)
    old = [folder.put(names.stamped("etcd", 5, f"2020-01-0{day}-00:00:00")) for day in (1, 2, 3)]
    backup = Backup(replace(ORDER, stamped=True, keep=1), folder.sink, Meter())

    async def told(_: str) -> AsyncIterator[bytes]:
        backup.stop(replace(STOPPED, reason=reason))
        await asyncio.Event().wait()
        yield b""

    monkeypatch.setattr(folder.sink, "read", told)
    await backup.run()

    left = [key for key in old if key in folder.files()]
    assert left == (old if reason == "Interrupted" else old[2:])


@pytest.mark.parametrize("silent", [False, True])
async def test_a_store_that_took_no_mark_hid_why_the_backup_had_failed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(process, "Source", Hashing)
    monkeypatch.setattr(process, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(process, "MARK_SECONDS", 0.01)
    backup = Backup(replace(ORDER, verify=False, measure=True), folder.sink, Meter())
    monkeypatch.setattr(Hashing, "late", lambda _: backup.stop(STOPPED))

    async def put(*_: object) -> None:
        if silent:
            await asyncio.Event().wait()
        raise StoreFailed(Failure("StoreUnreachable", "the store has failed too"))

    monkeypatch.setattr(folder.sink, "put", put)
    said = await backup.run()

    assert isinstance(said, Failure)
    assert (said.reason, said.left) == (STOPPED.reason, STORE.location("etcd"))


@pytest.mark.parametrize("stored", [True, False])
async def test_a_backup_that_the_store_joined_as_the_time_was_over_was_left_behind(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """It takes long to join the parts of a large one, and goes on when nobody waits any more."""
    monkeypatch.setattr(process, "Source", Etcd)
    monkeypatch.setattr(process, "STOP_SECONDS", 0.01)
    backup, write = Backup(replace(ORDER, verify=False), folder.sink, Meter()), folder.sink.write

    async def joined(key: str, pieces: AsyncGenerator[bytes, None]) -> None:
        if stored:
            await write(key, pieces)
        async for _ in pieces:
            """All of it is sent."""
        backup.stop(STOPPED)
        await asyncio.Event().wait()

    monkeypatch.setattr(folder.sink, "write", joined)
    said = await backup.run()

    assert isinstance(said, Failure)
    assert said.left == (STORE.location("etcd") if stored else "")
    assert await folder.remove() == Removed(int(stored))
    assert not folder.files()


async def test_a_stopped_backup_of_an_interval_is_deleted_with_the_object(folder: Folder) -> None:
    key = names.stamped("etcd", 5, "2026-01-01-00:00:00")
    await stopped_while_it_reads(folder, key)

    assert await folder.remove(stamped=True) == Removed(1)
    assert not folder.files()


async def test_a_backup_about_to_replace_one_of_the_same_object_was_left_behind(
    folder: Folder,
) -> None:
    """Whichever of the two is stored there, both belong to this object."""
    folder.put("etcd")
    await withdraw(ORDER, folder.sink, "etcd", "00000000000000aa", 9)

    assert await folder.remove() == Removed(1)
    assert not folder.files()


@pytest.mark.parametrize("beside", ["uid-other", ""])
async def test_a_backup_about_to_replace_one_of_another_object_is_left_alone(
    folder: Folder, beside: str
) -> None:
    folder.put("etcd", "uid-other")
    if not beside:
        (folder.root / "etcd.manifest.json").write_bytes(manifest.undecided())
    await withdraw(ORDER, folder.sink, "etcd", "0a", 9)

    assert await folder.remove() == Removed(0)
    assert "etcd" in folder.files()


async def test_a_backup_that_was_not_read_back_is_verified_by_etcds_hash(folder: Folder) -> None:
    await stopped_while_it_reads(folder)

    assert await fetching._manifest(folder.sink, "etcd") is None


async def test_an_interrupted_removal_continues(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the manifest exists, it says whose file this is."""
    folder.put("etcd")
    with killed_after_one_deletion(monkeypatch):
        await folder.remove()

    assert await folder.remove() == Removed(1)
    assert not folder.files()


async def test_what_the_next_run_of_a_schedule_is_about_to_store_is_left_alone(
    folder: Folder,
) -> None:
    unfinished = names.unfinished("etcd", "uid-b", "00ff")
    (folder.root / unfinished).touch()

    assert await folder.remove(scheduled=True) == Removed(0)
    assert folder.files() == [unfinished]
    assert await folder.remove() == Removed(0)
    assert not folder.files(), "of a single one it is what its own Job has left"


@pytest.mark.parametrize("path", ["etcd", "folder/"])
async def test_what_was_stored_before_the_spec_had_an_interval_was_left_behind(
    folder: Folder, path: str
) -> None:
    """It lies at the path itself. Only names with revision and time were looked for."""
    (folder.root / "folder").mkdir()
    at_once, later = path if path == "etcd" else "", day(path, 2)
    put = [folder.put(key) for key in (at_once, later) if key]

    assert await folder.remove(stamped=True, store=replace(STORE, key=path)) == Removed(len(put))
    assert folder.files() == ["folder"]


def at(key: str) -> str:
    return STORE.location(key)


def day(path: str, number: int) -> str:
    return names.stamped(path, number, f"2026-01-{number:02}-00:00:00")


async def test_manifests_of_others_were_read_one_by_one_until_the_time_was_over(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands that an earlier object of that name had left, at each try again."""
    theirs = [folder.put(day("etcd", number), "uid-other") for number in range(2, 32)]
    folder.put(day("etcd", 1))
    reading = count_reads(monkeypatch, folder.sink)

    assert await folder.remove(stamped=True) == Removed(1)
    assert reading.most == AT_ONCE
    assert folder.files() == sorted([*theirs, *map(names.manifest_of, theirs)])


async def test_what_another_object_replaces_meanwhile_is_left_alone(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests are read some at a time."""
    kept, deleted = (folder.put(day("etcd", number)) for number in (1, 2))
    delete = folder.sink.delete

    async def meanwhile(keys: Iterable[str]) -> None:
        folder.put(kept, "uid-other")
        await delete(keys)

    monkeypatch.setattr(folder.sink, "delete", meanwhile)

    assert await folder.remove(stamped=True) == Removed(1)
    assert kept in folder.files()
    assert deleted not in folder.files()


class TestAPathThatWasEdited:
    """The deletion looked at the new path, found nothing there, and reported success."""

    async def test_what_the_status_names_as_stored_is_deleted(self, folder: Folder) -> None:
        folder.put("old")

        assert await folder.remove(also=(at("old"),)) == Removed(1)
        assert not folder.files()

    async def test_it_is_deleted_beside_what_is_at_the_new_path(self, folder: Folder) -> None:
        for key in ("old", "etcd"):
            folder.put(key)

        assert await folder.remove(also=(at("old"),)) == Removed(2)

    @pytest.mark.parametrize("stamped", [True, False])
    async def test_all_backups_of_an_interval_beside_the_last_one_are_deleted(
        self, folder: Folder, stamped: bool
    ) -> None:
        """Also if the spec has no interval any more."""
        for number in (1, 2, 3):
            folder.put(day("old", number))
        theirs = folder.put(day("old", 4), "uid-other")

        found = await folder.remove(stamped=stamped, also=(at(day("old", 3)),))

        assert found == Removed(3)
        assert folder.files() == [theirs, names.manifest_of(theirs)]

    async def test_what_belongs_to_another_object_is_left_alone(self, folder: Folder) -> None:
        """Whoever may write a status must not be able to choose what is deleted."""
        folder.put("theirs", "uid-other")

        assert await folder.remove(also=(at("theirs"),)) == Removed(0)
        assert "theirs" in folder.files()

    @pytest.mark.parametrize(
        "location", ["volume://other/old", "s3://claim/old", "volume://claim/../old", "old", ""]
    )
    async def test_what_is_in_another_store_is_not_reported_as_deleted(
        self, folder: Folder, location: str
    ) -> None:
        """It is not looked for either: the credentials are for the store in the spec."""
        folder.put("etcd")

        found = await folder.remove(also=(location,))

        assert isinstance(found, Failure)
        assert found.final
        assert "spec.volume.path" in found.message
        assert repr(location) in found.message
        assert not folder.files()
