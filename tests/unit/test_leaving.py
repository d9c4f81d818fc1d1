"""How the programs of Jobs end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WATCHED = """
import atexit, runpy
atexit.register(print, "the interpreter ended")
runpy.run_module({program!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("program", "code"), [("etcd_operator.backup", 3), ("etcd_operator.restore", 2)]
)
def test_a_job_that_is_done_was_aborted_at_its_end(program: str, code: int) -> None:
    """By a thread of obstore that wanted the interpreter while it ended: so it does not end."""
    command = [sys.executable, "-c", WATCHED.format(program=program)]
    ordered_nothing = {"PYTHONPATH": os.pathsep.join(sys.path)}

    run = subprocess.run(command, check=False, capture_output=True, text=True, env=ordered_nothing)

    assert run.returncode == code, run.stderr
    assert run.stdout == ""
