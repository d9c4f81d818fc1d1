"""Folders in memory for the data of the many etcd processes that these tests run.

A busy disk can take seconds to sync, and these tests are not about the speed of disks.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH = 4 * 2**30
"""Bytes. Every etcd preallocates 64 MB for its WAL."""


@contextlib.contextmanager
def folder(otherwise: Path) -> Iterator[Path]:
    """A folder in memory if there is enough, else `otherwise`."""
    if not (MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH):
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as made:
        yield Path(made)
