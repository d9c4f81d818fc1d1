"""Moments as Kubernetes writes them (RFC 3339, UTC, whole seconds), and in seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(timestamp: object) -> float | None:
    """None for what is no timestamp."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return None


def seconds_since(timestamp: object, now: float) -> float:
    """Age of a timestamp; 0 for none, and for one that is ahead of our clock."""
    then = seconds(timestamp)
    return 0.0 if then is None else max(0.0, now - then)
