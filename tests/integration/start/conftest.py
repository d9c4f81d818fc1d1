"""A world of pods for every supported minor of etcd."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from start_pods import MINORS, World, binary


@pytest.fixture(params=MINORS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Leaves no process behind, whatever the test did."""
    made = World(tmp_path, binary(request.param))
    try:
        yield made
    finally:
        for pod in made.pods:
            pod.stop()
        for pod in made.pods:
            shutil.rmtree(pod.volume, ignore_errors=True)  # 64 MB each
