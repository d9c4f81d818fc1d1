"""Folders in memory, for the data of the many etcd that these tests run.

A disk that others write to can take seconds to sync; how long etcd takes for that is not what these
tests are about.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH = 4 * 2**30
"""Bytes. Every etcd takes 64 MB for its log at once."""


@contextlib.contextmanager
def folder(otherwise: Path) -> Iterator[Path]:
    """In memory where there is enough of it."""
    if not (MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH):
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as made:
        yield Path(made)
