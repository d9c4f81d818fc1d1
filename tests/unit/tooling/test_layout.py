"""The layout of the repository: where files are, and what may import what."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CORE = ROOT / "stateful" / "etcd_stateful"
SHELL = ROOT / "operator" / "etcd_operator"

LONGEST_MODULE = 400
LONGEST_FUNCTION = 60

TARGET = re.compile(r"(?:`|^)make ([a-z0-9-]+)(?=`| *(?:$|#|[A-Z&]))", re.MULTILINE)
DEFINED = re.compile(r"^([a-z0-9-]+):(?!=)", re.MULTILINE)


def modules(*roots: Path) -> list[Path]:
    return sorted(path for root in roots for path in root.rglob("*.py"))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every AST node of a module."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def named(path: Path) -> set[str]:
    """Full names of what a module imports: of modules, and of what is in them."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def imported(path: Path) -> set[str]:
    """Top-level packages that a module imports."""
    return {name.partition(".")[0] for name in named(path)}


def test_every_make_target_that_is_mentioned_exists() -> None:
    """The Dockerfile mentioned one that did not."""
    pages = [ROOT / "Dockerfile", ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += (ROOT / "tests").rglob("README.md")
    named = {name for page in pages for name in TARGET.findall(page.read_text())}
    makefiles = [ROOT / "Makefile", ROOT / "tests" / "cluster" / "cluster.mk"]
    there = {name for path in makefiles for name in DEFINED.findall(path.read_text())}

    assert named
    assert named <= there


@pytest.mark.parametrize("root", ["operator", "stateful"])
def test_a_source_root_is_never_a_package(root: str) -> None:
    """A package named `operator` in the working directory breaks Python itself."""
    assert (ROOT / root).is_dir()
    assert not (ROOT / root / "__init__.py").exists()


def test_the_standard_library_is_found_from_the_root_of_the_repository() -> None:
    code = "import operator, collections; print(operator.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={}, capture_output=True, text=True, check=True
    )

    assert Path(found.stdout.strip()).parent != ROOT / "operator"
    assert found.stdout.strip().endswith("operator.py")


@pytest.mark.parametrize("package", ["start", "recover"])
def test_start_imports_no_packages_but_our_two(package: str) -> None:
    """Every pod start waits for its imports, and the image must contain everything it needs."""
    code = (
        f"import sys, etcd_operator.{package}.__main__\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {_roots()}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )

    others = set(found.stdout.split()) - sys.stdlib_module_names - {"__main__"}
    assert others == {"etcd_operator", "etcd_stateful"}


def _roots() -> list[str]:
    return [str(ROOT / "operator"), str(ROOT / "stateful")]


def test_start_does_not_load_what_it_does_not_need() -> None:
    code = "import sys, etcd_operator.start.__main__; print(*sorted(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {_roots()}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {name for name in found.stdout.split() if name.startswith("etcd_stateful.")}
    parts = ("configuration", "marker", "rules", "ticket", "wal")
    own = {"etcd_stateful.naming", "etcd_stateful.start"}
    assert loaded == own | {f"etcd_stateful.start.{name}" for name in parts}
    assert not {"asyncio", "ssl", "http.client"} & set(found.stdout.split())


@pytest.mark.parametrize(
    ("module", "code", "words"),
    [("backup", 3, "BACKUP is not an order"), ("restore", 2, "START_SETTINGS is not set")],
)
def test_a_job_says_why_it_ends_before_it_does(module: str, code: int, words: str) -> None:
    environment = {"PYTHONPATH": os.pathsep.join(_roots())}
    found = subprocess.run(
        [sys.executable, "-m", f"etcd_operator.{module}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.returncode == code
    assert words in found.stdout + found.stderr


@pytest.mark.parametrize(
    ("job", "spared"),
    [
        ("backup", {"cryptography", "pythonjsonlogger", "etcd_stateful.api.cluster", "kopf"}),
        ("restore", {"asyncio", "obstore", "grpc", "etcd_stateful.api.cluster"}),
    ],
)
def test_a_job_does_not_load_what_it_seldom_needs(job: str, spared: set[str]) -> None:
    """A small backup takes less time than these imports."""
    code = f"import sys, etcd_operator.{job}.__main__; print(*sys.modules)"
    environment = {"PYTHONPATH": os.pathsep.join(_roots())}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert not spared & set(found.stdout.split())


@pytest.mark.parametrize("path", modules(CORE), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_imports_the_standard_library_alone(path: Path) -> None:
    assert imported(path) - sys.stdlib_module_names <= {"etcd_stateful"}


@pytest.mark.parametrize("path", modules(CORE), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_has_no_clock_no_chance_and_no_io(path: Path) -> None:
    outside = {
        "asyncio",
        "datetime",
        "io",
        "os",
        "pathlib",
        "random",
        "secrets",
        "socket",
        "subprocess",
        "sys",
        "threading",
        "time",
        "uuid",
    }
    calls = {
        node.func.id
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    assert not imported(path) & outside
    assert not calls & {"open", "print", "input", "exec", "eval"}


@pytest.mark.parametrize("path", modules(CORE, SHELL), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_grows_beyond_what_one_can_read_in_one_go(path: Path) -> None:
    functions = [
        node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    assert len(path.read_text().splitlines()) <= LONGEST_MODULE
    assert not [
        node.name
        for node in functions
        if (node.end_lineno or node.lineno) - node.lineno >= LONGEST_FUNCTION
    ]


def test_each_folder_of_unit_tests_is_named_after_the_package_that_it_tests() -> None:
    packages = {path.parent.name for path in modules(CORE, SHELL) if path.name == "__init__.py"}
    folders = {path.parent.name for path in (ROOT / "tests" / "unit").glob("*/*.py")}

    assert folders - packages == {"documents", "fakes", "tiny_world", "tooling"}


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Also between the packages of the planner, for which there are no layers."""
    names = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): path
        for root in (CORE, SHELL)
        for path in modules(root)
    }

    TopologicalSorter({name: named(path) & names.keys() for name, path in names.items()}).prepare()


def test_layers_are_kept() -> None:
    """import-linter's contracts in pyproject.toml."""
    code = "from importlinter.cli import lint_imports_command as run; run(['--no-cache'])"
    found = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(_roots())},
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.returncode == 0, found.stdout + found.stderr
    assert " kept, 0 broken" in found.stdout
