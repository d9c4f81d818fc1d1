"""What `make test` runs leaves nothing out."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_folder_of_integration_tests_is_run_once() -> None:
    spec = importlib.util.spec_from_file_location("tiers", TESTS / "tiers.py")
    assert spec is not None
    assert spec.loader is not None
    tiers = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiers)
    there = {path.parent.name for path in (TESTS / "integration").glob("*/test_*.py")}

    assert sorted(folder for part in tiers.INTEGRATION for folder in part) == sorted(there)
