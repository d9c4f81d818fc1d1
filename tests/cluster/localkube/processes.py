"""Long-running processes, which are recorded so that later runs find and stop them."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localkube.cache import key
from localkube.paths import LOGS, STATE
from localkube.shell import ClusterError, say, tail, wait_until

RECORDS = STATE / "processes"
STOP_SECONDS = 10
ENVIRONMENT = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "GOGC": "300"}
"""Of all of them. Go's garbage collector took a sixth of kube-apiserver's time while the end-to-end
tests ran; with GOGC=300 it runs a third as often, for more memory."""


@dataclass(frozen=True)
class Process:
    """A command line, and the configuration files whose change requires a restart."""

    name: str
    command: tuple[str, ...]
    files: tuple[Path, ...] = ()

    def fingerprint(self) -> str:
        return key([*self.command, *(path.read_bytes() for path in self.files)])


@dataclass(frozen=True)
class Record:
    """Identifies a process, as its PID alone may belong to another one by now."""

    pid: int
    boot: str
    started: str
    fingerprint: str


def ensure(process: Process) -> None:
    """Starts it, unless the same command is running."""
    record = _load(process.name)
    if record and record.fingerprint == process.fingerprint() and _is_leader(record):
        return
    stop(process.name)
    say(f"    start {process.name}")
    LOGS.mkdir(parents=True, exist_ok=True)
    with log(process.name).open("ab") as output:
        child = subprocess.Popen(
            process.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=ENVIRONMENT,
            umask=0o022,
        )
    record = Record(child.pid, _boot(), _stat(child.pid)[1], process.fingerprint())
    RECORDS.mkdir(parents=True, exist_ok=True)
    unfinished = _file(process.name).with_suffix(".new")
    unfinished.write_text(json.dumps(vars(record)))
    unfinished.rename(_file(process.name))


def stop(name: str) -> None:
    """Stops the whole process group, as `nsenter` and what it runs are two processes."""
    record = _load(name)
    if record is None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _members(record):
            break
        with suppress(ProcessLookupError):
            os.killpg(record.pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while _members(record) and time.monotonic() < deadline:
            time.sleep(0.02)
    _file(name).unlink()


def pid(name: str) -> int | None:
    record = _load(name)
    return record.pid if record and _is_leader(record) else None


def recorded() -> list[str]:
    return sorted(path.stem for path in RECORDS.glob("*.json"))


def log(name: str) -> Path:
    return LOGS / f"{name}.log"


def wait(what: str, condition: Callable[[], bool], names: list[str], seconds: float = 60) -> None:
    """Waits for the condition. If one of the processes dies, it fails at once."""

    def checked() -> bool:
        for name in names:
            if pid(name) is None:
                last = tail(log(name).read_text(errors="replace"))
                raise ClusterError(f"{name} died; the end of {log(name)}:\n{last}")
        return condition()

    wait_until(what, checked, seconds)


def _members(record: Record) -> list[int]:
    """The running processes of the group, if it is still the recorded one."""
    leader = _stat(record.pid)
    if record.boot != _boot() or (leader[0] and leader[1] != record.started):
        return []
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [number for number in numbers if _stat(number)[2:] == (str(record.pid), True)]


def _is_leader(record: Record) -> bool:
    return record.pid in _members(record)


def _stat(number: int) -> tuple[bool, str, str, bool]:
    """Whether a process exists, its start time, its group, and whether it runs (no zombie)."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False, "", "", False
    return True, fields[19], fields[2], fields[0] not in "ZX"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _file(name: str) -> Path:
    return RECORDS / f"{name}.json"


def _load(name: str) -> Record | None:
    path = _file(name)
    return Record(**json.loads(path.read_text())) if path.exists() else None
