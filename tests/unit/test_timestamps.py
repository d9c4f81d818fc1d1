"""Timestamps as Kubernetes writes them."""

from __future__ import annotations

import pytest

from etcd_operator.timestamps import rfc3339, seconds, seconds_since

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def test_a_timestamp_is_read_back_as_it_was_written():
    assert rfc3339(NOW) == "2026-01-01T00:00:00Z"
    assert seconds(rfc3339(NOW)) == NOW
    assert rfc3339(NOW + 0.9) == rfc3339(NOW)


@pytest.mark.parametrize("words", [None, "", "garbage", 7])
def test_an_invalid_timestamp_is_none(words):
    assert seconds(words) is None


@pytest.mark.parametrize(
    ("timestamp", "age"),
    [
        (None, 0.0),
        ("2026-01-01T00:05:00Z", 0.0),
        ("garbage", 0.0),
        ("2025-12-31T23:00:00Z", 3600),
    ],
)
def test_an_age_is_never_negative_and_never_an_error(timestamp, age):
    assert seconds_since(timestamp, NOW) == age
