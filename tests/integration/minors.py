"""The minors of etcd that are supported, and which of them a test is run with."""

from __future__ import annotations

import pytest

MINORS = ("3.5", "3.6", "3.7")

_oldest, *_between, _newest = MINORS
EACH = [_oldest, *(pytest.param(one, marks=pytest.mark.verify) for one in _between), _newest]
"""As parameters. Every run takes the oldest and the newest, `make verify` those in between."""
