"""The page and the plot of the comparison, from a report written by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "comparison"))

import page

Json = dict[str, Any]

AT = {
    "date": "2026-01-02",
    "commit": "abc",
    "cores": 2,
    "nodes": 3,
    "kubernetes": "v1.36.3",
    "load_before": 0.5,
}


def measured(seconds: float | None = 4.0, **other: Any) -> Json:
    return {
        "seconds": seconds,
        "looked_for": None if seconds else 40,
        "longest_gap": 0.1,
        "refused": 2,
        "resyncs": 1,
        "received": 34 * 2**20,
        "acknowledged": 100,
        "lost": 0,
        "served": True,
        **other,
    }


def life(side: str, deed: str = "kill all", run: int = 0, **other: Any) -> Json:
    born = {"seconds": 5.0, "first_write": 3.0, "longest_gap": 0.1, "refused": 0}
    deeds = {"create": born, deed: measured(**other)}
    return {"scenario": deed, "side": side, "run": run, "measured": deeds, "at": AT}


@pytest.fixture
def report() -> Json:
    gone = {"seconds": None, "lost": 100, "served": False, "longest_gap": 41.0}
    lives = [life("ours", run=run, seconds=3.0 + run) for run in range(3)]
    return {"lives": [*lives, life("random", **gone)]}


def row(report: Json, deed: str, side: str) -> list[str]:
    start = f"| {deed} | {side} | "
    line = next(one for one in page.page(report).splitlines() if one.startswith(start))
    return line.removeprefix(start).removesuffix(" |").split(" | ")


def test_a_row_has_the_median_and_the_range(report: Json):
    assert row(report, "kill all", "operator")[:2] == ["4.0 (3.0 to 5.0)", "0.10"]


def test_every_life_counts_for_the_creation(report: Json):
    assert len(page.by_operation(report)["create"]["ours"]) == 3
    assert row(report, "create", "operator") == ["5.0 (5.0 to 5.0)", "0.10", "", "0", "", ""]


def test_what_never_comes_back_says_how_long_was_waited(report: Json):
    assert row(report, "kill all", "random names")[0] == "never (looked for 40 s)"


@pytest.mark.parametrize(
    ("lives", "words"),
    [
        ([measured()], "0"),
        ([measured(), measured(lost=7)], "**7 of 100**"),
        ([measured(served=False)], "0, but none is served"),
        ([{"seconds": 1.0}], ""),
    ],
)
def test_losses_are_reported_for_the_worst_run(lives: list[Json], words: str):
    assert page.lost(lives) == words


def test_a_side_that_recovers_only_sometimes_is_reported():
    assert page.seconds([measured(2.0), measured(None), measured(4.0)]) == (
        "3.0 (2.0 to 4.0); never in 1 of 3"
    )


def test_results_without_a_column_are_listed_below():
    lives = [
        life("ours", "drain", run=run, waited_for_node=run > 0, contradictions=run)
        for run in range(3)
    ]

    text = page.page({"lives": lives})

    assert "First acknowledged write, seconds after the creation: operator 3.0." in text
    assert "drain: whole again only once the node was back: operator 2 of 3." in text
    assert "contradict a linearizable store, on all sides together: 3." in text


def test_the_page_says_what_it_does_not_know(report: Json):
    """One run with random names, without its fast loop, without a power cut, on a quiet machine."""
    text = page.page(report)

    assert "**Not measured**: operator: power cut of a node." in text
    assert "**Not measured**: random names, 1 s loop: no scenario." in text
    assert "**Only 1 of 3 runs**" in text
    assert "machine was busy" not in text
    report["lives"][0]["at"] = {**AT, "load_before": 8.0}
    assert "**The machine was busy**" in page.page(report)


def test_cases_where_the_other_approach_is_faster_are_listed():
    lives = [life("ours", "drain", seconds=23.0), life("random", "drain", seconds=9.0)]

    text = page.page({"lives": lives})

    assert "Faster than this operator: random names, in: drain." in text
    assert "in: create" not in text


def test_the_page_is_written_with_its_plot(report: Json, tmp_path: Path):
    page.write(report, tmp_path)

    text = (tmp_path / "comparison.md").read_text()
    assert "![seconds](comparison.svg)" in text
    assert "commit abc, 2 cores" in text
    drawing = ElementTree.fromstring((tmp_path / "comparison.svg").read_text())  # noqa: S314
    words = [one.text for one in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"create", "kill all", "never", "4.0 s"} <= set(words)
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}circle"))) == 3 + 3 + 1
