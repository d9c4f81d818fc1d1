"""The minors of etcd that are supported, and which of them a test is run with."""

from __future__ import annotations

import pytest

MINORS = ("3.5", "3.6", "3.7")

*_older, _newest = MINORS
_oldest, *_between = _older


def _left_to_verify(minors: list[str]) -> list[object]:
    return [pytest.param(one, marks=pytest.mark.verify) for one in minors]


EACH = [_oldest, *_left_to_verify(_between), _newest]
"""As parameters. Every run takes the oldest and the newest, `make verify` those in between."""


def newest_first(fixture: str) -> pytest.MarkDecorator:
    """For a test that takes long: every run takes the newest, `make verify` the others. The fixture
    has the minors as its parameters."""
    return pytest.mark.parametrize(fixture, [*_left_to_verify(_older), _newest], indirect=True)
