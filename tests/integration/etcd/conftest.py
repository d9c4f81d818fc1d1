"""Real etcd processes on loopback, one set per supported minor."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from etcd_live import MINORS, Cluster, binary


@pytest.fixture(params=MINORS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(binary(request.param), tmp_path, f"token-{request.param}")
    yield found
    for member in found.members:
        member.kill()
    shutil.rmtree(tmp_path, ignore_errors=True)
