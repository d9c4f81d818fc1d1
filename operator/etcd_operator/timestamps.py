"""Converts between Kubernetes' timestamps (RFC 3339, UTC) and seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def rfc3339(moment: float) -> str:
    """Formats in whole seconds, as Kubernetes' Time."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro(moment: float) -> str:
    """Formats in microseconds, as Kubernetes' MicroTime."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(timestamp: object) -> float | None:
    """Parses a timestamp; None if it is not one."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return None


def created(body: Mapping[str, Any]) -> float | None:
    """When the object was created, by the API server's clock; None without a creationTimestamp."""
    return seconds(body["metadata"].get("creationTimestamp"))


def age_of(obj: Mapping[str, Any], now: float) -> float:
    """Seconds since the object was created."""
    return seconds_since(obj["metadata"].get("creationTimestamp"), now)


def seconds_since(timestamp: object, now: float) -> float:
    """The age of a timestamp; 0 if there is none, or if it is ahead of our clock."""
    then = seconds(timestamp)
    return 0.0 if then is None else max(0.0, now - then)
