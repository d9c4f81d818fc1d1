"""What goes wrong with data on disks, done on purpose. Only the local cluster's disks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from harness.clusters import Cluster
from harness.node import volume_path


def volume_of(cluster: Cluster, ordinal: int) -> Path:
    return volume_path(cluster.kube, cluster.namespace, f"data-{cluster.name}-{ordinal}")


def take_away(volume: Path) -> None:
    """The folder itself is gone, as a disk that is not attached: no pod can mount it."""
    volume.rename(_aside(volume))


def empty_for_now(volume: Path) -> None:
    """Another disk is mounted there, an empty one."""
    take_away(volume)
    volume.mkdir(mode=0o777)
    shutil.copystat(_aside(volume), volume)


def give_back(volume: Path) -> None:
    if volume.exists():
        shutil.rmtree(volume)
    _aside(volume).rename(volume)


def break_log(volume: Path) -> None:
    """In a record that others follow: `start` has no reason to read so far, only etcd finds it."""
    places = _kept(volume)
    _overwrite(_first_log(volume), places[len(places) // 2], 4)


def break_log_head(volume: Path) -> None:
    """Where it says whose log it is; `start` cannot read it either."""
    _overwrite(_first_log(volume), 0, 4096)


def break_database(volume: Path) -> None:
    """Both of the pages that the rest is found by."""
    _overwrite(volume / "data" / "member" / "snap" / "db", 0, 3 * 4096)


def alter_value(volume: Path, old: bytes, new: bytes) -> None:
    """A bit that flips on the disk: the value in the database is another, and nothing notices."""
    assert len(old) == len(new)
    database = volume / "data" / "member" / "snap" / "db"
    data = database.read_bytes()
    assert old in data, "the value is not in the database yet"
    with database.open("r+b") as file:
        position = data.find(old)
        while position >= 0:
            file.seek(position)
            file.write(new)
            position = data.find(old, position + 1)


def kept_in_log(volume: Path) -> int:
    """How many puts of a load are in it."""
    return len(_kept(volume))


def _kept(volume: Path) -> list[int]:
    log = _first_log(volume).read_bytes()
    return [found.start() for found in re.finditer(rb"/kept/", log)]


def _aside(volume: Path) -> Path:
    return volume.with_name(f"{volume.name}.aside")


def _first_log(volume: Path) -> Path:
    return min((volume / "data" / "member" / "wal").glob("*.wal"))


def _overwrite(path: Path, position: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xa5" * length)
