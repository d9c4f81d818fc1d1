"""Every seeded bug still applies to the code."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from mutants.failures import DO_NOT_FIT  # noqa: E402
from mutants.mutant import Mutant  # noqa: E402
from mutants.run import altered, mutants  # noqa: E402
from mutants.selection import BESIDE, NOT_ASKED, TESTS, UNIT, beside  # noqa: E402

EVERY = mutants()
LAST_FAILURE = 36
"""In the project's notes, which number them."""


@pytest.mark.parametrize("mutant", EVERY, ids=lambda one: f"{one.file}: {one.why}")
def test_its_place_in_the_code_is_there_once(mutant: Mutant) -> None:
    path = altered(ROOT, mutant)

    assert path.is_file(), f"{path} has moved on; mend the mutant"
    assert path.read_text().count(mutant.old) == 1, f"in {path}: {mutant.old!r}"
    assert mutant.new != mutant.old


def test_each_mutant_has_its_own_file_and_harm() -> None:
    """Their verdicts are kept by file and harm."""
    counts = Counter((one.file, one.why) for one in EVERY)

    assert [key for key, count in counts.items() if count > 1] == []


def test_each_failure_that_others_had_has_a_mutant_or_a_reason_why_not() -> None:
    labels = (re.match(r"F(\d+): ", one.why) for one in EVERY)
    seeded = {int(label.group(1)) for label in labels if label}

    assert seeded & DO_NOT_FIT.keys() == set()
    assert seeded | DO_NOT_FIT.keys() == set(range(1, LAST_FAILURE + 1))


def _found(patterns: Iterable[str]) -> list[str]:
    return [str(path.relative_to(UNIT)) for one in patterns for path in UNIT.glob(one)]


def test_every_unit_test_is_asked_or_known_to_have_no_say() -> None:
    every = {str(path.relative_to(UNIT)) for path in UNIT.rglob("test_*.py")}
    asked, not_asked = set(_found(TESTS)), set(_found(NOT_ASKED))

    assert asked | not_asked == every
    assert asked & not_asked == set()


def test_tests_are_beside_every_file_that_is_altered() -> None:
    assert [file for file in {one.file for one in EVERY} if not beside(file)] == []


def test_every_named_test_and_file_exists() -> None:
    named = {one for patterns in BESIDE.values() for one in patterns} | {*TESTS, *NOT_ASKED}

    assert [one for one in sorted(named) if not _found([one])] == []
    assert [file for file in BESIDE if not altered(ROOT, Mutant(file, "", "", "")).is_file()] == []
