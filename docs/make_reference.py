"""Writes docs/reference.md from the descriptions in crds/, so that the two cannot disagree.

`python docs/make_reference.py --check` fails if the page is not what the CRDs say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference.md"
KINDS = ("etcdclusters", "etcdbackups", "etcdbackupschedules", "etcdrestores")
VERBATIM = frozenset({"affinity", "tolerations", "securityContext", "resources", "etcdEnv"})
"""Kubernetes' own types: named, not spelled out; `kubectl explain` has them in full."""

INTRODUCTION = """\
# Reference

Every field of the four kinds. Fields of Kubernetes' own types, such as affinity, are named, but not
taken apart: `kubectl explain etcd.spec --recursive` shows those too. *Required* means within the
field above: `auth.rootSecret` only if there is `auth`.

Fields of the coreos operator keep their names; [which of them mean something
else](migrate-from-coreos.md) is on a page of its own.
"""


def main(arguments: list[str]) -> int:
    page = "\n".join([INTRODUCTION, *(_kind(kind) for kind in KINDS)])
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text() == page:
            return 0
        print("docs/reference.md is not what crds/ says: run `make reference`", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    return 0


def _kind(name: str) -> str:
    definition = yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    lines = [f"## {definition['spec']['names']['kind']}", "", _words(schema), ""]
    for part in ("spec", "status"):
        lines += [f"### {part}", "", "| field | type | meaning |", "|---|---|---|"]
        lines += list(_rows(schema["properties"][part], "", says_required=part == "spec"))
        lines.append("")
    return "\n".join(lines)


def _rows(schema: dict[str, Any], path: str, *, says_required: bool) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        inner = f"{path}{name}"
        required = ", required" if says_required and name in schema.get("required", ()) else ""
        yield f"| `{inner}` | {_type(field)}{required} | {_words(field)} |"
        if name in VERBATIM:
            continue
        if field.get("type") == "array":
            yield from _rows(field["items"], f"{inner}[].", says_required=says_required)
        else:
            yield from _rows(field, f"{inner}.", says_required=says_required)


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if kind == "object" and "additionalProperties" in field:
        return "map"
    if choices := [f"`{one}`" for one in field.get("enum", ()) if one]:
        return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
    default = f", default `{field['default']}`" if "default" in field else ""
    return kind + default


def _words(field: dict[str, Any]) -> str:
    return " ".join(str(field.get("description", "")).split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
