"""The format of the bootstrap record, for operators that are upgraded or rolled back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from reconcile_bench import Bench

from etcd_operator.kube.api import ETCD_CLUSTERS, SECRETS


@pytest.fixture
async def settled() -> Bench:
    return await Bench.settled()


def record(bench: Bench) -> dict[str, Any]:
    text = base64.b64decode(bench.kube.live(SECRETS, "a-start")["data"]["bootstrap"])
    found: dict[str, Any] = json.loads(text)
    return found


def written_by_another_version(bench: Bench, record: dict[str, Any]) -> None:
    secret = bench.kube.live(SECRETS, "a-start")
    text = base64.b64encode(json.dumps(record).encode()).decode()
    bench.kube.put(SECRETS, {**secret, "data": {**secret["data"], "bootstrap": text}})
    bench.begin_process()


def grow(bench: Bench) -> None:
    bench.kube.put(ETCD_CLUSTERS, {**bench.body, "spec": {**bench.body["spec"], "size": 5}})


class TestOlderRecords:
    """Clusters from before the record had a format."""

    @pytest.fixture
    def old(self, settled: Bench) -> Bench:
        was = record(settled)
        del was["format"]
        written_by_another_version(settled, was)
        return settled

    async def test_no_record_is_rewritten_only_to_add_the_format(self, old: Bench) -> None:
        await old.run()

        assert not old.kube.calls
        assert "format" not in record(old)

    async def test_the_next_write_adds_it(self, old: Bench) -> None:
        grow(old)
        await old.run(200)

        assert len(record(old)["issued"]) == 5
        assert record(old)["format"] == 1


class TestNewerRecords:
    async def test_an_operator_that_was_rolled_back_does_not_erase_it(self, settled: Bench) -> None:
        later = {**record(settled), "format": 2, "learnt": "later"}
        written_by_another_version(settled, later)
        grow(settled)
        for _ in range(5):
            await settled.once()
            settled.nodes.turn()
            settled.clock.now += 5.0

        assert record(settled) == later
        assert set(settled.kube.writes()) == {"apply EtcdCluster/status"}
        blocked = settled.condition("Blocked")
        assert blocked
        assert blocked["reason"] == "SecretDamaged"
        assert "Install the newer operator again" in blocked["message"]
        assert settled.condition("Available")["status"] == "True"

    async def test_an_alert_said_that_a_cluster_without_a_readable_record_does_not_serve(
        self, settled: Bench
    ) -> None:
        """After a rollback of the operator it fired for each cluster whose record is newer."""
        written_by_another_version(settled, {**record(settled), "format": 2})
        await settled.once()

        labels = {"namespace": "default", "etcd_cluster": "a"}
        value = settled.metrics.registry.get_sample_value("etcd_cluster_available", labels)
        assert settled.condition("Available")["status"] == "True"
        assert value == 1

    async def test_the_newer_operator_continues_where_it_was(self, settled: Bench) -> None:
        now = record(settled)
        written_by_another_version(settled, {**now, "format": 2, "learnt": "later"})
        await settled.once()
        written_by_another_version(settled, now)
        await settled.run()

        assert settled.condition("Blocked") is None
        assert settled.condition("Progressing")["reason"] == "AsDeclared"
