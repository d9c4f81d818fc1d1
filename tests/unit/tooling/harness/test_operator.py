"""What the end-to-end tests look for in the operator's log, to fail a test."""

from __future__ import annotations

from typing import cast

from harness.api import Kube
from harness.keys import WHOLE_KEY, start_keys
from harness.operator import Line, Log

KEY = "a" * WHOLE_KEY


SECRETS = [
    {"metadata": {"name": "etcd-start"}, "data": {"key": KEY, "bootstrap": "e30="}},
    {"metadata": {"name": "other-start"}, "data": {"key": ""}},
    {"metadata": {"name": "third-start"}},
    {"metadata": {"name": "mine"}, "data": {"key": "b" * WHOLE_KEY}},
]
"""As the API server lists them."""


def test_a_key_that_was_logged_during_the_test_is_found():
    log = Log(cast("Kube", None), "operators")
    log.lines += [
        Line(1.0, "a", f"of another test: {KEY}"),
        Line(2.0, "a", "nothing to see"),
        Line(3.0, "b", f"signed with {KEY}"),
        Line(4.0, "b", "-----BEGIN EC PRIVATE KEY-----"),
    ]

    found = log.holding(("PRIVATE KEY", KEY), 2.0)

    assert found == [f"b: signed with {KEY}", "b: -----BEGIN EC PRIVATE KEY-----"]


def test_the_keys_that_are_looked_for_are_those_of_the_clusters_and_none_is_empty():
    """Every line contains an empty text."""
    assert start_keys(SECRETS) == [KEY]
