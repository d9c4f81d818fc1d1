"""Processes are started once and found again. Foreign processes are never touched."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localkube import processes
from localkube.processes import Process
from localkube.shell import ClusterError

# These processes are meant to outlive the one that started them.
pytestmark = pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")

NAME = "sleeper"


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(processes, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(processes, "LOGS", tmp_path / "logs")
    yield
    processes.stop(NAME)


def sleeper(*extra: str, files: tuple[Path, ...] = ()) -> Process:
    return Process(NAME, (sys.executable, "-c", "import time; time.sleep(60)", *extra), files)


def started(process: Process) -> int:
    processes.ensure(process)
    pid = processes.pid(NAME)
    assert pid is not None
    return pid


def test_runs_once_and_ends() -> None:
    pid = started(sleeper())
    assert started(sleeper()) == pid
    processes.stop(NAME)
    assert processes.pid(NAME) is None
    assert processes.recorded() == []


def test_another_command_or_configuration_means_a_restart(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("a")
    pids = [started(sleeper()), started(sleeper("x")), started(sleeper("x", files=(config,)))]
    config.write_text("b")
    pids.append(started(sleeper("x", files=(config,))))
    assert len(set(pids)) == 4


def test_a_process_that_was_killed_is_started_again() -> None:
    pid = started(sleeper())
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert started(sleeper()) != pid


@pytest.mark.parametrize("changed", [{"started": "1"}, {"boot": "earlier"}])
def test_a_recorded_number_that_is_anothers_by_now_is_left_alone(changed: dict[str, str]) -> None:
    started(sleeper())
    record = processes.RECORDS / f"{NAME}.json"
    known = json.loads(record.read_text())
    record.write_text(json.dumps(known | changed))
    assert processes.pid(NAME) is None
    processes.stop(NAME)
    os.kill(known["pid"], 0)
    processes.RECORDS.mkdir(exist_ok=True)
    record.write_text(json.dumps(known))


def test_the_whole_group_ends_with_it() -> None:
    script = (
        "import subprocess as s; p = s.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    )
    processes.ensure(Process(NAME, (sys.executable, "-c", script)))
    log = processes.log(NAME)
    processes.wait("the child runs", lambda: bool(log.read_text()), [NAME])
    processes.stop(NAME)
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", log.read_text()], capture_output=True, text=True, check=False
    )
    assert state.stdout.strip()[:1] in ("", "Z")


def test_one_that_dies_at_start_is_named_with_its_last_words() -> None:
    processes.ensure(Process(NAME, (sys.executable, "-c", "raise SystemExit('no such flag')")))
    with pytest.raises(ClusterError, match=r"(?s)sleeper died.*no such flag"):
        processes.wait("it is ready", lambda: False, [NAME], seconds=10)
