"""The alerts: the same in all three places, on metrics that exist, each with instructions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcd_operator.telemetry.metrics import Metrics
from unit.documents.exported import families

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "etcd-operator" / "files" / "alerts.yaml"
EXAMPLE = ROOT / "examples" / "monitoring.yaml"
PAGE = ROOT / "docs" / "alerts.md"

OF_ETCD = {
    "etcd_disk_wal_fsync_duration_seconds_bucket",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_server_has_leader",
    "etcd_server_quota_backend_bytes",
}
"""Metrics that etcd 3.5 to 3.7 export."""

BY_THE_POD_MONITOR = {"namespace", "pod"}
"""Labels that Prometheus adds to what it scrapes from members."""

Rule = dict[str, Any]
GROUPS: list[dict[str, Any]] = yaml.safe_load(CHART.read_text())["groups"]
RULES: list[Rule] = [rule for group in GROUPS for rule in group["rules"]]


def name_of(rule: Rule) -> str:
    return str(rule["alert"])


def used_by(rule: Rule) -> set[str]:
    return set(re.findall(r"\b(?:etcd|workqueue|process)_[a-z_]+", rule["expr"]))


def labels_of(metric: str) -> set[str]:
    return set(Metrics().registry._names_to_collectors[metric]._labelnames)


def test_the_example_has_the_rules_of_the_chart() -> None:
    [example] = [
        body for body in yaml.safe_load_all(EXAMPLE.read_text()) if body["kind"] == "PrometheusRule"
    ]

    assert example["spec"]["groups"] == GROUPS


def test_every_alert_is_explained_and_nothing_else_is() -> None:
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)

    assert headings == [name_of(rule) for rule in RULES]
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_an_alert_has_a_severity_and_a_link_to_instructions(rule: Rule) -> None:
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{name_of(rule).lower()}"


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_an_alert_uses_metrics_that_exist(rule: Rule) -> None:
    assert used_by(rule)
    assert used_by(rule) - OF_ETCD - families() == set()


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_an_alert_names_its_object_by_labels_that_exist(rule: Rule) -> None:
    """A missing label is rendered as nothing: `Cluster / does not serve`."""
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    ours = used_by(rule) - OF_ETCD

    assert named == (set().union(*map(labels_of, ours)) if ours else BY_THE_POD_MONITOR)


def test_the_threshold_of_a_slow_disk_is_the_one_in_the_documentation() -> None:
    [rule] = [one for one in RULES if name_of(one) == "EtcdSlowDisk"]
    [asked] = re.findall(r"fsync under (\d+) ms", (ROOT / "docs" / "operations.md").read_text())

    assert float(rule["expr"].rpartition(">")[2]) == int(asked) / 1000


@pytest.mark.parametrize(
    "metric",
    [one for one in sorted(families()) if one.endswith("_expiry_timestamp_seconds")],
)
def test_there_is_an_alert_for_everything_that_expires(metric: str) -> None:
    assert [name_of(rule) for rule in RULES if metric in used_by(rule)]


def test_two_kubernetes_clusters_had_the_same_series_in_a_store_for_both() -> None:
    """By `cluster` people name the Kubernetes cluster, in an external label, which Prometheus adds
    only to what has no such label: of two samples one was lost, and alerts did not say where."""
    collectors = set(Metrics().registry._names_to_collectors.values())
    names = {label for collector in collectors for label in getattr(collector, "_labelnames", ())}

    assert names & {"cluster", "region", "replica", "environment"} == set()


def test_members_and_the_operator_name_a_cluster_by_the_same_label() -> None:
    [monitor] = [
        body for body in yaml.safe_load_all(EXAMPLE.read_text()) if body["kind"] == "PodMonitor"
    ]

    assert labels_of("etcd_cluster_size") == {"namespace", *monitor["spec"]["podTargetLabels"]}
