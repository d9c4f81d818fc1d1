"""A restore names the path of a schedule, at which there is no backup: the message says which one
there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from etcd_operator.backup.describing import describe
from etcd_operator.backup.sink import Sink
from etcd_operator.backup.surveying import nothing_at
from etcd_stateful.api.stores import Store
from etcd_stateful.backup.foreign_files import File, newest_backup
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure

OLD = "shop/etcd_2026-11-21-03:00_0123abcd"
NEW = "shop/etcd_2026-11-22-03:00_0123abcd"


def stored(*keys: str, day: int = 1) -> list[File]:
    """Files with manifests, each a day newer than the one before."""
    days = [(key, f"2026-11-{day + n:02}T03:00:00Z") for n, key in enumerate(keys)]
    return [File(name, 999, when) for key, when in days for name in (key, f"{key}.manifest.json")]


@pytest.mark.parametrize("path", ["shop/etcd", "shop"])
def test_the_newest_is_found_by_the_path_of_its_schedule_and_by_its_folder(path: str) -> None:
    newest = newest_backup(path, stored(OLD, NEW))

    assert newest is not None
    assert newest.key == NEW


@pytest.mark.parametrize(
    "files",
    [
        [],
        [File(NEW, 999, "2026-11-22T03:00:00Z")],
        [*stored(NEW)[:1], File(f"{NEW}.manifest.json", 2, "2026-11-22T03:00:00Z")],
        stored("shop/etcd-of-another_2026-11-22-03:00_0123abcd"),
    ],
    ids=["nothing", "no manifest", "emptied manifest", "another path"],
)
def test_what_is_not_a_complete_backup_of_that_path_is_not_named(files: list[File]) -> None:
    assert newest_backup("shop/etcd", files) is None


async def test_a_restore_by_the_path_of_a_schedule_said_only_that_nothing_is_there(
    tmp_path: Path,
) -> None:
    store = Store("Volume", "claim", "shop/etcd")
    (tmp_path / "shop").mkdir()
    for age, key in enumerate((NEW, OLD)):
        for name in (key, f"{key}.manifest.json"):
            (tmp_path / name).write_bytes(bytes(999))
            os.utime(tmp_path / name, (1_790_000_000 - age, 1_790_000_000 - age))
    sink = Sink(store, None, root=str(tmp_path))

    told = await describe(Order("ns/shop", "uid", (), "", store, action="describe"), sink)

    assert isinstance(told, Failure)
    assert f"the newest below it is {NEW!r} of 2026-09-21T" in told.message
    elsewhere = Store("Volume", "claim", "elsewhere")
    words = "spec.volume.path: there is no 'elsewhere' in 'claim'"
    assert await nothing_at(sink, elsewhere, "elsewhere") == words
