"""A world of pods for every supported minor of etcd."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import minors
from start_pods import World, binary


@pytest.fixture(params=minors.EACH)
def world(request: pytest.FixtureRequest, data: Path) -> Iterator[World]:
    """Leaves no process behind, whatever the test did."""
    made = World(data, binary(request.param))
    try:
        yield made
    finally:
        for pod in made.pods:
            pod.stop()
