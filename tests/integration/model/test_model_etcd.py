"""The model's etcd and `start` compared with real ones: the same trace on both, call by call."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import memory
import pytest
from compared import NO_ANSWER, UNSURE, Line, Moment, Together, TooLate, compare, told
from etcd_modelled import Modelled
from etcd_real import Processes
from minors import MINORS, NEWEST
from start_pods import World, binary

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

HOLDS_A_LOG = "the volume holds a log: state existing is for one without data"
IN_SYNC = "can only promote a learner member which is in sync with leader"

UNHEALTHY = "unhealthy cluster"

TRIES = 10
"""Of a trace that came too late for what it is to show; it says then nothing of model or etcd."""

TRACES: dict[str, tuple[int, tuple[Line, ...]]] = {
    "grow from 1 to 3": (
        1,
        (
            ("scale to 3", ""),
            ("add 1", ""),
            ("add 2", "too many learner members in cluster"),
            ("promote 1", IN_SYNC),
            ("ticket for 1", ""),
            ("promote 1", ""),
            ("promote 1", "can only promote a learner member"),
            ("add 2", UNHEALTHY),
            ("wait", ""),
            ("add 2", ""),
            ("ticket for 2", ""),
            ("promote 2", ""),
        ),
    ),
    "a lone member may always add": (
        1,
        (("restart 0", ""), ("scale to 2", ""), ("add 1", ""), ("remove 1", "")),
    ),
    "the same URL twice": (3, (("wait", ""), ("add 1", "Peer URLs already exists"))),
    "a member is down": (
        3,
        (
            ("scale to 4", ""),
            ("wait", ""),
            ("stop 2", ""),
            ("add 3", UNHEALTHY),
            ("remove 1", UNHEALTHY),
            ("remove 2", ""),
            ("remove it again", "member not found"),
            ("add 3", ""),
            ("go on 2", ""),
            ("remove 3", ""),
        ),
    ),
    "just after a restart": (
        3,
        (
            ("scale to 4", ""),
            ("wait", ""),
            ("restart 2", ""),
            ("add 3", UNHEALTHY),
            ("remove 2", UNHEALTHY),
            ("wait", ""),
            ("add 3", ""),
            ("remove 2", ""),
        ),
    ),
    "one of five is down": (
        5,
        (
            ("wait", ""),
            ("stop 4", ""),
            ("remove 3", ""),
            ("remove 2", ""),
            ("remove 1", UNHEALTHY),
            ("remove 4", ""),
        ),
    ),
    "no quorum": (
        3,
        (
            ("wait", ""),
            ("stop 1", ""),
            ("stop 2", ""),
            ("remove 2", NO_ANSWER),
            ("go on 1", ""),
            ("remove 2", ""),
            ("go on 2", ""),
            ("wait", ""),
        ),
    ),
    "a learner that died is promoted": (
        3,
        (
            ("scale to 4", ""),
            ("wait", ""),
            ("add 3", ""),
            ("ticket for 3", ""),
            ("stop 3", ""),
            ("promote 3", ""),
        ),
    ),
    "a learner that was wiped is promoted": (
        3,
        (
            ("scale to 4", ""),
            ("wait", ""),
            ("add 3", ""),
            ("ticket for 3", ""),
            ("empty 3", ""),
            ("promote 3", ""),
            ("make again 3", ""),
        ),
    ),
    "a learner that never started goes": (
        3,
        (("wait", ""), ("scale to 4", ""), ("add 3", ""), ("remove 3", ""), ("add 3", "")),
    ),
    "a ticket that lacks members": (
        3,
        (
            ("wait", ""),
            ("scale to 4", ""),
            ("add 3", ""),
            ("a ticket that names only 3", ""),
            ("make again 3", ""),
            ("remove 3", ""),
            ("add 3", ""),
            ("ticket for 3", ""),
            ("promote 3", ""),
        ),
    ),
    "a learner joins while there is no quorum": (
        3,
        (
            ("wait", ""),
            ("scale to 4", ""),
            ("add 3", ""),
            ("stop 1", ""),
            ("stop 2", ""),
            ("ticket for 3", ""),
            ("go on 1", ""),
            ("promote 3", ""),
        ),
    ),
    "a learner waits for a peer": (
        1,
        (
            ("scale to 2", ""),
            ("add 1", ""),
            ("stop 0", ""),
            ("ticket for 1", ""),
            ("go on 0", ""),
            ("promote 1", ""),
        ),
    ),
    "a removed member ends": (3, (("wait", ""), ("remove 2", ""), ("make again 2", ""))),
    # One that was up when it was removed has mostly heard of it and ends alone, too. The model lets
    # it run, as one may that has not.
    "a removed member goes on alone where nobody tells it": (
        3,
        (
            ("wait", ""),
            ("stop 2", ""),
            ("remove 2", ""),
            ("stop 1", ""),
            ("stop 0", ""),
            ("go on 2", ""),
            ("go on 0", ""),
            ("go on 1", ""),
        ),
    ),
    "replaced on the same volume": (
        3,
        (
            ("wait", ""),
            ("empty 1", ""),
            ("make again 1", ""),
            ("remove 1", ""),
            ("add 1", ""),
            ("ticket for 1", ""),
            ("promote 1", ""),
        ),
    ),
    "a node comes back empty": (
        3,
        (("wait", ""), ("reimage 0", ""), ("remove 0", ""), ("add 0", ""), ("ticket for 0", "")),
    ),
    "the right volume comes back": (
        3,
        (
            ("wait", ""),
            ("mount nothing at 2", ""),
            ("mount again at 2", ""),
            ("wait", ""),
            ("mount nothing at 2", ""),
            ("remove 2", ""),
            ("add 2", ""),
            ("ticket for 2", ""),
            ("promote 2", ""),
            ("mount again at 2", ""),
        ),
    ),
    "a log that is none": (
        3,
        (
            ("wait", ""),
            ("spoil the log of 1", ""),
            ("make again 1", ""),
            ("remove 1", ""),
            ("add 1", ""),
            ("ticket for 1", HOLDS_A_LOG),
        ),
    ),
    "the lead moves": (
        3,
        (
            ("wait", ""),
            ("move the lead to 1", ""),
            ("stop 2", ""),
            ("move the lead to 2", NO_ANSWER),
            ("remove 2", ""),
            ("remove 1", UNSURE),
        ),
    ),
    "the leader goes": (5, (("wait", ""), ("remove 0", UNSURE), ("stop 1", ""), ("remove 1", ""))),
}

OLDER = {"3.6": "3.5", "3.7": "3.6"}


def downgrades(minor: str, older: str) -> dict[str, tuple[Line, ...]]:
    """`older`: the minor below, and its binary."""
    lower = older.rpartition(".")[0]
    return {
        "down, and called off before anyone is": (
            (f"downgrade to {minor}", "invalid downgrade target version"),
            (f"downgrade to {lower}", ""),
            (f"downgrade to {lower}", "invalid downgrade target version"),
            ("call it off", ""),
            ("call it off", ""),
            (f"update 2={older}", ""),
        ),
        "down without leave": ((f"update 1={older}", ""),),
        "down, and called off amid it": (
            (f"downgrade to {lower}", ""),
            (f"update 2={older}", ""),
            ("call it off", ""),
            (f"update 1={older}", ""),
        ),
        "down all the way": (
            (f"downgrade to {lower}", ""),
            (f"update 2={older}", ""),
            (f"update 1={older}", ""),
            ("move the lead to 1", ""),
            (f"update 0={older}", ""),
        ),
        "nobody may join amid it": (
            ("scale to 4", ""),
            (f"downgrade to {lower}", ""),
            ("wait", ""),
            ("add 3", ""),
            ("ticket for 3", ""),
        ),
        "nor an older one, once one of them runs": (
            (f"downgrade to {lower}", ""),
            (f"update 2={older}", ""),
            ("scale to 4", ""),
            ("wait", ""),
            ("add 3", ""),
            (f"update 3={older}", ""),
            ("ticket for 3", ""),
        ),
        "an older one may, once it is called off": (
            (f"downgrade to {lower}", ""),
            (f"update 2={older}", ""),
            ("call it off", ""),
            ("scale to 4", ""),
            ("wait", ""),
            ("add 3", ""),
            (f"update 3={older}", ""),
            ("ticket for 3", ""),
        ),
        "an older one may not join": (
            ("scale to 4", ""),
            ("wait", ""),
            ("add 3", ""),
            (f"update 3={older}", ""),
            ("ticket for 3", ""),
        ),
    }


def version_of(path: str) -> str:
    return Path(path).name.removeprefix("etcd-")


@pytest.fixture(scope="module")
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every trace that is asked for, with real processes."""
    asked = [one.callspec.params["case"] for one in request.session.items if _is_here(one)]
    traces = {case: moments(*case.split(": ", 1)) for case in asked}

    base = tmp_path_factory.mktemp("etcd")

    def live(case: str) -> None:
        for _ in range(TRIES - 1):
            with suppress(TooLate):
                live_once(case)
                return
        live_once(case)

    def live_once(case: str) -> None:
        minor = case.partition(":")[0]
        # Threads at once are too much for pytest's way to number folders.
        with memory.folder(Path(tempfile.mkdtemp(dir=base))) as folder:
            world = World(folder, binary(minor))
            try:
                compare(traces[case], Processes(world, len(traces[case][0].looks["pods"])))
            finally:
                for pod in world.pods:
                    pod.stop()

    together = Together(live, asked)
    yield together
    together.close()


def _is_here(item: Any) -> bool:
    return item.module.__name__ == __name__ and hasattr(item, "callspec")


def moments(minor: str, name: str) -> list[Moment]:
    version = version_of(binary(minor))
    if name in TRACES:
        size, trace = TRACES[name]
    else:
        older = version_of(binary(OLDER[minor]))
        size, trace = 3, downgrades(minor, older)[name]
    return told(Modelled(size, version), trace)


DOWN_TO_3_5 = "3.6: down all the way"
"""3.5 tells nothing of a downgrade."""

CASES = [(minor, f"{minor}: {name}") for minor in MINORS for name in TRACES]
CASES += [(minor, f"{minor}: {name}") for minor in OLDER for name in downgrades("", "")]
IN_EVERY_RUN = {case for minor, case in CASES if minor == NEWEST} | {DOWN_TO_3_5}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case in IN_EVERY_RUN else pytest.mark.verify)
        for _, case in CASES
    ],
)
def test_the_model_matches_etcd_and_start(together: Together, case: str) -> None:
    together.end_of(case)
