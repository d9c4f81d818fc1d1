"""Explores every state that the world may reach: `explore.py [--quick] [--report FILE]`.

**Closed**: each search continues until it finds no new state; none is cut short.

**Symmetry**: states that differ only in names are the same (see `world.state`: UIDs,
resourceVersions, challenges and IDs of added members are named by their place, and what nothing can
refer to any more is forgotten). Moves of the world at different ordinals commute, so they are taken
in one order (see `world.moves`); a slow ordinal is a fault. The operator keeps no state between
passes, so a restart of it is not an event: in any state it may act or not. A step that it decided
on earlier (`hold`, `late`) covers slow operators, and two operators at once. In `eager` searches
the world moves only if the operator has nothing to do. Faults, edits and late steps may come
between any two steps of either.

**In every state** the rules hold. If nothing else goes wrong, the cluster comes to rest within
`longest` steps: either as declared, or held for a reason that is true. Then it writes nothing more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from array import array
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "operator"), str(ROOT / "stateful")]

from model import branches, coverage  # noqa: E402
from model.crashes import campaign  # noqa: E402
from model.scenarios import QUICK, WHOLE  # noqa: E402
from model.search import Scenario, Search  # noqa: E402
from model.trace import shortened  # noqa: E402
from model.workloads import WORKLOADS, Workload  # noqa: E402
from model.world.actions import beginning, perform  # noqa: E402
from model.world.seen import Planner  # noqa: E402

REPORT = Path(__file__).with_name("report.json")
PROCESSES = 2
ENOUGH = 1_000_000
"""Distinct states that the searches with two faults and two edits must have together."""


@dataclass(frozen=True)
class Found:
    """The result of one search or workload. `lines`: places in the planner that gave answers."""

    name: str
    figures: dict[str, Any]
    failures: list[str]
    lines: frozenset[branches.Site] = frozenset()
    kinds: frozenset[str] = frozenset()
    states: int = 0
    plans: int = 0
    identities: array[int] = field(default_factory=lambda: array("q"))


def search(scenario: Scenario) -> Found:
    watch = branches.Watch()
    planner = Planner(watch)
    state = beginning(scenario.width, **scenario.spec)
    for action in scenario.before:
        state = perform(state, action, planner) or state
    searched = Search(scenario, planner, failures=12)
    report = searched.run(state)
    figures = {
        "states": report.states,
        "steps": report.edges,
        "views": planner.asked,
        "longest": report.longest,
        "seconds": report.seconds,
        "closed": report.closed,
        "rests": dict(sorted(report.rests.items())),
    }
    failures = []
    for trace in report.failures:
        short = shortened(trace)
        failures.append(f"{short.broken} ({short.write()})")
    lines, kinds = frozenset(watch.lines), frozenset(watch.kinds)
    return Found(
        scenario.name,
        figures,
        sorted(set(failures)),
        lines,
        kinds,
        report.states,
        identities=searched.identities,
    )


def interrupt(workload: Workload) -> Found:
    return _interrupt(workload, thorough=True)


def interrupt_quickly(workload: Workload) -> Found:
    return _interrupt(workload, thorough=False)


def _interrupt(workload: Workload, *, thorough: bool) -> Found:
    began, watch = time.process_time(), branches.Watch()
    outcome = campaign(workload, Planner(watch), thorough=thorough)
    seconds = round(time.process_time() - began, 1)
    figures = {
        "plans": dict(sorted(outcome.plans.items())),
        "idle": dict(sorted(outcome.idle.items())),
        "replaced_again": outcome.replaced_again,
        "seconds": seconds,
    }
    failures = [f"{one.broken} ({one.write()})" for one in outcome.failures[:10]]
    plans, lines = sum(outcome.plans.values()), frozenset(watch.lines)
    return Found(workload.name, figures, failures, lines, frozenset(watch.kinds), plans=plans)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="the part for every test run")
    parser.add_argument("--report", type=Path, help=f"where to write it, e.g. {REPORT.name}")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--only", default="", help="searches and workloads with this in their name")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    searches, lives = gone_through(quick=given.quick, processes=given.processes, only=given.only)
    report = summary(searches, lives, time.monotonic() - began)
    print(json.dumps(report["totals"], indent=1))
    if given.report:
        given.report.write_text(json.dumps(report, indent=1) + "\n")
    wrong = [] if given.only else [f"never reached: {words}" for words in report["unreached"]]
    found = report["totals"]["distinct_after_two_faults_and_two_edits"]
    if not (given.only or given.quick) and found < ENOUGH:
        wrong.append(f"fewer than {ENOUGH:,} distinct states after two faults and two edits")
    print("\n".join(wrong))
    return 1 if wrong or report["totals"]["failures"] else 0


def gone_through(
    *, quick: bool, processes: int = PROCESSES, only: str = ""
) -> tuple[list[Found], list[Found]]:
    scenarios = [one for one in (QUICK if quick else WHOLE) if only in one.name]
    workloads = [one for one in WORKLOADS if only in one.name]
    with ProcessPoolExecutor(processes) as pool:
        # The longest searches start first, so that no process is still busy with one at the end.
        searching = [pool.submit(search, one) for one in reversed(scenarios)]
        job = interrupt_quickly if quick else interrupt
        living = [pool.submit(job, one) for one in workloads]
        searches = [_told(one.result()) for one in searching]
        return searches[::-1], [_told(one.result()) for one in living]


def _told(found: Found) -> Found:
    bad = f" {len(found.failures)} FAILED" if found.failures else ""
    print(f"{found.name}: {found.figures}{bad}", *found.failures, sep="\n  ", flush=True)
    return found


def summary(searches: list[Found], lives: list[Found], seconds: float) -> dict[str, Any]:
    every = (*searches, *lives)
    lines = frozenset[branches.Site]().union(*(one.lines for one in every))
    plans, idle = _added("plans", lives), _added("idle", lives)
    new = distinct(searches)
    totals = {
        "distinct": sum(new.values()),
        "distinct_after_two_faults_and_two_edits": sum(distinct(_of_two(searches)).values()),
        "states": sum(one.states for one in searches),
        "steps": sum(one.figures["steps"] for one in searches),
        "longest": max((one.figures["longest"] for one in searches), default=0),
        "closed": all(one.figures["closed"] for one in searches),
        "plans": plans | {"all": sum(plans.values())},
        "idle": idle | {"all": sum(idle.values())},
        "replaced_again": sum(one.figures["replaced_again"] for one in lives),
        "branches": branches.counts(set(lines)),
        "seconds": round(seconds),
        "seconds_of_one_core": round(sum(one.figures["seconds"] for one in every)),
        "failures": sum(len(one.failures) for one in every),
    }
    return {
        "totals": totals,
        "unreached": branches.unreached(set(lines)),
        "excused_and_reached": branches.needless(set(lines)),
        "answers": sorted(frozenset[str]().union(*(one.kinds for one in every))),
        "covered": coverage.sentences(coverage.COVERED),
        "left_out": coverage.sentences(coverage.LEFT_OUT),
        "searches": [_figures(one) | {"new": new[one.name]} | _MAY[one.name] for one in searches],
        "workloads": [_figures(one) for one in lives],
    }


def _of_two(searches: list[Found]) -> list[Found]:
    """Those in which at least two faults and two edits may come."""
    most = {one.name: _MAY[one.name]["at_most"] for one in searches}
    return [
        one for one in searches if min(most[one.name][kind] for kind in ("faults", "edits")) > 1
    ]


def distinct(searches: list[Found]) -> dict[str, int]:
    """How many states of each search are in none before it."""
    known, new = set[int](), {}
    for one in searches:
        before = len(known)
        known.update(one.identities)
        new[one.name] = len(known) - before
    return new


def _added(figures: str, lives: list[Found]) -> dict[str, int]:
    """Counts by kind, of all workloads together."""
    total: Counter[str] = Counter()
    for one in lives:
        total.update(one.figures[figures])
    return dict(sorted(total.items()))


_MAY = {one.name: coverage.of(one) for one in WHOLE}


def _figures(found: Found) -> dict[str, Any]:
    return {"name": found.name} | found.figures | {"failures": found.failures}


if __name__ == "__main__":
    sys.exit(main())
