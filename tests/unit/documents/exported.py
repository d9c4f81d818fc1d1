"""The metrics that the operator exports, in any registry."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric

from etcd_operator.telemetry.metrics import Metrics


def families() -> set[str]:
    """By the names that are scraped."""
    return {_scraped(family) for family in Metrics().registry.collect()}


def _scraped(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name
