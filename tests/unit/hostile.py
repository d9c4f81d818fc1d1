"""The corpus of hostile custom resources, as bodies; the API server is asked of the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

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


@cache
def corpus() -> dict[str, Json]:
    """Bodies by the name of the case."""
    table = yaml.load(Path(__file__).with_name("hostile.yaml").read_text(), _Loader)  # noqa: S506
    made = {f"{row['case']}": _merged(row) for row in table["rows"]}
    for words, text in table["texts"].items():
        made |= {f"{place}: {words}": _with(place, text) for place in table["places"]}
        made |= {f"key of {place}: {words}": _with(place, {text: "1"}) for place in table["keys"]}
    return made


def _good() -> Json:
    return {
        "apiVersion": "etcd.database.coreos.com/v1beta2",
        "kind": "EtcdCluster",
        "metadata": {"name": "good", "namespace": "ns", "uid": UID, "generation": 1},
        "spec": {"size": 3},
    }


def _merged(row: Json) -> Json:
    body = _good()
    body["metadata"] |= row.get("metadata", {})
    body["spec"] |= copy.deepcopy(row.get("spec", {}))
    return body


def _with(place: str, value: Any) -> Json:
    """`value` at a place like `spec.pod.labels.team`."""
    body = _good()
    *path, last = place.split(".")
    inner = body
    for part in path:
        inner = inner.setdefault(part, {})
    inner[last] = value
    return body
