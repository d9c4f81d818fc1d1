"""docs/reference.md says of each field what `kubectl explain` says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference.md").read_text()
NOT_TAKEN_APART = {"affinity", "tolerations", "securityContext", "resources", "etcdEnv"}

Field = tuple[dict[str, Any], bool]


@cache
def specs() -> dict[str, dict[str, Any]]:
    """The schemas of the specs, by kind."""
    paths = sorted((ROOT / "crds").glob("*.yaml"))
    found = [yaml.load(path.read_text(), yaml.CSafeLoader)["spec"] for path in paths]
    return {
        one["names"]["kind"]: one["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for one in found
    }


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, Field]]:
    """Each field by its path, and whether it has to be set."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", (inner, name in schema.get("required", ()))
        if name not in NOT_TAKEN_APART:
            listed = inner.get("type") == "array"
            end = "[]." if listed else "."
            yield from fields(inner["items"] if listed else inner, f"{path}{name}{end}")


def types(kind: str) -> dict[str, str]:
    """What the page says in the column `type`, by path."""
    section = PAGE.partition(f"\n## {kind}\n")[2].partition("\n### status")[0]
    return dict(re.findall(r"^\| `(\S+)` \| (.*?) \|", section, re.MULTILINE))


@pytest.mark.parametrize("kind", specs())
def test_the_reference_did_not_say_which_fields_have_to_be_set(kind: str) -> None:
    asked = {path for path, (_, required) in fields(specs()[kind]) if required}

    assert asked
    assert {path for path, said in types(kind).items() if said.endswith(", required")} == asked


@pytest.mark.parametrize("kind", specs())
def test_the_reference_did_not_say_which_values_a_field_takes(kind: str) -> None:
    """Such as those of `auth.roles[].permissions[].access`, which no description names either."""
    choices = {
        path: {one for one in field.get("items", field).get("enum", ()) if one}
        for path, (field, _) in fields(specs()[kind])
    }
    told = {path: set(re.findall("`(.*?)`", said)) for path, said in types(kind).items()}

    assert any(choices.values())
    assert {path: told[path] for path, of in choices.items() if of} == {
        path: of for path, of in choices.items() if of
    }
