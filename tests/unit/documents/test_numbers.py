"""Numbers in pages are those of the reports, and versions those that are pinned."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("bench", "comparison")]

import document  # noqa: E402
import page as comparison  # noqa: E402

from etcd_stateful.versions import DEFAULT_VERSION, FLOORS  # noqa: E402
from localkube import versions  # noqa: E402


def page(name: str) -> str:
    """A page of `docs/`, its lines joined."""
    return " ".join((ROOT / "docs" / name).read_text().split())


def report(place: str) -> Any:
    return json.loads((ROOT / "tests" / place / "report.json").read_text())


def cell(table: str, row: str) -> str:
    [found] = re.findall(rf"\| {re.escape(row)} \| (.*?) \|", table)
    return found


MODEL = page("model.md")


def test_the_page_of_benchmarks_is_written_from_its_report() -> None:
    written = (ROOT / "docs" / "benchmarks.md").read_text()

    assert document.page(report("bench")) == written, "run document.write"


def test_the_page_of_the_comparison_is_written_from_its_report() -> None:
    written = (ROOT / "docs" / "comparison.md").read_text()

    assert comparison.page(report("comparison")) == written, "run page.write"


def test_the_page_of_the_model_has_the_numbers_of_its_report() -> None:
    found = report("model")
    totals = found["totals"]
    plans, branches = totals["plans"], totals["branches"]
    stale = {
        "same": plans["stale, same step"],
        "other": plans["stale, other step"],
        "refused": sum(of for name, of in plans.items() if name.endswith("refused")),
    }

    assert cell(MODEL, "searches, each closed") == f"{len(found['searches'])}"
    assert totals["closed"]
    assert cell(MODEL, "states, each counted once in a search") == f"{totals['states']:,}"
    assert cell(MODEL, "distinct states of all searches") == f"{totals['distinct']:,}"
    assert cell(MODEL, "distinct states of the searches that allow two faults and two edits") == (
        f"{totals['distinct_after_two_faults_and_two_edits']:,}"
    )
    assert cell(MODEL, "steps between them") == f"{totals['steps']:,}"
    assert cell(MODEL, "steps to rest, at most") == f"{totals['longest']}"
    assert cell(MODEL, "workloads") == f"{len(found['workloads'])}"
    assert cell(MODEL, "broken rules") == f"{totals['failures']}"
    minutes = round(totals["seconds_of_one_core"] / 60)
    assert cell(MODEL, "time") == f"{minutes} minutes of one core"
    lives = cell(MODEL, "interrupted lives")
    assert [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*\d", lives)] == [
        plans["all"],
        plans["before"],
        plans["twice"],
        sum(stale.values()),
        *stale.values(),
    ]
    named = re.findall(r"(\d+) places in the planner build a step", MODEL)
    assert named == [f"{branches['all']}"]


def test_the_page_of_the_model_has_the_rests_that_go_round() -> None:
    rounds = [one["rests"].get("round", 0) for one in report("model")["searches"]]

    assert f"`round` ({sum(rounds)} rests in the last run, in two searches)" in MODEL
    assert len([one for one in rounds if one]) == 2


def test_the_page_of_the_model_has_the_largest_search_of_recoveries() -> None:
    [said] = re.findall(r"The largest of its searches, with two faults, has ([\d,]+) states", MODEL)
    searches = report("model")["searches"]
    of_recoveries = [one for one in searches if "recover" in one["name"]]

    assert int(said.replace(",", "")) == max(one["states"] for one in of_recoveries)


def test_the_places_that_the_model_leaves_out_are_those_of_its_report() -> None:
    branches = report("model")["totals"]["branches"]

    for name in ("restores", "TLS", "authentication"):
        assert f"{name} ({branches[name]})" in MODEL
    assert f"growth of volumes ({branches['space and its growth']})" in MODEL
    assert f"| {branches['out of reach']} | of the membership, but out of reach" in MODEL
    assert f"| {branches['reached']} | reached" in MODEL


def test_the_page_of_backups_has_the_numbers_of_the_campaign() -> None:
    found = report("integration/backup")
    restored = found["restored key for key at the same revision"]

    assert (
        f"{restored} of {found['sets']} came back, {found['with users']} of them with users, "
        f"and {found['damaged files refused']:,} of {found['damaged files']:,} damaged files"
    ) in page("backup.md")


def locked() -> dict[str, str]:
    texts = [path.read_text() for path in (ROOT / "requirements").glob("*.lock")]
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", "\n".join(texts), re.MULTILINE))


def test_the_page_of_dependencies_has_the_versions_that_are_locked() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \| (\d+\.[^|]*) \|", text, re.MULTILINE)
    versions = locked()

    assert len(rows) > 15
    for names, said in rows:
        for name, version in zip(re.findall(r"`(.*?)`", names), said.split(", "), strict=True):
            assert f"{versions[name]}.".startswith(f"{version}."), name


def test_every_package_of_the_image_is_on_the_page_of_dependencies() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    lock = (ROOT / "requirements" / "operator.lock").read_text()
    packages = re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)

    assert packages
    assert [one for one in packages if f"`{one}`" not in text] == []


@pytest.mark.parametrize("name", ["ETCD", "CONTAINERD", "RUNC", "HELM", "VERSITYGW"])
def test_the_page_of_compatibility_has_the_versions_that_are_tested(name: str) -> None:
    pins = (ROOT / "tests" / "cluster" / "versions.env").read_text()
    [pinned] = re.findall(rf"^{name}=(.*)$", pins, re.MULTILINE)

    for version in pinned.split():
        assert re.search(rf"\b{re.escape(version.removeprefix('v'))}\b", page("compatibility.md"))


def test_the_memory_to_request_is_the_same_in_both_places() -> None:
    values = " ".join((ROOT / "charts" / "etcd-operator" / "values.yaml").read_text().split())
    values = values.replace("# ", "")
    [told] = re.findall(
        r"(\S+)Mi \+ (\S+)Mi for each cluster \+ (\S+)Mi for each namespace", page("operator.md")
    )
    base, cluster, namespace = told

    assert f"memory: {base}Mi, {cluster}Mi more for each cluster and" in values
    assert f"{namespace}Mi for each namespace" in values


def test_the_memory_to_request_for_clusters_is_what_was_measured() -> None:
    [(base, cluster)] = re.findall(r"(\S+)Mi \+ (\S+)Mi for each cluster", page("operator.md"))
    measured = report("bench")["memory"]["resident_mib_by_clusters"]

    for clusters, mib in measured.items():
        assert mib <= float(base) + float(cluster) * int(clusters)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "docs/compatibility.md"])
def test_the_versions_of_etcd_that_pages_name_are_those_that_are_supported(name: str) -> None:
    named = set(re.findall(r"(\d+\.\d+\.\d+)\+", (ROOT / name).read_text()))

    assert named == {str(one) for one in FLOORS}


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "docs/compatibility.md"])
def test_the_kubernetes_and_helm_that_pages_name_are_those_of_the_tests(name: str) -> None:
    text = (ROOT / name).read_text()

    assert versions.kubernetes_version().removeprefix("v") in text
    assert name == "CHANGELOG.md" or versions.pinned("HELM").removeprefix("v") in text


def test_the_version_that_a_new_cluster_gets_is_the_default() -> None:
    assert f"a new cluster gets {DEFAULT_VERSION}," in page("migrate-from-coreos.md")
