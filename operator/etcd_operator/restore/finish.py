"""Moves the data that etcdutl has made to its place on the volume; writes the marker last."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

from etcd_operator.fsync import fsync
from etcd_operator.start import volume
from etcd_operator.start.journal import Journal
from etcd_stateful.jobs.restore import FOLDER, POD, REPLACED, Order, why_not_restored
from etcd_stateful.start import marker


class NotMade(Exception):
    """etcdutl has not made what was ordered, or a member has already run on the volume."""


def finish(order: Order, root: Path, journal: Journal) -> None:
    """Raises NotMade and OSError."""
    made = root / FOLDER
    if why := why_not_restored(order, volume.look(str(made))):
        raise NotMade(why)
    _sync_all(made / "data")
    # Checked only now, as the sync may take a while.
    if volume.has_run(str(root)):
        raise NotMade("a member has run on this volume since the backup was fetched")
    uid = order.settings.pod_uid.encode()
    if volume.read(str(made / POD), len(uid) + 1) != uid:
        raise NotMade("another pod of this Job has begun on the volume since")
    _make_way(root)
    os.rename(made / "data", root / "data")
    fsync(root)
    volume.write(str(root), marker.FILE, marker.serialise(order.marker))
    shutil.rmtree(made)
    journal.conclude(f"{order.settings.member} has the data of the backup")


def _make_way(root: Path) -> None:
    """Takes the present data from its place. A log is from a try of this very restore that died
    here: `fetch` has checked that. Anything else is somebody's, and kept, as `start` does."""
    facts = volume.look(str(root))
    if facts.problem:
        raise NotMade(facts.problem)
    if facts.leftovers:
        volume.move_aside(str(root), "data")
    elif (root / "data").exists():
        os.rename(root / "data", root / REPLACED)


def _sync_all(folder: Path) -> None:
    for path, _, files in os.walk(folder, onerror=_fail):
        for name in files:
            fsync(Path(path) / name)
        fsync(path)


def _fail(error: OSError) -> NoReturn:
    raise error
