"""Tells whether a live object still says what its manifest says.

The API server adds defaults and others add fields of their own; neither is drift. So the manifest
is compared as a subset: every field it sets must be there with its value. Finding drift where there
is none would be a write that never ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from etcd_stateful.api.quantity import same_quantity

_MERGE_KEYS: Final = ("uid", "mountPath", "name", "containerPort", "port", "topologyKey", "key")
"""What identifies an element of a list of objects, first match first, as in Kubernetes' schemas."""

_QUANTITIES: Final = frozenset({"requests", "limits", "sizeLimit"})

_WHOLE: Final = frozenset({"selector", "matchLabels", "nodeSelector"})
"""Maps of text where one more entry changes what all of them mean."""

_EXACT: Final = frozenset({"ingress", "podSelector"})
"""Where one more entry lets somebody in, or leaves pods out. Nothing in them is defaulted."""


def drift(live: Mapping[str, Any], manifest: Mapping[str, Any]) -> str | None:
    """Path of the first field of the manifest that the live object does not have; None if none."""
    return _of_object(live, manifest, "")


def _of_value(live: Any, wanted: Any, path: str, *, quantity: bool) -> str | None:
    if live == wanted:
        return None  # most of any object, and found so without looking into it
    if isinstance(wanted, Mapping):
        found = live if isinstance(live, Mapping) else {}
        return _of_object(found, wanted, path, quantity=quantity)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return _of_list(live if isinstance(live, list) else [], wanted, path)
    if live is None and wanted in ("", None):
        return None  # the API server drops empty text; zero and false it keeps
    return None if quantity and same_quantity(live, wanted) else path


def _of_object(
    live: Mapping[str, Any], wanted: Mapping[str, Any], path: str, *, quantity: bool = False
) -> str | None:
    for key, value in wanted.items():
        inner = f"{path}.{key}" if path else str(key)
        measured = quantity or key in _QUANTITIES
        if key in _EXACT:
            if live.get(key) != value:
                return inner
            continue
        if key in _WHOLE and _has_more(live.get(key), value):
            return inner
        if found := _of_value(live.get(key), value, inner, quantity=measured):
            return found
    return None


def _has_more(live: Any, wanted: Any) -> bool:
    both = isinstance(live, Mapping) and isinstance(wanted, Mapping)
    return both and not live.keys() <= wanted.keys()


def _of_list(live: Sequence[Any], wanted: Sequence[Any], path: str) -> str | None:
    if not wanted:
        return None
    key = _merge_key(wanted)
    if key is None:
        return _in_order(live, wanted, path)
    for item in wanted:
        inner = f"{path}[{item[key]}]"
        same = [one for one in live if isinstance(one, Mapping) and one.get(key) == item[key]]
        found = [_of_object(one, item, inner) for one in same]
        if None not in found:
            return next(iter(found), inner)
    return None


def _in_order(live: Sequence[Any], wanted: Sequence[Any], path: str) -> str | None:
    """For lists that Kubernetes replaces as a whole."""
    if len(live) != len(wanted):
        return path
    pairs = enumerate(zip(live, wanted, strict=True))
    found = (_of_value(one, item, f"{path}[{at}]", quantity=False) for at, (one, item) in pairs)
    return next((where for where in found if where), None)


def _merge_key(items: Sequence[Any]) -> str | None:
    """The key that tells the items apart; None where none does."""
    if not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _MERGE_KEYS if _tells_apart(key, items)), None)


def _tells_apart(key: str, items: Sequence[Mapping[str, Any]]) -> bool:
    values = [item.get(key) for item in items]
    return all(isinstance(value, str | int) for value in values) and len(set(values)) == len(items)
