"""The results of the model's quicker searches for the sources beside this folder, as JSON.

It prints what breaks in the first search that has a failure which is not known already.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "operator"), str(ROOT / "stateful")]

from model.scenarios import QUICK  # noqa: E402
from model.search import Scenario, Search  # noqa: E402
from model.world.actions import beginning, perform  # noqa: E402
from model.world.seen import Planner  # noqa: E402

NAMES = (
    "1, two faults",
    "templates",
    "versions",
    "everything at once",
    "3, one fault, one late step",
    "3, two faults",
    "sizes, one fault",
)
SEARCHES = [one for name in NAMES for one in QUICK if one.name == name]
MOST = 4
LONGEST = 160


def broken(scenario: Scenario) -> list[str]:
    """In the words of the rules; an exception is as good."""
    planner = Planner()
    try:
        state = beginning(scenario.width, **scenario.spec)
        for action in scenario.before:
            state = perform(state, action, planner) or state
        report = Search(scenario, planner, failures=MOST).run(state)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is noticed
        return [f"{type(error).__name__}: {error}"[:LONGEST]]
    return sorted({trace.broken[:LONGEST] for trace in report.failures})


def main(known: set[str]) -> list[str]:
    for scenario in SEARCHES:
        words = (f"{scenario.name}: {one}" for one in broken(scenario))
        if new := [one for one in words if one not in known]:
            return new
    return []


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(main(set(json.loads(sys.argv[1])))))
    else:
        print(json.dumps([f"{one.name}: {words}" for one in SEARCHES for words in broken(one)]))
