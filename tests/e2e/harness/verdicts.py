"""`--report FILE`: the verdict and the duration of each test, as JSON to be checked in.

Entries of tests that do not run this time stay, each with its date and commit. So a campaign of
hours can be run in pieces, and by several processes at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.api import ROOT


class Verdicts:
    """Writes the file after every test, so that an interrupted run leaves its results."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tests: dict[str, Any] = {}
        self._commit = commit()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up setup, call and teardown: the worst verdict, and the sum of their seconds."""
        name = report.nodeid.removeprefix("tests/e2e/")
        if report.when == "setup":
            self._tests[name] = self._begun()
        found = self._tests[name]
        found["seconds"] = round(found["seconds"] + report.duration, 1)
        if report.outcome != "passed":
            found["verdict"] = report.outcome
        if report.when == "teardown":
            self._write()

    def _begun(self) -> dict[str, Any]:
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        return {"verdict": "passed", "seconds": 0.0, "date": today, "commit": self._commit}

    def _write(self) -> None:
        """Adds what this process saw to what others have written."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self._file.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            others = json.loads(self._file.read_text())["tests"] if self._file.exists() else {}
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(summary(others | self._tests), indent=1) + "\n")
            fresh.replace(self._file)
        finally:
            os.close(folder)


def summary(tests: dict[str, Any]) -> dict[str, Any]:
    """The report of those tests: how many came to what, the sum of their minutes, and each."""
    verdicts = [one["verdict"] for one in tests.values()]
    return {
        "verdicts": {one: verdicts.count(one) for one in sorted(set(verdicts))},
        "minutes": round(sum(one["seconds"] for one in tests.values()) / 60, 1),
        "tests": dict(sorted(tests.items())),
    }


def commit() -> str:
    """The commit under test, marked dirty if there are uncommitted changes."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
