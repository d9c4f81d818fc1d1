"""Foreign files below a schedule's path: which of them count, and how status reports them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.backup.sink import Sink
from etcd_operator.backup.surveying import survey
from etcd_stateful import naming
from etcd_stateful.api.backup import parse_backup
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import manifest, order, outcome, schedule_status, status
from etcd_stateful.backup.foreign_files import (
    MOST_LISTED,
    File,
    ForeignFile,
    ForeignFiles,
    find_foreign_files,
)
from etcd_stateful.backup.observed import Run
from etcd_stateful.backup.outcome import Stored
from etcd_stateful.backup.scheduled import ScheduledBackup
from etcd_stateful.backup.steps import WriteStatus
from etcd_stateful.manifests.backup_job import backup_job

MINE = "daily/etcd_2026-11-21-03:00_0123abcd"
OWN = (MINE, f"{MINE}.manifest.json")
IN_FOLDER = "daily/2026-11-21-03:00_0123abcd"
DAY = "2026-11-20T00:00:00Z"


def test_a_file_whose_manifest_describes_neither_of_two_counts_as_unfinished() -> None:
    neither = len(manifest.undecided("uid-b", f"{1:016x}"))
    found = find_foreign_files(MINE, [File(OWN[0], 999, DAY), File(OWN[1], neither, DAY)])

    assert found is not None
    assert [one.manifest for one in found.newest] == [False]


def counted(mine: str, *keys: str) -> list[str]:
    found = find_foreign_files(mine, [File(key, 999, DAY) for key in keys])
    assert found is not None
    path = mine[: -len("_2026-11-21-03:00_0123abcd")] if mine == MINE else "daily/"
    return sorted(path + one.rest for one in found.newest)


@pytest.mark.parametrize(
    "key",
    [
        "daily/etcd_2026-11-20-03:00_ffffffff",  # of an earlier schedule with that name
        "daily/etcd_v7_2020-01-01-00:00:00",  # of an interval, or of the coreos operator
        "daily/etcd",
        "daily/etcd/by-hand.db",
    ],
)
def test_a_file_below_the_path_counts(key: str) -> None:
    assert counted(MINE, *OWN, key) == [key]


@pytest.mark.parametrize(
    "key",
    [
        "daily/etcd_vegetables",
        "daily/etcd-other_2026-11-20-03:00_ffffffff",
        "daily/etcd_other_2026-11-20-03:00_ffffffff",
        "daily/etc",
        "other",
    ],
)
def test_a_similar_name_next_to_it_does_not(key: str) -> None:
    assert counted(MINE, *OWN, key) == []


def test_its_own_do_not() -> None:
    before = "daily/etcd_2026-11-20-03:00_0123abcd"

    assert counted(MINE, *OWN, before, f"{before}.manifest.json") == []


def test_what_its_own_run_left_unfinished_counts() -> None:
    """It has the schedule's digits in its name and was hidden because of them, but nothing ever
    deletes it."""
    before = "daily/etcd_2026-11-20-03:00_0123abcd"

    assert counted(MINE, *OWN, before) == [before]
    cut_off = find_foreign_files(
        MINE, [File(key, 999, DAY) for key in (*OWN, before)], partial=True
    )
    assert cut_off is not None
    assert cut_off.count == 0, "its manifest may be among what was not listed"


def test_a_path_that_is_a_folder_includes_everything_in_it() -> None:
    own = [IN_FOLDER, "daily/2026-11-20-03:00_0123abcd"]
    beside = [f"{key}.manifest.json" for key in own]

    found = counted(IN_FOLDER, *own, *beside, "daily/a/b", "daily/x")

    assert found == ["daily/a/b", "daily/x"]


def test_a_manifest_is_not_a_backup_but_shows_that_there_is_one() -> None:
    keys = ("daily/a", "daily/b", "daily/b.manifest.json", "daily/c.manifest.json")
    found = find_foreign_files(IN_FOLDER, [File(key, 999, DAY) for key in keys])

    assert found is not None
    assert {one.rest: one.manifest for one in found.newest} == {"a": False, "b": True}
    assert found.count == 2


def test_the_newest_are_listed_and_all_are_counted() -> None:
    files = [File(f"daily/{day}", day, f"2026-01-{day:02}T00:00:00Z") for day in range(1, 30)]
    found = find_foreign_files(IN_FOLDER, files)

    assert found is not None
    assert found.count == 29
    assert [one.size for one in found.newest] == list(range(29, 29 - MOST_LISTED, -1))


def test_a_backup_of_no_schedule_lists_nothing() -> None:
    assert find_foreign_files("daily/etcd", [File("daily/x", 999, DAY)]) is None


STORED = Stored(f"s3://mybucket/{MINE}", "0a", 42, "3.7.3", 1056, "ff", key=MINE)
SEEN = ForeignFiles(
    3,
    (
        ForeignFile("/x", 5, DAY, manifest=True),
        ForeignFile("_v7_2020-01-01-00:00:00", 6, DAY, manifest=False),
    ),
)


@pytest.mark.parametrize("told", [None, SEEN, ForeignFiles(0), replace(SEEN, partial=True)])
def test_a_job_reports_it(told: ForeignFiles | None) -> None:
    stored = replace(STORED, others=told)

    assert outcome.parse(outcome.serialise(stored)).stored == stored


def test_the_message_fits_however_long_the_names_are() -> None:
    """A truncated message could not be read at all, and the backup would be repeated."""
    names = ("ü" * 400 + str(number) for number in range(MOST_LISTED))
    long = tuple(ForeignFile(name, 1, DAY, manifest=True) for name in names)
    stored = replace(STORED, notes=("ü" * 300,) * 3, others=ForeignFiles(50, long))
    text = outcome.serialise(stored)

    assert len(text.encode()) <= 4096
    found = outcome.parse(text).stored
    assert found is not None
    assert found.others is not None
    assert found.others.count == 50
    assert found.others.newest == long[: len(found.others.newest)]
    assert found.others.newest


async def test_a_folder_beside_the_path_that_cannot_be_read_hid_all_files_of_a_volume(
    tmp_path: Path,
) -> None:
    """For example `lost+found` of root, on a volume that is a whole disk. Here a link that leads
    nowhere keeps it from being read."""
    for folder in ("lost+found", "etcd/by-hand"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "lost+found/link").symlink_to("link")
    for name in ("etcd_2026-11-20-03:00_ffffffff", "etcd/by-hand/a.db", "etcd/b.unfinished"):
        (tmp_path / name).write_bytes(b"of before")
    key = "etcd_2026-11-21-03:00_0123abcd"
    sink = Sink(Store("Volume", "claim", key), None, root=str(tmp_path))

    found = await survey(sink, key)

    assert found is not None
    rests = sorted(one.rest for one in found.newest)
    assert rests == ["/by-hand/a.db", "_2026-11-20-03:00_ffffffff"]
    assert await sink.names("no-such-folder/etcd_v") == []


def test_the_message_of_an_older_job_can_be_read() -> None:
    text = outcome.serialise(STORED).replace(', "others": null', "")

    assert '"others"' not in text
    assert outcome.parse(text).stored == STORED


@pytest.mark.parametrize("label", [{}, {naming.SCHEDULE: "nightly"}])
def test_only_the_job_of_a_scheduled_backup_looks(label: dict[str, str]) -> None:
    spec = {"etcdEndpoints": ["http://c:2379"], "storageType": "S3", "s3": {"path": "b/k"}}
    metadata = {"namespace": "ns", "name": "b", "uid": "uid-b", "labels": label}
    job = backup_job(
        parse_backup({"metadata": metadata, "spec": spec}), Run("g1", 0.0), None, operator_image="o"
    )
    told = job["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]

    assert order.parse(told).scheduled is bool(label)


def of_backup(told: ForeignFiles | None, body: dict[str, Any]) -> dict[str, Any]:
    said = WriteStatus("Stored", "", "True", stored=replace(STORED, others=told), began=1.0)
    return status.render(body, Run("g1", 0.0), said, job="", began="b", now="now")


def test_it_is_in_the_status_of_the_backup() -> None:
    body: dict[str, Any] = {"metadata": {"generation": 1}}
    first = of_backup(SEEN, body)

    assert first["otherBackups"] == {
        "seen": "now",
        "count": 3,
        "partial": False,
        "newest": [
            {"location": "s3://mybucket/daily/etcd/x", "size": 5, "modified": DAY,
             "manifest": True},
            {"location": "s3://mybucket/daily/etcd_v7_2020-01-01-00:00:00", "size": 6,
             "modified": DAY, "manifest": False},
        ],
    }  # fmt: skip
    quiet = status.render(
        {**body, "status": first}, None, WriteStatus("", ""), job="", began="", now="n"
    )
    assert quiet["otherBackups"] == first["otherBackups"]
    assert "otherBackups" not in of_backup(None, {**body, "status": first})


def made(moment: int, told: dict[str, Any] | None) -> ScheduledBackup:
    return ScheduledBackup(f"s-{moment}", f"uid-{moment}", "1", moment, "stored", others=told)


def test_a_schedule_reports_what_its_newest_backup_found_and_keeps_it() -> None:
    old, new, body = {"count": 1}, {"count": 2}, {"status": {"otherBackups": {"count": 3}}}
    newest = [made(3, None), made(2, new), made(1, old)]

    assert schedule_status.others(body, newest) == {"otherBackups": new}
    assert schedule_status.others(body, newest[:1]) == {"otherBackups": {"count": 3}}
    assert schedule_status.others({}, newest[:1]) == {}


def test_the_proof_of_the_run_before_does_not_stay() -> None:
    body: dict[str, Any] = {"metadata": {"generation": 1}, "status": {"verified": "Hash"}}

    assert "verified" not in of_backup(None, body)
