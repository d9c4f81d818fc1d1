"""Old backups of an interval: which of them `maxBackups` deletes from a store."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.backup import pruning, stored_manifest
from etcd_operator.backup.pruning import prune
from etcd_operator.backup.sink import Sink
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.manifest import Manifest
from etcd_stateful.backup.order import Order
from unit.backup.killed_deletions import killed_after_one_deletion
from unit.backup.reading_at_once import count_reads

STORE = Store("Volume", "claim", "etcd")
ORDER = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", STORE, stamped=True, keep=2)
MANIFEST = Manifest("0a", 5, "3.7.3", 1056, "ff", "2026-01-01T00:00:00Z", "ns/b", "uid-b")


class Folder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.sink = Sink(STORE, None, root=str(root))

    def put(self, day: int, owner: str | None = "uid-b", hour: int = 0, cluster: str = "0a") -> str:
        """Stores a backup of that day. `owner` is the UID in its manifest; None: it has no
        manifest."""
        key = names.stamped("etcd", 5, f"2026-01-{day:02}-{hour:02}:00:00")
        (self.root / key).touch()
        if owner is not None:
            beside = manifest.serialise(replace(MANIFEST, owner_uid=owner, cluster_id=cluster))
            (self.root / names.manifest_of(key)).write_bytes(beside)
        return key

    def fail(self, day: int, hour: int = 0, owner: str = "uid-b") -> str:
        """Stores a backup of that day that was not finished."""
        key = self.put(day, None, hour)
        (self.root / names.manifest_of(key)).write_bytes(manifest.undecided(owner))
        return key

    def days(self) -> list[int]:
        """The days of the stored backups. Each must have its manifest, if it had one."""
        keys = names.newest_first("etcd", (path.name for path in self.root.iterdir()))
        return sorted(int(key[-11:-9]) for key in keys)

    async def prune(self, made: str, **changes: Any) -> int:
        return await prune(replace(ORDER, **changes), self.sink, made)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def test_the_oldest_are_deleted_with_their_manifests(folder: Folder) -> None:
    made = [folder.put(day) for day in (1, 2, 3, 4)]

    assert await folder.prune(made[-1]) == 2

    assert folder.days() == [3, 4]
    assert len(list(folder.root.iterdir())) == 4


async def test_two_objects_with_one_path_leave_each_others_backups_alone(folder: Folder) -> None:
    """Each deleted the other's backups, and both had half of what they should keep."""
    for day in (1, 3, 5):
        folder.put(day, "uid-other")
    made = [folder.put(day) for day in (2, 4, 6)]

    assert await folder.prune(made[-1]) == 1

    assert folder.days() == [1, 3, 4, 5, 6]


async def test_the_newest_stays_although_the_clock_is_behind(folder: Folder) -> None:
    for day in (10, 11):
        folder.put(day)
    made = folder.put(1)

    assert await folder.prune(made) == 0

    assert folder.days() == [1, 10, 11]


async def test_backups_of_a_clock_that_was_ahead_used_up_the_places_of_all_later_ones(
    folder: Folder,
) -> None:
    """By their names they were the newest for weeks, and beside them only the last two stayed."""
    for day in (28, 29, 30):
        folder.put(day)
    made = [folder.put(day) for day in (1, 2, 3, 4)]

    assert await folder.prune(made[-1], keep=3) == 1

    assert folder.days() == [2, 3, 4, 28, 29, 30]


async def test_the_last_verified_backup_stays(folder: Folder) -> None:
    made = [folder.put(day) for day in (1, 2, 3, 4)]

    assert await folder.prune(made[-1], spare=(made[0],)) == 1

    assert folder.days() == [1, 3, 4]


async def test_an_empty_cluster_of_the_same_name_used_up_the_backups_of_the_lost_one(
    folder: Folder,
) -> None:
    """It was created after the loss, and its EtcdBackup still existed."""
    for day in (1, 2, 3):
        folder.put(day, cluster="0b")
    made = [folder.put(day) for day in (4, 5, 6)]

    assert await folder.prune(made[-1]) == 3

    assert folder.days() == [3, 5, 6]


async def test_backups_of_the_coreos_operator_are_recognised_by_name(folder: Folder) -> None:
    for day in (1, 2):
        folder.put(day, None)
    made = [folder.put(day) for day in (3, 4)]

    assert await folder.prune(made[-1]) == 2

    assert folder.days() == [3, 4]


async def test_an_unreadable_manifest_is_left_alone(folder: Folder) -> None:
    old = folder.put(1)
    (folder.root / names.manifest_of(old)).write_text('{"format": 2}')
    made = [folder.put(day) for day in (2, 3, 4)]

    assert await folder.prune(made[-1]) == 1

    assert folder.days() == [1, 3, 4]


async def test_a_slow_store_does_not_use_up_the_time_of_the_backup(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "SECONDS", 0.02)
    monkeypatch.setattr(folder.sink, "names", lambda _: asyncio.sleep(5))

    with pytest.raises(TimeoutError):
        await folder.prune("etcd")


async def test_a_failed_attempt_does_not_take_the_place_of_a_verified_backup(
    folder: Folder,
) -> None:
    """A backup that could not be read back has its final name, and no manifest or an unfinished
    one. Two such attempts took two of the three places, and two verified backups were deleted."""
    proven = [folder.put(day) for day in (1, 2, 3)]
    folder.put(4, None, hour=1)
    folder.fail(4, hour=2)
    made = folder.put(4, hour=3)

    assert await folder.prune(made, keep=3, spare=(proven[-1],)) == 1

    assert folder.days() == [2, 3, 4, 4, 4]


async def test_a_backup_that_another_object_is_about_to_finish_stays(folder: Folder) -> None:
    """It has its name and is being read back. It gets a complete manifest only after that."""
    theirs = [folder.put(4, None, 1), folder.fail(4, 2, "uid-other")]
    made = [folder.put(4, hour=hour) for hour in (3, 4)]

    assert await folder.prune(made[-1], keep=1) == 1

    assert all((folder.root / one).exists() for one in theirs)


async def test_an_unfinished_backup_of_another_object_was_deleted_after_a_day(
    folder: Folder,
) -> None:
    """Its cluster was lost while it was read back. It was whole, and the last one of that cluster,
    which had the same path in another namespace."""
    theirs = folder.fail(1, owner="uid-other")
    made = [folder.put(day) for day in (2, 3, 4)]

    assert await folder.prune(made[-1]) == 1

    assert folder.days() == [1, 3, 4]
    assert (folder.root / theirs).exists()


async def test_a_failed_backup_is_deleted_in_the_end(folder: Folder) -> None:
    folder.put(1, None)
    folder.fail(1, hour=1)
    made = [folder.put(day) for day in (2, 3, 4)]

    assert await folder.prune(made[-1]) == 3

    assert folder.days() == [3, 4]


async def test_many_backups_in_a_slow_store_are_deleted_step_by_step(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All manifests were read one after the other before the first backup was deleted. With many of
    them the time was never enough, and nothing was deleted any more."""
    made = [folder.put(day) for day in range(1, 31)]
    really, gone = folder.sink.delete, asyncio.Event()

    async def delete(keys: Any) -> None:
        await really(keys)
        if gone.is_set():
            await asyncio.sleep(3600)
        gone.set()

    monkeypatch.setattr(folder.sink, "delete", delete)
    monkeypatch.setattr(pruning, "SECONDS", 2)
    with pytest.raises(TimeoutError):
        await folder.prune(made[-1])

    assert len(folder.days()) < len(made)


async def test_with_many_backups_to_keep_in_a_slow_store_none_was_ever_deleted(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time was over before the manifests of those that stay were read, and the next run began
    with the same ones."""
    made = [folder.put(day) for day in range(1, 19)]
    get = folder.sink.get

    async def slowly(key: str, most: int) -> bytes | None:
        await asyncio.sleep(0.08)
        return await get(key, most)

    monkeypatch.setattr(folder.sink, "get", slowly)
    monkeypatch.setattr(pruning, "SECONDS", 1.0)
    monkeypatch.setattr(stored_manifest, "AT_ONCE", 1)

    assert await folder.prune(made[-1], keep=16) == 2


async def test_a_half_finished_deletion_is_finished_the_next_time(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest without its backup has a name that nothing looks for."""
    made = [folder.put(day) for day in (1, 2, 3, 4)]
    with killed_after_one_deletion(monkeypatch):
        await folder.prune(made[-1])
    await folder.prune(made[-1])

    assert folder.days() == [3, 4]
    assert len(list(folder.root.iterdir())) == 4


async def test_manifests_are_read_in_parallel(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [folder.put(day) for day in range(1, 21)]
    reading = count_reads(monkeypatch, folder.sink)
    assert await folder.prune(made[-1]) == 18

    assert reading.most == stored_manifest.AT_ONCE


DELETION = """
import asyncio, os, sys
from etcd_operator.backup.removal import remove
from etcd_operator.backup.sink import Sink
from etcd_operator.job_exit import exit_at_once
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.order import Order
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
store = Store("Volume", "claim", "etcd")
order = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", store, stamped=True, action="delete")
print(asyncio.run(remove(order, Sink(store, None, root=sys.argv[1], owner_uid="uid-b"))))
exit_at_once(0)
"""


def test_a_folder_of_root_beside_the_backups_kept_all_of_them() -> None:
    """For example `lost+found` on a volume that is a whole disk: neither maxBackups nor
    deletionPolicy deleted anything there."""
    with tempfile.TemporaryDirectory() as root:
        folder = Folder(Path(root))
        folder.put(1)
        folder.put(2)
        (folder.root / "lost+found").mkdir()
        (folder.root / "lost+found").chmod(0)
        folder.root.chmod(0o777)
        command = [sys.executable, "-c", DELETION, root]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

        assert found.stdout.strip() == "Removed(count=2)"
