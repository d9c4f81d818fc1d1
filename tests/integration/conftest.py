"""Where the tests of this tier keep the data of the many etcd that they run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # what all folders of this tier share

import memory


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with memory.folder(tmp_path) as folder:
        yield folder
