"""What real etcd reports about a damaged data directory, and about other failures to start.

Each test reads what the kubelet would put into the termination message: the end of the log.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import memory
import pytest
from etcd_live import Cluster, Member, eventually, put, put_all
from minors import NEWEST, OLDEST, differing

from etcd_operator.objects.termination_message import recognise

pytestmark = pytest.mark.integration

PAGE = 4096
KUBELET_BYTES = 2048
KUBELET_LINES = 80
"""The most that the kubelet keeps of a log as a termination message."""

GARBAGE = random.Random(7).randbytes(256 * 1024)
BIG = b"x" * 1_000_000
FLAGS = {"snapshot-count": "20"}


def logs(folder: Path) -> list[Path]:
    return sorted((folder / "member/wal").glob("*.wal"))


def written(log: Path) -> int:
    """Where the zeros begin that etcd has laid out beforehand."""
    return len(log.read_bytes().rstrip(b"\0"))


def database(folder: Path) -> Path:
    return folder / "member/snap/db"


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def flip(path: Path, offset: int) -> None:
    content = path.read_bytes()[offset : offset + 4]
    overwrite(path, offset, bytes(one ^ 0xFF for one in content))


def log_record_flipped(folder: Path) -> None:
    flip(logs(folder)[-1], written(logs(folder)[-1]) // 2)


def last_log_record_unreadable(folder: Path) -> None:
    """The wire type of its first field becomes one that there is not."""
    overwrite(logs(folder)[-1], list(frames(logs(folder)[-1]))[-1], b"\x0f")


def frames(log: Path) -> Iterator[int]:
    """Where the records begin: each after its length, the highest byte of which is the padding."""
    content, offset = log.read_bytes(), 0
    while (length := int.from_bytes(content[offset : offset + 8], "little")) != 0:
        yield offset + 8
        padding = (length >> 56) & 7
        offset += 8 + (length & ~(0xFF << 56)) + padding


def database_garbage(folder: Path) -> None:
    size = database(folder).stat().st_size
    database(folder).write_bytes((GARBAGE * (size // len(GARBAGE) + 1))[:size])


def database_zeroed(folder: Path) -> None:
    database(folder).write_bytes(bytes(database(folder).stat().st_size))


def both_metas_garbage(folder: Path) -> None:
    overwrite(database(folder), 0, GARBAGE[: 2 * PAGE])


def every_page_garbage(folder: Path) -> None:
    pages = database(folder).stat().st_size // PAGE - 2
    overwrite(database(folder), 2 * PAGE, (GARBAGE * 100)[: pages * PAGE])


def database_removed(folder: Path) -> None:
    database(folder).unlink()


def database_emptied(folder: Path) -> None:
    os.truncate(database(folder), 0)


class Kept:
    """A member of each minor that has taken snapshots, stopped: made once, and copied."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts: dict[str, str] = {}

    async def copy(self, cluster: Cluster) -> Member:
        if cluster.minor not in self._hosts:
            await self._make(cluster)
            return cluster.first[0]
        member = cluster.new_member(self._hosts[cluster.minor])
        member.flags = FLAGS
        shutil.copytree(self._folder / cluster.minor, member.folder)
        cluster.first = [member]
        return member

    async def _make(self, cluster: Cluster) -> None:
        cluster.begin(1, **FLAGS)
        await cluster.ready()
        [member] = cluster.first
        await put_all(member, ((b"key-%d" % n, b"v" * 2000) for n in range(80)))
        member.stop()
        shutil.copytree(member.folder, self._folder / cluster.minor)
        self._hosts[cluster.minor] = member.host


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with memory.folder(tmp_path_factory.mktemp("kept")) as folder:
        yield Kept(folder)


@differing("cluster", OLDEST, NEWEST)
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (log_record_flipped, "wal: crc mismatch"),
        (last_log_record_unreadable, "its log holds records that are none"),
        (database_garbage, "failed to open database: invalid database"),
        (database_zeroed, "failed to open database: invalid database"),
        (both_metas_garbage, "failed to open database: invalid database"),
        (every_page_garbage, "a page of its database identifies as another one"),
        (database_removed, "failed to find database snapshot file"),
        (database_emptied, "failed to find database snapshot file"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
async def test_damaged_data_is_recognised_by_etcds_last_message(cluster, damage, words, kept):
    member = await kept.copy(cluster)
    damage(member.folder)
    assert recognise(await _last_words(cluster, member)) == words


async def test_a_wal_with_a_missing_or_garbled_middle_is_damage(cluster, kept):
    member = await kept.copy(cluster)
    _begin(cluster, member)
    await cluster.ready()
    await put_all(member, ((b"big", BIG) for _ in range(150)))
    member.stop()
    first, middle, *_ = logs(member.folder)
    head = middle.read_bytes()[:64]
    overwrite(middle, 0, GARBAGE[:64])
    assert recognise(await _last_words(cluster, member)) == "failed to read WAL, cannot be repaired"
    overwrite(middle, 0, head)
    middle.rename(first.with_name("aside"))
    assert recognise(await _last_words(cluster, member)) == "wal: crc mismatch"


async def test_a_truncated_wal_is_noticed_once_the_leader_is_heard(cluster):
    """It starts normally, and then lacks entries that it has confirmed."""
    cluster.begin(3)
    etcd = await cluster.ready()
    leader = await cluster.leader(etcd)
    victim = next(member for member in cluster.first if member is not leader)
    await put_all(leader, ((b"key-%d" % n, b"v" * 500) for n in range(50)))
    await asyncio.sleep(0.3)
    victim.kill()
    os.truncate(logs(victim.folder)[-1], written(logs(victim.folder)[-1]) // 2)
    words = recognise(await _last_words(cluster, victim))
    assert "lacks entries that it has confirmed" in words


def log_head_garbage(folder: Path) -> None:
    overwrite(logs(folder)[0], 0, GARBAGE[:64])


def log_files_removed(folder: Path) -> None:
    for log in logs(folder):
        log.unlink()


def database_cut_short(folder: Path) -> None:
    os.truncate(database(folder), 3 * PAGE)


def disk_full(folder: Path) -> None:
    database(folder).unlink()
    database(folder).symlink_to("/dev/full")


def disk_fails(folder: Path) -> None:
    database(folder).unlink()
    database(folder).symlink_to("/proc/self/mem")


def database_is_a_folder(folder: Path) -> None:
    database(folder).unlink()
    database(folder).mkdir()


def log_is_a_folder(folder: Path) -> None:
    logs(folder)[0].unlink()
    (folder / "member/wal/0000000000000000-0000000000000000.wal").mkdir()


@pytest.mark.parametrize(
    "cause",
    [
        log_head_garbage,  # `start` says so, having read it
        log_files_removed,  # `start` again: there is no data
        database_cut_short,  # SIGBUS, which a failing disk leads to as well
        disk_full,
        disk_fails,
        database_is_a_folder,
        log_is_a_folder,
    ],
    ids=lambda one: one.__name__,
)
async def test_other_causes_are_not_taken_for_damage(cluster, cause, kept):
    member = await kept.copy(cluster)
    cause(member.folder)
    said = await _last_words(cluster, member)
    assert said
    assert recognise(said) == ""


async def test_a_port_in_use_is_no_damage(cluster, kept):
    member = await kept.copy(cluster)
    with socket.create_server((member.host, member.peer_port)):
        said = await _last_words(cluster, member)
    assert "address already in use" in said
    assert recognise(said) == ""


async def test_a_file_size_limit_is_no_damage(cluster, kept):
    """As a quota: writes fail while etcd runs."""
    member = await kept.copy(cluster)
    _begin(cluster, member)
    await cluster.ready()
    process = member.process
    assert process is not None
    size = database(member.folder).stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    for n in itertools.count():
        if process.poll() is not None:
            break
        assert n < 500
        try:
            await put(member, b"big-%d" % n, BIG)
        except Exception:  # noqa: BLE001 - it dies at one of them
            await asyncio.sleep(0.05)
    assert recognise(_tail(member)) == ""


async def test_a_removed_member_is_not_damaged(cluster):
    cluster.begin(3)
    etcd = await cluster.ready()
    leader = await cluster.leader(etcd)
    victim = next(member for member in cluster.first if member is not leader)

    async def removed():
        await etcd.member_remove(cluster.at(leader), cluster.member_id(victim))
        return True

    await eventually(removed)
    victim.kill()
    assert recognise(await _last_words(cluster, victim)) == ""


def _begin(cluster: Cluster, member: Member) -> None:
    member.start(cluster.initial_cluster([member]), cluster.token, "existing")


async def _last_words(cluster: Cluster, member: Member, seconds: float = 60.0) -> str:
    """Starts the member and waits for its end."""
    member.log.unlink(missing_ok=True)
    _begin(cluster, member)
    process = member.process
    assert process is not None
    async with asyncio.timeout(seconds):
        while process.poll() is None:
            await asyncio.sleep(0.02)
    return _tail(member)


def _tail(member: Member) -> str:
    end = member.log.read_bytes()[-KUBELET_BYTES:].decode(errors="replace")
    return "\n".join(end.splitlines()[-KUBELET_LINES:])
