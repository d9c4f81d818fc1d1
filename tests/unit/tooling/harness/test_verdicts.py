"""The report of the end-to-end tests, to which several processes write."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from harness.verdicts import Verdicts


def ran(verdicts: Verdicts, name: str, outcome: str = "passed") -> None:
    for when in ("setup", "call", "teardown"):
        verdicts.pytest_runtest_logreport(
            SimpleNamespace(
                nodeid=f"tests/e2e/{name}",
                when=when,
                duration=2.0,
                outcome=outcome if when == "call" else "passed",
            )
        )


def test_processes_that_write_to_one_report_keep_each_others_results(tmp_path: Path) -> None:
    file = tmp_path / "e2e" / "report.json"
    one, other = Verdicts(file), Verdicts(file)

    ran(one, "test_a.py::test_a")
    ran(other, "test_b.py::test_b", "failed")
    ran(one, "test_c.py::test_c")

    report = json.loads(file.read_text())
    assert report["verdicts"] == {"failed": 1, "passed": 2}
    assert report["minutes"] == 0.3
    assert list(report["tests"]) == ["test_a.py::test_a", "test_b.py::test_b", "test_c.py::test_c"]


def test_a_repeated_test_has_its_last_result(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    ran(Verdicts(file), "test_a.py::test_a", "failed")
    ran(Verdicts(file), "test_a.py::test_a")

    assert json.loads(file.read_text())["verdicts"] == {"passed": 1}
