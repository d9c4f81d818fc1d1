"""The times of a condition in the API's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def dated(said: Mapping[str, Any], before: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The condition with its times; each changes only when what it dates has changed.

    Args:
        said: the condition but for its times.
        before: as the stored status has it; empty where it is new.
        now: RFC 3339.
    """
    same_status = before.get("status") == said["status"]
    unchanged = all(before.get(key) == value for key, value in said.items())
    return {
        **said,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same_status else now,
        "lastUpdateTime": before.get("lastUpdateTime", now) if unchanged else now,
    }
