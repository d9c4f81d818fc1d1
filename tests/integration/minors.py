"""Which of etcd's minors a test is run with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def each(minors: Sequence[str]) -> list[Any]:
    """As parameters. Every run takes the oldest and the newest, `make verify` those in between."""
    oldest, *between, newest = minors
    return [oldest, *(pytest.param(one, marks=pytest.mark.verify) for one in between), newest]
