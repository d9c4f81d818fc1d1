"""Finds drift: where a live object differs from its manifest.

The API server adds defaults, and others add fields of their own; neither is drift. So the manifest
is compared as a subset: the live object must have every field of it, with the same value. If drift
were found where there is none, the operator would write the object again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from etcd_stateful.api.quantity import PLACES, same_quantity

_MERGE_KEYS: Final = ("uid", "mountPath", "name", "containerPort", "port", "topologyKey", "key")
"""The keys that Kubernetes' schemas identify elements of lists by. The first that fits is used."""

_QUANTITIES: Final = {"requests": 3, "limits": 3, "sizeLimit": PLACES, "divisor": PLACES}
"""To how many decimal places the API server rounds them up (`SetDefaults_ResourceList`)."""

_WHOLE: Final = frozenset({"selector", "matchLabels", "nodeSelector"})
"""Maps of strings in which an additional entry changes the meaning of the whole."""

_TEXTS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})
"""Maps of strings. The API server keeps an empty string in them, so one may be missing."""

_DROPPED: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys"})
"""Fields of an affinity that Kubernetes 1.30 drops. Newer ones keep them, and never empty."""

_EXACT: Final = frozenset({"ingress", "podSelector"})
"""Fields in which any addition lets somebody in or leaves pods out. The API server adds no defaults
to them, so they are compared as a whole."""


def drift(live: Mapping[str, Any], manifest: Mapping[str, Any]) -> str | None:
    """The path of the first field of the manifest that the live object lacks or has with another
    value; None if there is no drift."""
    return _of_object(live, manifest, "")


def _of_value(live: Any, wanted: Any, path: str, places: int = 0) -> str | None:
    """`places`: of a quantity, and of what is in an object of them; 0 for anything else."""
    if live == wanted:
        return None  # the usual case, and the fastest
    if isinstance(wanted, Mapping):
        found = live if isinstance(live, Mapping) else {}
        return _of_object(found, wanted, path, places)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return _of_list(live if isinstance(live, list) else [], wanted, path)
    if live is None and wanted in ("", None):
        return None  # the API server drops empty strings, but keeps zero and false
    return None if places and same_quantity(live, wanted, places) else path


def _of_object(
    live: Mapping[str, Any], wanted: Mapping[str, Any], path: str, places: int = 0
) -> str | None:
    for key, value in wanted.items():
        inner = f"{path}.{key}" if path else str(key)
        if _is_moot(key, value, live):
            continue
        if key in _EXACT:
            if live.get(key) != value:
                return inner
            continue
        if key in _WHOLE and _has_more(live.get(key), value):
            return inner
        if key in _TEXTS and (missing := _missing(live.get(key), value)):
            return f"{inner}.{missing}"
        if found := _of_value(live.get(key), value, inner, places or _QUANTITIES.get(key, 0)):
            return found
    return None


def _is_moot(key: str, wanted: Any, live: Mapping[str, Any]) -> bool:
    """Whether the API server drops the field, or fills it in where it is empty, as in a
    `fieldRef`."""
    return (key in _DROPPED and key not in live) or (key == "apiVersion" and wanted == "")


def _has_more(live: Any, wanted: Any) -> bool:
    both = isinstance(live, Mapping) and isinstance(wanted, Mapping)
    return both and not live.keys() <= wanted.keys()


def _missing(live: Any, wanted: Any) -> str | None:
    """The first key that only the manifest has."""
    if not isinstance(wanted, Mapping):
        return None
    there = live if isinstance(live, Mapping) else {}
    return next((str(key) for key in wanted if key not in there), None)


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
    """Compares lists that have no merge key, element by element: Kubernetes replaces those as a
    whole."""
    if len(live) != len(wanted):
        return path
    pairs = enumerate(zip(live, wanted, strict=True))
    found = (_of_value(one, item, f"{path}[{at}]") for at, (one, item) in pairs)
    return next((where for where in found if where), None)


def _merge_key(items: Sequence[Any]) -> str | None:
    """The key that tells the items apart; None if there is none."""
    if not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _MERGE_KEYS if _tells_apart(key, items)), None)


def _tells_apart(key: str, items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each item has another value. An empty text is none: the API server drops it."""
    values = [item.get(key) for item in items]
    told = all(isinstance(value, str | int) and value != "" for value in values)
    return told and len(set(values)) == len(items)
