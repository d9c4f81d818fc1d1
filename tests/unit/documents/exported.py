"""The metrics that the operator exports, in any registry."""

from __future__ import annotations

from fakes import FakeKube
from prometheus_client.metrics_core import Metric

from etcd_operator.kube.name_changes import no_mark
from etcd_operator.kube.store import Store
from etcd_operator.run import make_work
from etcd_operator.settings import Settings
from etcd_operator.telemetry.metrics import Metrics


def metrics() -> Metrics:
    """With those of the passes, which register some of their own."""
    made = Metrics()
    make_work(FakeKube(), Store(), made, Settings(operator_image="operator"), no_mark)
    return made


def families() -> set[str]:
    """By the names that are scraped."""
    return {_scraped(family) for family in metrics().registry.collect()}


def _scraped(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name
