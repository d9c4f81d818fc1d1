"""Waits with a deadline, which report what they saw last."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from urllib3.exceptions import HTTPError

from harness.api import ApiError
from harness.slow import SLOW

T = TypeVar("T")

PASSING = (ApiError, HTTPError, OSError)
"""Errors that are tolerated until the deadline."""

NEAR = 0.5
"""A wait that took more than this part of its limit is listed at the end of a run, because it might
fail on a slower machine."""

near: list[str] = []


def eventually(
    what: str,
    look: Callable[[], T],
    good: Callable[[T], Any] = bool,
    seconds: float = 30.0,
    every: float = 0.2,
) -> T:
    """Waits for a good value of `look`, and returns it. Fails at the deadline with the last one."""
    began, limit = time.monotonic(), SLOW * seconds
    seen: Any = None
    while True:
        try:
            seen = look()
            if good(seen):
                _note(what, time.monotonic() - began, limit)
                return seen
        except PASSING as error:
            seen = error
        assert time.monotonic() < began + limit, (
            f"{what}: not so after {limit:g} s; last: {brief(seen)}"
        )
        time.sleep(every)


def _note(what: str, took: float, limit: float) -> None:
    if took > NEAR * limit:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[2].partition(" ")[0]
        near.append(f"{took:.1f} of {limit:g} s: {what} ({test})")


def steadily(
    what: str,
    look: Callable[[], T],
    good: Callable[[T], Any],
    seconds: float,
    every: float = 0.2,
) -> None:
    """Fails if a value of `look` is not good at any time within these seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = look()
        assert good(seen), f"{what}: no longer so; seen: {brief(seen)}"
        time.sleep(every)


def brief(value: Any) -> str:
    """A short text for a value; of a Kubernetes object its status."""
    if isinstance(value, dict) and "metadata" in value:
        value = value.get("status") or {"metadata": value["metadata"]["name"], "status": None}
    text = json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
    return text if len(text) < 3000 else f"{text[:3000]}..."
