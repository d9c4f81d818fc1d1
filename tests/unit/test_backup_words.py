"""The last word of a backup's Job: there always is one, and the kubelet keeps all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etcd_operator.backup import __main__ as job
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup import outcome
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure

STORE = Store("S3", "bucket", "key", "aws", "http://minio:9000", path_style=True)
ORDER = Order("ns/b", "uid-b", ("http://c:2379",), "spec.etcdEndpoints", STORE)


def test_a_client_that_panicked_ended_the_job_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four tries later nothing was known but that a limit had been reached."""

    class RustPanic(Exception):
        pass

    async def back_up(_: Order) -> None:
        raise RustPanic("rust future panicked: with a secret")

    monkeypatch.setattr(job, "back_up", back_up)
    said = tmp_path / "termination-log"
    environment = {orders.VARIABLE: orders.serialise(ORDER), "TERMINATION_LOG": str(said)}

    assert job.main(environment) == 1

    failure = outcome.parse(said.read_text()).failure
    assert isinstance(failure, Failure)
    assert "RustPanic" in failure.message
    assert "secret" not in json.dumps(failure.message)
