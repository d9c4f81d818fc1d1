"""Where the tests of this tier keep the data of the many etcd that they run."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # what all folders of this tier share

MEMORY = Path("/dev/shm")
ENOUGH = 4 * 2**30
"""Bytes. Every etcd takes 64 MB for its log at once."""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is enough of it.

    A disk that others write to can take seconds to sync; how long etcd takes for that is not what
    these tests are about.
    """
    if not (MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
