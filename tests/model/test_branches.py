"""The excuses for places of the planner that the model does not reach."""

from __future__ import annotations

from pathlib import Path

from model import branches

UNIT = Path(__file__).parents[1] / "unit"


def test_each_excuse_is_for_a_place_that_there_is() -> None:
    assert branches.dead() == []


def test_no_place_has_two_excuses() -> None:
    assert branches.OTHER_FEATURES.keys() & branches.OUT_OF_REACH.keys() == set()


def test_each_place_of_the_membership_out_of_reach_has_a_unit_test() -> None:
    missing = [one for _, one in branches.OUT_OF_REACH.values() if not (UNIT / one).is_file()]

    assert missing == []
