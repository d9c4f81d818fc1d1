"""Conditions in the status of any object."""

from __future__ import annotations

from harness.api import Json


def condition(body: Json | None, kind: str) -> Json:
    """The condition of that type; empty if there is none, or no object."""
    found = ((body or {}).get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), {})
