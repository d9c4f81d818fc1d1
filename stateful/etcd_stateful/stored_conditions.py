"""The conditions in a status: one of them by its type, and its times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OURS: Final = frozenset(
    {
        *("Accepted", "Available", "Progressing", "Degraded", "Ready", "Blocked", "Paused"),
        *("Recovering", "Scaling", "Upgrading", "ChangingTLS", "Rotating"),
        *("Plaintext", "DrainsBlocked"),
        *("Complete", "Scheduled", "LastRun", "Retained"),
    }
)
"""The types of all conditions that the operator writes, for any kind. Other controllers may add
others, which stay as they are."""


def ours(status: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The operator's conditions in a status."""
    return [one for one in _every(status) if one.get("type") in OURS]


def find(status: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    """The condition of this type; empty if there is none."""
    return next((one for one in _every(status) if one.get("type") == kind), {})


def _every(status: object) -> list[Mapping[str, Any]]:
    """None of another form: what was stored before a CRD had a schema is not checked."""
    found = status.get("conditions") if isinstance(status, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def is_true(status: Mapping[str, Any] | None, kind: str) -> bool:
    return bool(find(status, kind).get("status") == "True")


def message(status: Mapping[str, Any] | None, kind: str, truth: str) -> str:
    """What this condition says while its status is `truth`; else empty."""
    found = find(status, kind)
    return str(found.get("message") or "") if found.get("status") == truth else ""


def with_times(condition: Mapping[str, Any], before: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The condition with its times. Each time changes only when what it dates has changed.

    Args:
        condition: the condition without its times.
        before: the condition in the stored status; empty if it is new.
        now: RFC 3339.
    """
    same_status = before.get("status") == condition["status"]
    unchanged = all(before.get(key) == value for key, value in condition.items())
    return {
        **condition,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same_status else now,
        "lastUpdateTime": before.get("lastUpdateTime", now) if unchanged else now,
    }
