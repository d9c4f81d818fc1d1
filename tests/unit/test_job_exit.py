"""How the programs of Jobs exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from etcd_operator.backup import __main__ as backing_up
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup import outcome
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Downloaded, Failure, Removed, Stored, Verified

WATCHED = """
import atexit, runpy
atexit.register(print, "the interpreter ended")
runpy.run_module({program!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("program", "code"), [("etcd_operator.backup", 3), ("etcd_operator.restore", 2)]
)
def test_a_finished_job_was_aborted_at_its_exit(program: str, code: int) -> None:
    """A thread of obstore wanted the interpreter while that shut down. So the interpreter is not
    shut down."""
    command = [sys.executable, "-c", WATCHED.format(program=program)]
    ordered_nothing = {"PYTHONPATH": os.pathsep.join(sys.path)}

    run = subprocess.run(command, check=False, capture_output=True, text=True, env=ordered_nothing)

    assert run.returncode == code, run.stderr
    assert run.stdout == ""


STORED = Stored("s3://bucket/key", "0a", 7, "3.7.3", 4128, "ff", key="key")
ENDED = [
    (STORED, 1),
    (Verified("3.7.3", ("revision 7",)), 1),
    (Removed(2), 0),
    (Downloaded(4128), 0),
    (Failure("TimedOut", "too long", final=True), 3),
]


def ended(result: Any, word: str, monkeypatch: pytest.MonkeyPatch) -> int:
    async def back_up(_: Order) -> Any:
        return result

    monkeypatch.setattr(backing_up, "back_up", back_up)
    monkeypatch.setattr(backing_up.logs, "setup", lambda *_: None)
    order = Order("ns/b", "uid-b", (), "spec.etcdEndpoints", Store("S3", "bucket", "key"))
    told = {orders.VARIABLE: orders.serialise(order), "TERMINATION_LOG": word}
    return backing_up.main(told)


@pytest.mark.parametrize(("result", "code"), ENDED)
def test_a_backup_that_could_not_write_its_message_was_repeated_without_end(
    result: Any, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's disk was full. The Job was over, nothing said what it had stored, and the next one
    was created at once. A Job that fails is tried a few times, and reported."""
    assert ended(result, "/dev/full", monkeypatch) == code


def test_a_backup_that_wrote_its_message_exits_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = tmp_path / "end"

    assert ended(STORED, str(word), monkeypatch) == 0
    assert outcome.parse(word.read_text()).stored == STORED
