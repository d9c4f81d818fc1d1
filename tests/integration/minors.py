"""The minors of etcd that are supported, and which of them a test is run with."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

MINORS = ("3.5", "3.6", "3.7")

OLDEST, *_, NEWEST = MINORS

BEFORE = "3.4"
"""Not supported; its data is what the oldest that is can take in."""


def in_every_run(*minors: str, of: Iterable[str] = MINORS) -> list[object]:
    """As parameters: `make verify` has those that are not in every run."""
    left = [pytest.param(one, marks=pytest.mark.verify) for one in of if one not in minors]
    return [*left, *minors]


EACH = in_every_run(NEWEST)
"""For what does not depend on the minor."""


def differing(fixture: str, *minors: str, of: Iterable[str] = MINORS) -> pytest.MarkDecorator:
    """For a test of what each of these minors does in its own way. The fixture has the minors as
    its parameters."""
    return pytest.mark.parametrize(fixture, in_every_run(*minors, of=of), indirect=True)
