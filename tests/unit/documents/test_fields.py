"""The fields that pages, examples and the operator's messages name exist."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from unit.documents.test_pages import CORE, EXAMPLES, PAGES, ROOT, SHELL, name_of

VALUES = ROOT / "charts" / "etcd-operator" / "values.yaml"
FIELD = re.compile(r"\b(spec|status)\.([A-Za-z][\w.]*\w)")
COMMAND = re.compile(r"\b(?:kubectl|etcdctl) [a-z-]+(?: (?!to\b)[a-z-]+\b(?=[ `),.:;]|$))?")
REFERENCE = re.compile(r"docs/([\w-]+\.md)(?:, \"?([A-Z][\w ]+))?")
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
    files = {f"{one.stem}.py" for one in CORE.glob("*")} | {one.name for one in PAGES}

    assert unknown(page.read_text()) - files == set()


@cache
def messages() -> set[str]:
    """Texts in the code with a blank in them, so no keys; and nothing that documents it."""
    found: set[str] = set()
    for path in (path for root in (CORE, SHELL) for path in root.rglob("*.py")):
        told: set[int] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Expr(value=value):
                    told.add(id(value))
                case ast.Call(ast.Attribute(attr="etcdctl"), args=[_, ast.Constant(str(words))]):
                    found.add(f"etcdctl {words}")
                case ast.JoinedStr(values=parts):
                    found.add("".join(_known(one) for one in parts))
                case ast.Constant(str(text)) if " " in text and id(node) not in told:
                    found.add(text)
    return found


def _known(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def test_every_field_that_a_message_names_exists() -> None:
    """`set spec.x` of a field that there is not helps nobody, and no type checker sees it."""
    assert {one for text in messages() for one in unknown(text)} == set()


def advised() -> set[str]:
    """The commands in messages, without their options and objects."""
    found = {one.strip() for text in messages() for one in COMMAND.findall(text)}
    return {" ".join(one.split()[:3]) for one in found}


def test_every_command_that_a_message_advises_is_in_the_documentation() -> None:
    """Whoever looks for the words of a message found nothing about `etcdctl alarm disarm`."""
    pages = " ".join("\n".join(page.read_text() for page in PAGES).split())

    assert {"kubectl delete pod", "etcdctl member remove", "etcdctl alarm disarm"} <= advised()
    assert {one for one in advised() if one not in pages} == set()


def test_every_page_that_a_message_or_a_chart_refers_to_exists() -> None:
    """And the heading, if one is named behind the page."""
    charts = [path for path in (ROOT / "charts").rglob("*") if path.suffix in (".yaml", ".txt")]
    texts = [" ".join(text.split()) for text in messages()]
    texts += [re.sub(r"\s+#? *", " ", path.read_text()) for path in charts]
    named = {one for text in texts for one in REFERENCE.findall(text)}

    assert ("operator.md", "Who owns the CRDs") in named
    assert ("tls.md", "Static") in named
    for page, heading in named:
        text = (ROOT / "docs" / page).read_text()
        assert not heading or re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE), heading


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_is_one_that_a_shell_can_read(page: Path) -> None:
    blocks = re.findall(r"^ *```console\n(.*?)```", page.read_text(), re.DOTALL | re.MULTILINE)
    done = subprocess.run(
        ["bash", "-n"], input="\n".join(blocks), capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
