"""What `make test` runs leaves nothing out."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tiers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiers", TESTS / "tiers.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("tier", ["UNIT", "MODEL", "INTEGRATION"])
def test_every_file_of_a_tier_is_run_once(tiers: ModuleType, tier: str) -> None:
    run = getattr(tiers, tier)
    words = [word for stage in run.stages for command in stage for word in command]
    paths = [TESTS.parent / word for word in words if word.startswith("tests/")]
    files = [file for path in paths for file in ([path] if path.is_file() else files_of(path))]

    assert sorted(files) == files_of(TESTS / run.name)


def test_all_is_every_tier(tiers: ModuleType) -> None:
    names = [tier.name for group in tiers.chosen("all") for tier in group]
    assert names == ["lint", "unit", "model", "cluster", "integration", "e2e"]


def test_a_tier_by_itself_comes_after_the_cluster_it_needs(tiers: ModuleType) -> None:
    assert tiers.chosen("e2e") == [(tiers.CLUSTER,), (tiers.E2E,)]
    assert tiers.chosen("unit") == [(), (tiers.UNIT,)]


def test_the_campaigns_have_three_nodes_on_a_machine_that_has_no_cluster_yet() -> None:
    """One is the default, and a test that is skipped for want of nodes does not fail."""
    words = ("make", "--dry-run", "verify")
    done = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()

    cluster = next(at for at, line in enumerate(lines) if "NODES=3 install" in line)

    assert [at for at, line in enumerate(lines) if "tests/e2e" in line] > [cluster]


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))
