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

Every field of the four kinds, as `kubectl explain etcd.spec --recursive` also shows it. Fields of
the coreos operator keep their names; [which of them mean something else](migrate-from-coreos.md)
is on a page of its own.
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
        lines += list(_rows(schema["properties"][part], ""))
        lines.append("")
    return "\n".join(lines)


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        inner = f"{path}{name}"
        yield f"| `{inner}` | {_type(field)} | {_words(field)} |"
        if name in VERBATIM:
            continue
        if field.get("type") == "array":
            yield from _rows(field["items"], f"{inner}[].")
        else:
            yield from _rows(field, f"{inner}.")


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {field['items'].get('type', 'any')}"
    if kind == "object" and "additionalProperties" in field:
        return "map"
    default = f", default `{field['default']}`" if "default" in field else ""
    return kind + default


def _words(field: dict[str, Any]) -> str:
    return " ".join(str(field.get("description", "")).split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
