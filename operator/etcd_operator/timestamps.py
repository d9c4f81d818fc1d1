"""Timestamps as Kubernetes writes them (RFC 3339, UTC), and in seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def rfc3339(moment: float) -> str:
    """In whole seconds."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro(moment: float) -> str:
    """In microseconds, as Kubernetes' MicroTime."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(timestamp: object) -> float | None:
    """None for what is no timestamp."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return None


def created(body: Mapping[str, Any]) -> float | None:
    """When an object was made, by the API server's clock; None for one that does not say."""
    return seconds(body["metadata"].get("creationTimestamp"))


def seconds_since(timestamp: object, now: float) -> float:
    """Age of a timestamp; 0 for none, and for one that is ahead of our clock."""
    then = seconds(timestamp)
    return 0.0 if then is None else max(0.0, now - then)
