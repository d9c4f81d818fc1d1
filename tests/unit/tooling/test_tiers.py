"""`make test` leaves no test out."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from localkube import cache

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tiers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiers", TESTS / "tiers.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the run that these tests are a part of."""
    monkeypatch.setattr(cache, "CACHE", tmp_path)


@pytest.mark.parametrize("name", ["unit", "model", "integration"])
def test_every_file_of_a_folder_is_run_once(tiers: ModuleType, name: str) -> None:
    commands = commands_of(tiers.BY_NAME[name])
    paths = [TESTS.parent / word for words in commands for word in words if "tests/" in word]
    files = [file for path in paths for file in ([path] if path.is_file() else files_of(path))]

    assert sorted(files) == files_of(TESTS / name)


def test_every_part_of_the_end_to_end_tests_is_run_once(tiers: ModuleType) -> None:
    words = [word for words in commands_of(tiers.BY_NAME["e2e"]) for word in words]

    assert [word for word in words if "--part=" in word] == [
        f"--part={part}" for part in ("1", "2", "3", "alone")
    ]


def test_all_is_what_each_by_itself_is(tiers: ModuleType) -> None:
    names = ("lint", "unit", "model", "integration", "e2e")
    singly = [words for name in names for words in commands_of(tiers.BY_NAME[name])]

    assert set(commands_of(tiers.BY_NAME["all"])) == set(singly)


def test_nothing_runs_beside_a_cluster_that_is_not_there_yet(tiers: ModuleType) -> None:
    for groups in tiers.BY_NAME.values():
        order = [{tier.name for tier in group} for group in groups]
        users = [at for at, names in enumerate(order) if names & {"e2e", "traces", "e2e, alone"}]
        made = [at for at, names in enumerate(order) if "cluster" in names]
        assert not users or made[0] < users[0]


def verify() -> list[str]:
    """The commands of `make verify`."""
    words = ("make", "--dry-run", "verify")
    done = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_verify_runs_every_test_of_backups_and_not_only_the_long_ones() -> None:
    """They prove together that a backup can be restored. Without `-m`, the long ones are left
    out."""
    runs = [line for line in verify() if line.endswith(" tests/integration/backup")]

    assert [' -m "verify or not verify" ' in line for line in runs] == [True]


def test_the_campaigns_have_three_nodes_on_a_machine_that_has_no_cluster_yet() -> None:
    """One is the default, and a test that is skipped because nodes are missing does not fail."""
    lines = verify()

    cluster = next(at for at, line in enumerate(lines) if "NODES=3 install" in line)

    assert [at for at, line in enumerate(lines) if "tests/e2e" in line] > [cluster]


def test_a_cluster_whose_tests_were_broken_off_is_taken_down_first(
    tiers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its etcd clusters came back with it, and drains of the next run waited for them."""
    carried_out: list[str] = []
    mark = tmp_path / "under-test"

    def run(tier: Any) -> Any:
        carried_out.append(tier.name)
        return tiers.Result(tier.name, 1.0, ok=True, counts=Counter(), failures=())

    monkeypatch.setattr(tiers, "run", run)
    monkeypatch.setattr(tiers.subprocess, "run", lambda words, **_: carried_out.append(words[-1]))
    monkeypatch.setattr(tiers, "STATE", tmp_path)
    monkeypatch.setattr(tiers, "UNDER_TEST", mark)

    assert tiers.main("e2e") == 0
    assert carried_out == ["cluster", "e2e", "e2e, alone"]
    assert not mark.exists()

    mark.touch()
    assert tiers.main("e2e") == 0
    assert carried_out[3:] == ["cluster-down", "cluster", "e2e", "e2e, alone"]


def test_a_second_run_took_down_the_cluster_that_the_first_one_used(
    tiers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of another checkout, or of `make -j test-integration test-e2e`."""
    mark, waits, down = tmp_path / "under-test", threading.Event(), threading.Event()
    ended = tiers.Result("any", 1.0, ok=True, counts=Counter(), failures=())
    monkeypatch.setattr(tiers, "run", lambda _: ended)
    monkeypatch.setattr(tiers.subprocess, "run", lambda *_, **__: down.set())
    monkeypatch.setattr(tiers, "UNDER_TEST", mark)
    monkeypatch.setattr(cache, "say", lambda _: waits.set())
    second = threading.Thread(target=tiers.main, args=("e2e",))

    with cache.alone("tests.lock"):
        mark.touch()
        second.start()
        assert waits.wait(10)
        assert not down.is_set()
        mark.unlink()
    second.join(10)

    assert not down.is_set()


@pytest.mark.parametrize("name", ["lint", "unit", "model"])
def test_tiers_without_a_cluster_leave_that_of_a_run_beside_them_alone(
    tiers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`make lint` beside `make test` deleted the cluster under the tests."""
    mark = tmp_path / "under-test"
    mark.touch()
    ended = tiers.Result(name, 1.0, ok=True, counts=Counter(), failures=())
    monkeypatch.setattr(tiers, "run", lambda _: ended)
    monkeypatch.setattr(tiers.subprocess, "run", lambda words, **_: pytest.fail(" ".join(words)))
    monkeypatch.setattr(tiers, "UNDER_TEST", mark)

    assert tiers.main(name) == 0
    assert mark.exists()


def test_tiers_that_end_by_force_leave_the_mark(
    tiers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(tier: Any) -> Any:
        if tier.name != "cluster":
            raise KeyboardInterrupt
        return tiers.Result(tier.name, 1.0, ok=True, counts=Counter(), failures=())

    monkeypatch.setattr(tiers, "run", dies)
    monkeypatch.setattr(tiers, "STATE", tmp_path)
    monkeypatch.setattr(tiers, "UNDER_TEST", tmp_path / "under-test")
    with pytest.raises(KeyboardInterrupt):
        tiers.main("e2e")

    assert tiers.UNDER_TEST.exists()


def commands_of(groups: tuple[tuple[Any, ...], ...]) -> list[tuple[str, ...]]:
    tiers = [tier for group in groups for tier in group]
    return [words for tier in tiers for stage in tier.stages for words in stage]


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))
