"""Seeds each mutant in a copy of the sources and runs the unit tests: who notices?

    python tests/mutants/run.py [--only TEXT] [--jobs N]

Writes `report.json` beside this file. Exits with 1 when a mutant survives (a hole in the tests) or
no longer applies (the code has moved on).
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Not imported: with PYTHONSAFEPATH set, this folder is not on the path.
MUTANTS: list[Any] = [
    mutant
    for name in ("mutants.py", "recovery.py")
    for mutant in runpy.run_path(str(Path(__file__).with_name(name)))["MUTANTS"]
]
REPORT = Path(__file__).with_name("report.json")
COPIED = ("stateful", "operator", "examples", "crds", "tests/unit", "pyproject.toml")

# Quick and telling ones first: the run of a mutant ends with the third test that fails.
TESTS = (
    "test_membership_birth.py",
    "test_membership_rules.py",
    "test_membership_retained.py",
    "test_membership_records.py",
    "test_membership_identity.py",
    "test_membership_versions.py",
    "test_manifests_*.py",
    "test_api_*.py",
    "test_conditions.py",
    "test_status.py",
    "test_start.py",
    "test_start_config.py",
    "test_start_marker.py",
    "test_ticket.py",
    "test_wal.py",
    "test_recover*.py",
    "test_membership_walk.py",
)
ENOUGH = 3


class Stale(Exception):
    """The code that a mutant alters is not there (any more), or more than once."""


def copy_to(place: Path) -> None:
    for name in COPIED:
        source, target = ROOT / name, place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target)


def seed(place: Path, mutant: Any) -> str:
    """The text of the file as it was."""
    path = place / "stateful/etcd_stateful" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise Stale(f"{mutant.file}: stands {text.count(mutant.old)} times: {mutant.old!r}")
    path.write_text(text.replace(mutant.old, mutant.new))
    return text


def failures(place: Path) -> list[str]:
    """The tests that fail in a copy, up to ENOUGH of them."""
    tests = [
        str(path.relative_to(place))
        for pattern in TESTS
        for path in sorted((place / "tests/unit").glob(pattern))
    ]
    # No bytecode: files change faster than its timestamps tell.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}
    environment.pop("PYTHONPATH", None)
    options = [f"--maxfail={ENOUGH}", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, *tests],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if run.returncode not in {0, 1, 2}:
        raise RuntimeError(run.stdout + run.stderr)
    said = (line.split(" ", 1) for line in run.stdout.splitlines())
    kinds = ("FAILED", "ERROR")
    return [rest[0].split(" - ")[0] for kind, *rest in said if kind in kinds and rest]


def tried(places: SimpleQueue[Path], mutant: Any) -> dict[str, object]:
    place = places.get()
    told: dict[str, object] = {"file": mutant.file, "why": mutant.why}
    try:
        text = seed(place, mutant)
        try:
            told["caught_by"] = failures(place)
        finally:
            (place / "stateful/etcd_stateful" / mutant.file).write_text(text)
    except Stale as stale:
        told["stale"] = str(stale)
    finally:
        places.put(place)
    verdict = "STALE" if "stale" in told else "caught" if told["caught_by"] else "SURVIVED"
    print(f"{verdict:9}{mutant.file}: {mutant.why}", flush=True)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="mutants whose file or harm has this text")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if given.only in f"{one.file} {one.why}"]
    with tempfile.TemporaryDirectory() as scratch:
        places: SimpleQueue[Path] = SimpleQueue()
        for job in range(given.jobs):
            copy_to(Path(scratch) / str(job))
            places.put(Path(scratch) / str(job))
        place = places.get()
        if wrong := failures(place):
            print(f"the tests fail without any mutant: {', '.join(wrong)}")
            return 1
        places.put(place)
        with ThreadPoolExecutor(given.jobs) as pool:
            told = list(pool.map(lambda mutant: tried(places, mutant), chosen))
    survived = [one for one in told if not one.get("caught_by")]
    print(f"{len(told)} mutants, {len(told) - len(survived)} caught")
    report(told)
    return 1 if survived else 0


def report(told: list[dict[str, object]]) -> None:
    """Writes what was found; mutants that were not tried now keep what was found before."""
    before = json.loads(REPORT.read_text())["each"] if REPORT.exists() else []
    known = {_key(one["file"], one["why"]): one for one in (*before, *told)}
    keys = [_key(one.file, one.why) for one in MUTANTS]
    each = [known[key] for key in keys if key in known]
    caught = sum(bool(one.get("caught_by")) for one in each)
    summary = {"mutants": len(MUTANTS), "caught": caught, "each": each}
    REPORT.write_text(json.dumps(summary, indent=2) + "\n")


def _key(file: object, why: object) -> tuple[str, str]:
    return str(file), str(why)


if __name__ == "__main__":
    sys.exit(main())
