"""A cluster with TLS, and what tests look at."""

from __future__ import annotations

import pytest
from reconcile_bench import Bench

from unit.credentials.tls_passes.secrets import declare


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
async def settled():
    bench = Bench()
    declare(bench)
    await bench.run()
    bench.kube.calls.clear()
    bench.kube.log.clear()
    bench.etcd.calls.clear()
    return bench
