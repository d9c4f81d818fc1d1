"""The supported minors of etcd, and which of them a test runs with."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

MINORS = ("3.5", "3.6", "3.7")

OLDEST, *_, NEWEST = MINORS

BEFORE = "3.4"
"""The last unsupported minor, whose data the oldest supported one can run."""


def in_every_run(*minors: str, of: Iterable[str] = MINORS) -> list[object]:
    """Test parameters for all minors; those that are not named run with `make verify` only."""
    left = [pytest.param(one, marks=pytest.mark.verify) for one in of if one not in minors]
    return [*left, *minors]


EACH = in_every_run(NEWEST)
"""Parameters for tests that do not depend on the minor."""


def differing(fixture: str, *minors: str, of: Iterable[str] = MINORS) -> pytest.MarkDecorator:
    """Marks a test of behaviour that differs between these minors. The minors are parameters of the
    fixture."""
    return pytest.mark.parametrize(fixture, in_every_run(*minors, of=of), indirect=True)
