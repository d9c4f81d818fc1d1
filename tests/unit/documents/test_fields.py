"""The fields that pages, examples and the operator's messages name exist."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.documents.test_pages import CORE, EXAMPLES, PAGES, ROOT, SHELL, name_of

VALUES = ROOT / "charts" / "etcd-operator" / "values.yaml"
FIELD = re.compile(r"\b(spec|status)\.([A-Za-z][\w.]*\w)")
COMMAND = re.compile(r"\b(?:kubectl|etcdctl) [a-z-]+(?: (?!to\b)[a-z-]+\b(?=[ `),.:;]|$))?")
NOT_TAKEN_APART = (
    "pod.affinity.",
    "pod.etcdEnv.",
    "pod.persistentVolumeClaimSpec.",
    "pod.resources.",
    "pod.securityContext.",
)
"""Types of Kubernetes, which the reference does not take apart."""


def there() -> dict[str, set[str]]:
    """All paths of the four kinds, as the reference has them."""
    found: dict[str, set[str]] = {"spec": set(), "status": set()}
    for kind in (ROOT / "docs" / "reference.md").read_text().split("\n## ")[1:]:
        spec, _, status = kind.partition("### status")
        for part, text in (("spec", spec), ("status", status)):
            paths = re.findall(r"^\| `(\S+)` \|", text, re.MULTILINE)
            found[part] |= {path.replace("[]", "") for path in paths}
    return found


THERE = there()


def unknown(text: str) -> set[str]:
    return {
        f"{part}.{path}"
        for part, path in FIELD.findall(text)
        if path not in THERE[part] and not path.startswith(NOT_TAKEN_APART)
    }


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES, VALUES], ids=name_of)
def test_every_field_that_a_page_names_exists(page: Path) -> None:
    names_of_modules = {f"{one.stem}.py" for one in CORE.glob("*")}

    assert {one for one in unknown(page.read_text()) if one not in names_of_modules} == set()


def messages(path: Path) -> Iterator[str]:
    """Texts in the code with a blank in them, so no keys; and nothing that documents it."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in told:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values
            )
        elif isinstance(node, ast.Constant) and " " in str(node.value):
            yield str(node.value)


def test_every_field_that_a_message_names_exists() -> None:
    """`set spec.x` of a field that there is not helps nobody, and no type checker sees it."""
    paths = [path for root in (CORE, SHELL) for path in root.rglob("*.py")]
    found = {one: path.name for path in paths for text in messages(path) for one in unknown(text)}

    assert found == {}


def advised() -> set[str]:
    """The commands in messages, without their options and objects."""
    found: set[str] = set()
    for path in (path for root in (CORE, SHELL) for path in root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(ast.Attribute(attr="etcdctl"), args=[_, ast.Constant(str(words))]):
                    found.add(f"etcdctl {words}")
        for text in messages(path):
            found |= {one.strip() for one in COMMAND.findall(text)}
    return {" ".join(one.split()[:3]) for one in found if "--" not in one}


def test_every_command_that_a_message_advises_is_in_the_documentation() -> None:
    """Whoever looks for the words of a message found nothing about `etcdctl alarm disarm`."""
    pages = " ".join("\n".join(page.read_text() for page in PAGES).split())

    assert {"kubectl delete pod", "etcdctl member remove", "etcdctl alarm disarm"} <= advised()
    assert {one for one in advised() if one not in pages} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_is_one_that_a_shell_can_read(page: Path) -> None:
    blocks = re.findall(r"^ *```console\n(.*?)```", page.read_text(), re.DOTALL | re.MULTILINE)
    done = subprocess.run(
        ["bash", "-n"], input="\n".join(blocks), capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
