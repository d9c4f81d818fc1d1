"""The corpus of hostile custom resources. Integration tests send it to a real API server too."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Json = dict[str, Any]

UID = "4be0f3a2-0b0e-4d8c-9a55-2f6f0a1c7d11"


class _Loader(yaml.SafeLoader):
    """With tags for hostile sizes."""


_TAGS: dict[str, Callable[..., Any]] = {
    "!text": lambda text, times: text * times,
    "!list": lambda item, times: [item] * times,
    "!map": lambda times: {f"key{number}": "1" for number in range(times)},
}
for _tag, _make in _TAGS.items():
    _Loader.add_constructor(
        _tag, lambda loader, node, make=_make: make(*loader.construct_sequence(node, deep=True))
    )


def _load(name: str) -> Json:
    text = Path(__file__).with_name(name).read_text()
    table: Json = yaml.load(text, _Loader)  # noqa: S506 - of SafeLoader's
    return table


@cache
def corpus() -> dict[str, Json]:
    """Bodies by the name of the case."""
    table = _load("hostile.yaml")
    made = {f"{row['case']}": _merged(_good(), row) for row in table["rows"]}
    for words, text in table["texts"].items():
        made |= {f"{place}: {words}": _with(_good(), place, text) for place in table["places"]}
        made |= {
            f"key of {place}: {words}": _with(_good(), place, {text: "1"})
            for place in table["keys"]
        }
    return made


class Kind(NamedTuple):
    """Hostile objects of one kind beside the EtcdClusters."""

    plural: str
    good: Json
    rows: dict[str, Json]
    texts: dict[str, tuple[Json, list[str]]]
    """With the places in a rendered Job where the text may be."""


@cache
def kinds() -> dict[str, Kind]:
    texts = _load("hostile.yaml")["texts"].items()
    found = {}
    for name, table in _load("hostile_backups.yaml").items():
        good = _good(name, table["spec"])
        rows = {row["case"]: _merged(good, row) for row in table["rows"]}
        bodies = {
            f"{place}: {words}": (_with(good, place, text), allowed)
            for place, allowed in table["places"].items()
            for words, text in texts
        }
        found[name] = Kind(table["plural"], good, rows, bodies)
    return found


def _good(kind: str = "EtcdCluster", spec: Json | None = None) -> Json:
    return {
        "apiVersion": "etcd.database.coreos.com/v1beta2",
        "kind": kind,
        "metadata": {"name": "good", "namespace": "ns", "uid": UID, "generation": 1},
        "spec": spec or {"size": 3},
    }


def _merged(good: Json, row: Json) -> Json:
    body = copy.deepcopy(good)
    body["metadata"] |= row.get("metadata", {})
    body["spec"] |= copy.deepcopy(row.get("spec", {}))
    return body


def _with(good: Json, place: str, value: Any) -> Json:
    """`value` at a place like `spec.pod.labels.team`; alone in a list where that ends in `[]`."""
    body = copy.deepcopy(good)
    *path, last = place.removesuffix("[]").split(".")
    inner = body
    for part in path:
        inner = inner.setdefault(part, {})
    inner[last] = [value] if place.endswith("[]") else value
    return body
