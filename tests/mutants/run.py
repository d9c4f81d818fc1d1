"""Seeds each mutant in a copy of the sources, and runs the unit tests and the model against it.

    python tests/mutants/run.py [--only TEXT] [--of MODULE] [--again] [--near] [--model] [--jobs N]

The tests beside the altered code run first. If they pass, all others run, and then the model. It
prints a table of which check caught which mutant, and writes `report.json` beside this file. It
exits with 1 if a mutant survives (a hole in the tests) or no longer applies (the code has changed).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from mutants.mutant import Mutant  # noqa: E402
from mutants.selection import TESTS, beside  # noqa: E402

MODULES = (
    "failures",
    "members",
    "restarts",
    "beginning",
    "order",
    "edges",
    "recovery",
    "put_back",
    "guards",
    "tls",
    "auth",
    "rotation",
    "issued",
    "backups",
    "backup_passes",
    "backup_decisions",
    "stored_files",
    "stores",
    "trials",
    "restores",
    "by_name",
    "in_place",
    "schedules",
    "silence",
    "claim_expansion",
    "space",
)
REPORT = Path(__file__).with_name("report.json")
COPIED = (
    "stateful",
    "operator",
    "examples",
    "crds",
    "charts",
    "docs",
    "tests",
    "requirements",
    "Makefile",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "Dockerfile",
    "pyproject.toml",
)
"""Some unit tests check the other tests and the documentation."""

ENOUGH = 3
SHELL = "operator/"


class Stale(Exception):
    """The text that a mutant replaces does not occur exactly once."""


def mutants(module: str = "") -> list[Mutant]:
    modules = [import_module(f"mutants.{one}") for one in MODULES if module in ("", one)]
    return [mutant for one in modules for mutant in one.MUTANTS]


def copy_to(place: Path) -> None:
    for name in COPIED:
        source, target = ROOT / name, place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target)


def altered(place: Path, mutant: Mutant) -> Path:
    return place / ("" if mutant.file.startswith(SHELL) else "stateful/etcd_stateful") / mutant.file


@contextmanager
def seeded(place: Path, mutant: Mutant) -> Iterator[None]:
    path = altered(place, mutant)
    text = path.read_text() if path.exists() else ""
    if text.count(mutant.old) != 1:
        raise Stale(f"{mutant.file}: found {text.count(mutant.old)} times: {mutant.old!r}")
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        yield
    finally:
        path.write_text(text)


def python(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # No bytecode: files change faster than the resolution of its timestamps.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [sys.executable, "-P", *words],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )


def failures(place: Path, patterns: tuple[str, ...], enough: int = ENOUGH) -> list[str]:
    """The tests that fail in a copy, up to `enough` of them."""
    folder = place / "tests/unit"
    found = dict.fromkeys(path for one in patterns for path in sorted(folder.glob(one)))
    tests = [str(path.relative_to(place)) for path in found]
    options = [f"--maxfail={enough}", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider"]
    run = python(place, "-m", "pytest", *options, *tests)
    if run.returncode not in {0, 1, 2}:
        raise RuntimeError(run.stdout + run.stderr)
    said = (line.split(" ", 1) for line in run.stdout.splitlines())
    kinds = ("FAILED", "ERROR")
    return [rest[0].split(" - ")[0] for kind, *rest in said if kind in kinds and rest]


def model(place: Path, known: list[str] | None = None) -> list[str]:
    """What breaks in the model.

    Args:
        known: failures to leave out; None reports all.
    """
    words = [] if known is None else [json.dumps(known)]
    run = python(place, "tests/mutants/model.py", *words)
    if run.returncode:
        return [f"the model does not run: {run.stderr.splitlines()[-1]}"]
    found: list[str] = json.loads(run.stdout)
    return found


class Bench:
    """Copies of the sources to work in, and which checks run for each mutant."""

    def __init__(self, places: list[Path], *, near: bool, ask_model: bool) -> None:
        self._places: SimpleQueue[Path] = SimpleQueue()
        for place in places:
            copy_to(place)
            self._places.put(place)
        self._near, self._ask_model = near, ask_model
        self._known: list[str] | None = None
        self._asking = Lock()

    def wrong(self, chosen: list[Mutant]) -> list[str]:
        """Tests that fail without any mutant."""
        near = tuple(one for mutant in chosen for one in beside(mutant.file))
        all_have_some = all(beside(mutant.file) for mutant in chosen)
        place = self._places.get()
        try:
            return failures(place, near if self._near and all_have_some else TESTS, 10)
        finally:
            self._places.put(place)

    def tried(self, mutant: Mutant) -> dict[str, Any]:
        told: dict[str, Any] = {"file": mutant.file, "why": mutant.why}
        place = self._places.get()
        try:
            with seeded(place, mutant):
                told["caught_by"] = self._tests(place, mutant)
            if self._ask_model or not told["caught_by"]:
                known = self._without_any(place)
                with seeded(place, mutant):
                    told["model"] = model(place, known)
        except Stale as stale:
            told["stale"] = str(stale)
        finally:
            self._places.put(place)
        print(f"{verdict(told):9}{mutant.file}: {mutant.why}", flush=True)
        return told

    def _tests(self, place: Path, mutant: Mutant) -> list[str]:
        near = beside(mutant.file)
        caught_by = failures(place, near) if near else []
        if not caught_by and not (near and self._near):
            caught_by = failures(place, TESTS)
        return caught_by

    def _without_any(self, place: Path) -> list[str]:
        """Failures of the model without any mutant; it runs once, and only if needed."""
        with self._asking:
            if self._known is None:
                self._known = model(place)
            return self._known


def verdict(told: dict[str, Any]) -> str:
    if "stale" in told:
        return "STALE"
    return "caught" if told.get("caught_by") or told.get("model") else "SURVIVED"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="mutants whose file or harm has this text")
    parser.add_argument("--of", default="", choices=("", *MODULES), help="those of one module")
    parser.add_argument("--again", action="store_true", help="those not yet on record as caught")
    parser.add_argument("--near", action="store_true", help="only the tests beside the code")
    parser.add_argument("--model", action="store_true", help="ask the model of each, too")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [one for one in mutants(given.of) if given.only in f"{one.file} {one.why}"]
    if given.again:
        done = {(one["file"], one["why"]) for one in reported() if verdict(one) == "caught"}
        chosen = [one for one in chosen if (one.file, one.why) not in done]
    if not chosen:
        print("there is nothing to try")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        places = [Path(scratch) / str(job) for job in range(given.jobs)]
        bench = Bench(places, near=given.near, ask_model=given.model)
        if wrong := bench.wrong(chosen):
            print(f"the tests fail without any mutant: {', '.join(wrong)}")
            return 1
        with ThreadPoolExecutor(given.jobs) as pool:
            told = list(pool.map(bench.tried, chosen))
    report(told)
    table(told)
    return 0 if all(verdict(one) == "caught" for one in told) else 1


def reported() -> list[dict[str, Any]]:
    each: list[dict[str, Any]] = json.loads(REPORT.read_text())["each"] if REPORT.exists() else []
    return each


def report(told: list[dict[str, Any]]) -> None:
    """Writes the report. Mutants that were not tried this time keep their previous result."""
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for one in (*reported(), *told):
        key = (one["file"], one["why"])
        known[key] = ({"model": known[key]["model"]} if "model" in known.get(key, {}) else {}) | one
    every = mutants()
    keys = [(one.file, one.why) for one in every]
    each = [known[key] for key in keys if key in known]
    summary = {
        "mutants": len(every),
        "caught": sum(verdict(one) == "caught" for one in each),
        "caught_by_model": sum(bool(one.get("model")) for one in each),
        "each": each,
    }
    REPORT.write_text(json.dumps(summary, indent=2) + "\n")


def table(told: list[dict[str, Any]]) -> None:
    """Prints one line for each mutant: which test caught it, and what the model says."""
    print(f"\n{'bug':88} | {'first test that fails':70} | model")
    for one in told:
        tests = one.get("caught_by", [])
        test = tests[0].removeprefix("tests/unit/") if tests else one.get("stale", "-")
        more = f" (+{len(tests) - 1})" if len(tests) > 1 else ""
        found = one.get("model")
        said = "not asked" if found is None else found[0][:60] if found else "-"
        print(f"{one['why'][:88]:88} | {test[:64] + more:70} | {said}")
    counts = [verdict(one) for one in told]
    print(f"{len(told)} mutants, {counts.count('caught')} caught")


if __name__ == "__main__":
    sys.exit(main())
