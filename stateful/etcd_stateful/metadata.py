"""Reads the labels and annotations of an object, which may have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}
