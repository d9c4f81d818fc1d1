"""Each alert fires when it should and not a minute earlier, by Prometheus' own `promtool`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "charts" / "etcd-operator"
CHART = OPERATOR / "files" / "alerts.yaml"
PROMTOOL, HELM = (
    shutil.which(name, path=str(ROOT / "build" / "bin")) for name in ("promtool", "helm")
)

Rule = dict[str, Any]
RULES: dict[str, Rule] = {
    rule["alert"]: rule
    for group in yaml.safe_load(CHART.read_text())["groups"]
    for rule in group["rules"]
}

pytestmark = pytest.mark.verify

OURS = {"namespace": "team", "etcd_cluster": "orders"}
SCHEDULE = {"namespace": "team", "name": "nightly"}
MEMBER = {"namespace": "team", "pod": "orders-0"}
DAYS = 86400


def series(metric: str, labels: dict[str, str]) -> str:
    named = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{named}}}"


@dataclass(frozen=True)
class Case:
    """What Prometheus scrapes each minute (`1x5 0x30`: 1 for the minutes 0 to 5, then 0), and the
    first minute in which the alert fires."""

    alert: str
    scraped: dict[str, str]
    fires: int
    labels: dict[str, str]
    value: str = ""
    """`$value` in the texts, as people read it."""


CASES = (
    Case("EtcdOperatorAway", {series("etcd_operator_leader", {"pod": "a"}): "1x5 0x30"}, 16, {}),
    Case(
        "EtcdClusterUnavailable",
        {series("etcd_cluster_available", OURS): "1x5 0x30"},
        8,
        OURS,
    ),
    Case("EtcdClusterUnobserved", {series("etcd_cluster_observed", OURS): "1x5 0x30"}, 11, OURS),
    Case(
        "EtcdMembersMissing",
        {
            series("etcd_cluster_members_ready", OURS): "3x5 2x30",
            series("etcd_cluster_size", OURS): "3x40",
        },
        21,
        OURS,
        "2",
    ),
    Case(
        "EtcdCertificateEnds",
        {
            series("etcd_cluster_certificate_expiry_timestamp_seconds", OURS): (
                f"{14 * DAYS + 3600}x200"
            )
        },
        121,
        OURS,
        "13d 22h 59m 0s",
    ),
    Case(
        "EtcdAuthorityEnds",
        {
            series("etcd_cluster_authority_expiry_timestamp_seconds", OURS): (
                f"{365 * DAYS + 3600}x200"
            )
        },
        121,
        OURS,
        "364d 22h 59m 0s",
    ),
    Case(
        "EtcdBackupFailed",
        {
            series("etcd_backup_schedule_last_run_succeeded", SCHEDULE): "1x5 0x30",
            series("etcd_backup_schedule_scheduled", SCHEDULE): "1x40",
        },
        11,
        SCHEDULE,
    ),
    Case(
        "EtcdBackupsStopped",
        {series("etcd_backup_schedule_scheduled", SCHEDULE): "1x5 0x90"},
        66,
        SCHEDULE,
    ),
    Case("EtcdNoLeader", {series("etcd_server_has_leader", MEMBER): "1x5 0x30"}, 7, MEMBER),
    Case(
        "EtcdDatabaseNearQuota",
        {
            series("etcd_mvcc_db_total_size_in_bytes", MEMBER): "70x5 90x30",
            series("etcd_server_quota_backend_bytes", MEMBER): "100x40",
        },
        21,
        MEMBER,
        "90%",
    ),
    Case(
        "EtcdSlowDisk",
        # From the tenth minute on each sync takes between 8 and 16 ms.
        {
            series("etcd_disk_wal_fsync_duration_seconds_bucket", MEMBER | {"le": le}): values
            for le, values in (
                ("0.008", "0+60x10 600x60"),
                ("0.016", "0+60x70"),
                ("+Inf", "0+60x70"),
            )
        },
        41,
        MEMBER,
        "15.92ms",
    ),
)

QUIET = {
    "a copy of the operator that stands by": (
        "EtcdOperatorAway",
        {
            series("etcd_operator_leader", {"pod": "a"}): "1x90",
            series("etcd_operator_leader", {"pod": "b"}): "0x90",
        },
    ),
    "an operator that is replaced by another one": (
        "EtcdOperatorAway",
        {
            series("etcd_operator_leader", {"pod": "a"}): "1x20 stale",
            series("etcd_operator_leader", {"pod": "b"}): "_x25 1x60",
        },
    ),
    "a failed run of a suspended schedule": (
        "EtcdBackupFailed",
        {
            series("etcd_backup_schedule_last_run_succeeded", SCHEDULE): "0x90",
            series("etcd_backup_schedule_scheduled", SCHEDULE): "0x90",
        },
    ),
    "members of another cluster": (
        "EtcdMembersMissing",
        {
            series("etcd_cluster_members_ready", OURS): "3x90",
            series("etcd_cluster_size", OURS): "3x90",
            series("etcd_cluster_size", OURS | {"etcd_cluster": "large"}): "7x90",
            series("etcd_cluster_members_ready", OURS | {"etcd_cluster": "large"}): "7x90",
        },
    ),
    "a leader lost and elected again within a minute": (
        "EtcdNoLeader",
        {series("etcd_server_has_leader", MEMBER): "1x5 0 1x90"},
    ),
}


def promtool(tmp_path: Path, *tests: dict[str, Any], rules: Path = CHART) -> None:
    """Runs tests of rules, which fail with what Prometheus got instead."""
    assert PROMTOOL is not None, "promtool is not there: run `make alert-tools`"
    file = tmp_path / "tests.yaml"
    whole = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": list(tests)}
    file.write_text(json.dumps(whole))
    words = [PROMTOOL, "test", "rules", str(file)]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 0, found.stdout + found.stderr


def scraping(scraped: dict[str, str], *expected: dict[str, Any]) -> dict[str, Any]:
    given = [{"series": name, "values": values} for name, values in scraped.items()]
    return {"interval": "1m", "input_series": given, "alert_rule_test": list(expected)}


def at(minute: int, alert: str, *alerts: dict[str, Any]) -> dict[str, Any]:
    return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": list(alerts)}


def written(text: str, case: Case) -> str:
    """An annotation with its labels and its value filled in."""
    named = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda one: case.labels[one[1]], text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", case.value, named)


def test_every_alert_has_a_case() -> None:
    assert [case.alert for case in CASES] == list(RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_in_its_minute_and_says_what_is_wrong(case: Case, tmp_path: Path) -> None:
    rule = RULES[case.alert]
    said = {name: written(text, case) for name, text in rule["annotations"].items()}
    fired = {"exp_labels": case.labels | rule["labels"], "exp_annotations": said}

    early, due = at(case.fires - 1, case.alert), at(case.fires, case.alert, fired)
    promtool(tmp_path, scraping(case.scraped, early, due))


def test_an_operator_that_ended_again_and_again_never_counted_as_away(tmp_path: Path) -> None:
    """As one whose memory limit is too low for so many clusters: it leads for a moment every five
    minutes, and the alert began to wait again each time."""
    rule = RULES["EtcdOperatorAway"]
    fired = {"exp_labels": rule["labels"], "exp_annotations": rule["annotations"]}
    leads = {series("etcd_operator_leader", {"pod": "a"}): "1x20" + " stale _x3 1" * 10}

    late = [at(minute, "EtcdOperatorAway", fired) for minute in range(35, 70)]
    promtool(tmp_path, scraping(leads, at(20, "EtcdOperatorAway"), *late))


@pytest.mark.parametrize(("alert", "scraped"), QUIET.values(), ids=QUIET)
def test_an_alert_does_not_fire_for(alert: str, scraped: dict[str, str], tmp_path: Path) -> None:
    promtool(tmp_path, scraping(scraped, *(at(minute, alert) for minute in range(5, 90, 5))))


def test_the_operator_of_another_release_does_not_stand_in_for_ours(tmp_path: Path) -> None:
    """As the chart renders it, with the labels of its own ServiceMonitor."""
    assert HELM is not None, "helm is not there: run `make alert-tools`"
    values = ("prometheusRule.enabled=true", "metrics.serviceMonitor.enabled=true")
    words = [HELM, "template", "ours", str(OPERATOR), "--namespace=home"]
    words += [f"--set={one}" for one in (*values, "image.repository=registry/operator")]
    rendered = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    found = [one for one in yaml.safe_load_all(rendered) if one and one["kind"] == "PrometheusRule"]
    rules = tmp_path / "rules.yaml"
    rules.write_text(json.dumps({"groups": found[0]["spec"]["groups"]}))

    other = {"namespace": "elsewhere", "service": "theirs-etcd-operator-metrics"}
    ours = {"namespace": "home", "service": "ours-etcd-operator-metrics"}
    fired = {
        "exp_labels": {"severity": "warning"},
        "exp_annotations": RULES["EtcdOperatorAway"]["annotations"],
    }
    away = scraping(
        {series("etcd_operator_leader", other): "1x30"}, at(11, "EtcdOperatorAway", fired)
    )
    here = scraping({series("etcd_operator_leader", ours): "1x30"}, at(20, "EtcdOperatorAway"))
    promtool(tmp_path, away, here, rules=rules)
