"""Damages data on the disks of the local cluster."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from harness.clusters import Cluster
from harness.node import volume_path


def volume_of(cluster: Cluster, ordinal: int) -> Path:
    return volume_path(cluster.kube, cluster.namespace, f"data-{cluster.name}-{ordinal}")


def take_away(volume: Path) -> None:
    """Removes the folder itself, so that no pod can mount it, as with a disk that is detached."""
    volume.rename(_aside(volume))


def empty_for_now(volume: Path) -> None:
    """Replaces the folder by an empty one, as if another disk were mounted there."""
    take_away(volume)
    volume.mkdir(mode=0o777)
    shutil.copystat(_aside(volume), volume)


def give_back(volume: Path) -> None:
    if volume.exists():
        shutil.rmtree(volume)
    _aside(volume).rename(volume)


def break_log(volume: Path) -> None:
    """Damages a record in the middle of the WAL, which etcd finds, but not `start`."""
    places = _kept(volume)
    _overwrite(_first_log(volume), places[len(places) // 2], 4)


def break_log_head(volume: Path) -> None:
    """Damages the records with the IDs at the head of the WAL, which `start` reads as well."""
    _overwrite(_first_log(volume), 0, 4096)


def break_database(volume: Path) -> None:
    """Damages both meta pages of the database."""
    _overwrite(volume / "data" / "member" / "snap" / "db", 0, 3 * 4096)


def alter_value(volume: Path, old: bytes, new: bytes) -> None:
    """Changes a value in the database, as a flipped bit would. No checksum covers it."""
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
    """How many puts of a load are in the WAL."""
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
