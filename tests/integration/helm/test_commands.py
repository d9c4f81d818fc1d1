"""The commands in pages, notes and examples have only options that kubectl and Helm know."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from unit.documents.test_pages import EXAMPLES, PAGES, ROOT, name_of

PLACES = [*PAGES, *EXAMPLES, *sorted(ROOT.glob("charts/*/templates/NOTES.txt"))]
WORDS_OF_A_COMMAND = {"rollout": 2, "create": 3}
"""Of those that have commands below them, as `kubectl create secret generic`."""
END = r" \|\| | && | \| | > |[;&]$| -- "
"""Where a command ends, and another or what a pod is to run begins."""


@cache
def tool(name: str) -> str:
    """The newest of the local cluster: pages also say what only Helm 4 can do."""
    found = shutil.which(name, path=f"{ROOT / 'build' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.fail(f"{name} is not there: run `make cluster`")
    return found


@cache
def known(name: str, *command: str) -> set[str]:
    """The options of a command, with those that all commands of the tool have."""
    calls = [(*command, "--help"), ("options",)] if name == "kubectl" else [(*command, "--help")]
    texts = [
        subprocess.run(
            [tool(name), *call], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for call in calls
    ]
    return set(re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", "\n".join(texts)))


def commands(page: Path) -> Iterator[list[str]]:
    """What is typed, as words."""
    text = re.sub(r"\$\([^)]*\)|\"?\{\{.*?\}\}\"?", "X", page.read_text()).replace("\\\n", " ")
    blocks = re.findall(r"^ *```console\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`((?:kubectl|helm) [^`]*)`", text)
    if page.suffix != ".md":
        lines += [line.lstrip("# ") for line in text.splitlines()]
    for line in lines:
        for part in re.split(END, line):
            if re.match(r"(kubectl|helm) (?!\.\.\.)", part.strip()):
                yield shlex.split(part, comments=True)


@pytest.mark.parametrize("page", PLACES, ids=name_of)
def test_commands_have_only_options_that_there_are(page: Path) -> None:
    for words in commands(page):
        name, *rest = words
        while rest[0].startswith("-"):  # before the command, each with a value
            rest = rest[1 if "=" in rest[0] else 2 :]
        command = rest[: WORDS_OF_A_COMMAND.get(rest[0], 1)]
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}

        assert given - known(name, *command) == set(), words


def test_the_commands_are_found() -> None:
    found = [words for page in PLACES for words in commands(page)]

    assert {words[0] for words in found} == {"kubectl", "helm"}
    assert len(found) > 100
