"""`python tests/model/replay.py trace.json`: shows step by step how a rule was broken."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "operator"), str(ROOT / "stateful")]

from model import trace  # noqa: E402
from model.show import show, told  # noqa: E402
from model.world.actions import forward  # noqa: E402
from model.world.goal import rests_well  # noqa: E402
from model.world.moves import Broken  # noqa: E402
from model.world.seen import Planner  # noqa: E402
from model.world.state import State  # noqa: E402

LIMIT = 60


def main(path: str) -> int:
    story, planner = trace.read(Path(path)), Planner()
    print(f"spec {story.spec}")
    try:
        states = trace.retold(story, planner)
        state = next(states)
        for action in story.actions:
            print(f"\n{action}" + (f": {told(planner(state))}" if action == "operator" else ""))
            state = next(states)
            print(show(state))
        print("\nthen, without faults:")
        _go_on(state, planner)
    except Broken as broken:
        print(f"\nBROKEN {broken}")
        return 1
    return 0


def _go_on(state: State, planner: Planner) -> None:
    for _ in range(LIMIT):
        step, after = planner(state), forward(state, planner)
        print(f"  {told(step)}")
        if after is None:
            print(f"at rest: {rests_well(state, step) or 'well'}")
            return
        state = after
        print(show(state))
    print("...")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
