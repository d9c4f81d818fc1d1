"""The data directory for the many etcd processes of this tier."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # Modules that all folders of this tier share.

import memory


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with memory.folder(tmp_path) as folder:
        yield folder
