"""Where the tests of this tier keep the data of their many etcd, and how long they may take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # what all folders of this tier share

import memory

HERE = Path(__file__).parent

SLOW = 3
"""Limits are those of a quiet machine; one that is full of tests gets so many times as much."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            own = item.get_closest_marker("timeout")
            limit = own.args[0] if own else float(config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(SLOW * limit), append=False)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with memory.folder(tmp_path) as folder:
        yield folder
