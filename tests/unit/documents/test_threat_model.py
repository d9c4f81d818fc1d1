"""Every boundary of the threat model names tests, and these tests exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "threat-model.md").read_text()
NAMED = sorted(set(re.findall(r"`([a-z0-9_/]+\.py)::([a-z0-9_]+)`", TEXT)))
ROWS = [
    line for line in TEXT.splitlines() if line.startswith("| ") and "boundary | how" not in line
]


@functools.cache
def functions_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


@pytest.mark.parametrize(("path", "test"), NAMED, ids=["::".join(one) for one in NAMED])
def test_every_test_that_is_named_exists(path: str, test: str) -> None:
    assert test in functions_in(path)


def test_every_name_is_checked() -> None:
    assert len(re.findall(r"`[a-z0-9_/]+\.py::test_[a-z0-9_]+`", TEXT)) == TEXT.count("::")


def test_every_boundary_has_a_test_or_says_that_it_does_not_hold_yet() -> None:
    bare = [row for row in ROWS if "::test_" not in row and "**not yet**" not in row]

    assert bare == []
    assert len(ROWS) > 20
