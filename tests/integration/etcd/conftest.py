"""Real etcd processes on loopback, one set per supported minor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import minors
from etcd_live import Cluster, started
from unhurried import make_unhurried


@pytest.fixture(params=minors.EACH)
def cluster(
    request: pytest.FixtureRequest, data: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    make_unhurried(monkeypatch)
    with started(request.param, data, f"token-{request.param}") as found:
        yield found
