"""Which states are the same, in whatever search and process they are found."""

from __future__ import annotations

import os
import subprocess
import sys

from model import explore
from model.scenarios import QUICK

NAMES = ("pause", "1, two faults")


def _identities(*names: str) -> list[list[int]]:
    searches = [one for name in names for one in QUICK if one.name == name]
    return [sorted(explore.search(one).identities) for one in searches]


def test_states_are_told_apart_alike_in_every_process() -> None:
    """Their own hashes depend on the process, and on what it has met before."""
    code = f"from model.test_identity import _identities as of; print(of(*{NAMES[::-1]}))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = _identities(*NAMES)

    assert str(found[::-1]) == run.stdout.strip()
    assert [len(set(one)) for one in found] == [len(one) for one in found]


def test_a_search_adds_only_the_states_that_are_in_none_before_it() -> None:
    pause = next(one for one in QUICK if one.name == "pause")
    once, again = explore.search(pause), explore.search(pause)

    new = explore.distinct([once, explore.Found("again", {}, [], identities=again.identities)])
    assert new == {"pause": once.states, "again": 0}
