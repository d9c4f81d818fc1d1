"""The part of the model that runs with every test run: complete searches, and interrupted calls.

All of it runs with `make verify`: `python tests/model/explore.py --report tests/model/report.json`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from model import branches, explore, trace
from model.explore import Found

pytestmark = pytest.mark.timeout(900)

TRACES = sorted((Path(__file__).parent / "traces").glob("*.json"))


@pytest.fixture(scope="module")
def found() -> tuple[list[Found], list[Found]]:
    return explore.gone_through(quick=True)


def test_no_state_breaks_a_rule_and_every_state_leads_to_rest(
    found: tuple[list[Found], list[Found]],
) -> None:
    searches, _ = found

    assert [words for one in searches for words in one.failures] == []
    assert all(one.figures["closed"] for one in searches)
    assert sum(one.states for one in searches) > 150_000


def test_no_interruption_changes_the_end_or_the_cost_of_a_workload(
    found: tuple[list[Found], list[Found]],
) -> None:
    _, lives = found

    assert [words for one in lives for words in one.failures] == []
    assert sum(one.plans for one in lives) > 4_000


def test_every_answer_of_the_planner_is_reached(
    found: tuple[list[Found], list[Found]],
) -> None:
    searches, lives = found
    lines = frozenset[branches.Site]().union(*(one.lines for one in (*searches, *lives)))

    assert set(branches.unreached(set(lines))) <= set(branches.RARE)


@pytest.mark.parametrize("path", TRACES, ids=[path.stem for path in TRACES])
def test_a_trace_that_once_broke_a_rule_breaks_none(path: Path) -> None:
    assert trace.still_breaks(trace.read(path)) == ""
