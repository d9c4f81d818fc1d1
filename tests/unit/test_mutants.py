"""The seeded bugs still apply: one whose code has moved on would be looked for in vain."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from mutants.mutant import Mutant  # noqa: E402
from mutants.run import altered, mutants  # noqa: E402

EVERY = mutants()


@pytest.mark.parametrize("mutant", EVERY, ids=lambda one: f"{one.file}: {one.why}")
def test_its_place_in_the_code_is_there_once(mutant: Mutant) -> None:
    path = altered(ROOT, mutant)

    assert path.is_file(), f"{path} has moved on; mend the mutant"
    assert path.read_text().count(mutant.old) == 1, f"in {path}: {mutant.old!r}"
    assert mutant.new != mutant.old


def test_each_is_told_from_the_others() -> None:
    """Their verdicts are kept by file and harm."""
    counts = Counter((one.file, one.why) for one in EVERY)

    assert [key for key, count in counts.items() if count > 1] == []
