"""Tells whether a live object still says what its manifest says.

The API server adds defaults and others add fields of their own; neither is drift. So the manifest
is compared as a subset: every field it sets must be there with its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from etcd_stateful.api.quantity import same_quantity

_MERGE_KEYS: Final = ("name", "mountPath", "containerPort", "port", "uid", "topologyKey", "key")
"""What identifies an element of a list of objects, first match first, as in Kubernetes' schemas."""

_QUANTITIES: Final = frozenset({"requests", "limits", "sizeLimit"})


def drift(live: Mapping[str, Any], manifest: Mapping[str, Any]) -> str | None:
    """Path of the first field of the manifest that the live object does not have; None if none."""
    return _of_object(live, manifest, "")


def _of_value(live: Any, wanted: Any, path: str, *, quantity: bool) -> str | None:
    if isinstance(wanted, Mapping):
        found = live if isinstance(live, Mapping) else {}
        return _of_object(found, wanted, path, quantity=quantity)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return _of_list(live if isinstance(live, list) else [], wanted, path)
    if live == wanted or (not wanted and live is None):
        return None  # the API server drops zero values
    return None if quantity and same_quantity(live, wanted) else path


def _of_object(
    live: Mapping[str, Any], wanted: Mapping[str, Any], path: str, *, quantity: bool = False
) -> str | None:
    for key, value in wanted.items():
        inner = f"{path}.{key}" if path else str(key)
        measured = quantity or key in _QUANTITIES
        if found := _of_value(live.get(key), value, inner, quantity=measured):
            return found
    return None


def _of_list(live: Sequence[Any], wanted: Sequence[Any], path: str) -> str | None:
    if not wanted:
        return None
    key = _merge_key(wanted)
    if key is None:
        return None if list(live) == list(wanted) else path
    by_key = {item.get(key): item for item in live if isinstance(item, Mapping)}
    for item in wanted:
        inner = f"{path}[{item[key]}]"
        if item[key] not in by_key:
            return inner
        if found := _of_object(by_key[item[key]], item, inner):
            return found
    return None


def _merge_key(items: Sequence[Any]) -> str | None:
    if not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _MERGE_KEYS if all(key in item for item in items)), None)
