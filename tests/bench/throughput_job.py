"""Runs one container of a Job as a process: `throughput_job.py backup|fetch|finish ROOT`.

The environment is that of the pod; ROOT is the member's volume. It prints its peak memory in MiB,
and the seconds that a backup itself reports.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from etcd_operator.job_exit import exit_at_once

SECRET = "SECRET_FOLDER"


def main(what: str, root: str) -> int:
    secret, seconds = os.environ[SECRET], 0.0
    if what == "backup":
        import asyncio

        from etcd_operator.backup.__main__ import back_up
        from etcd_stateful.backup import order as orders
        from etcd_stateful.backup.outcome import Stored

        done = asyncio.run(back_up(orders.parse(os.environ[orders.VARIABLE]), secret=secret))
        if not isinstance(done, Stored):
            print(done, file=sys.stderr)
            return 1
        code, seconds = 0, done.seconds
    else:
        from etcd_operator.restore.__main__ import run
        from etcd_operator.start.journal import Journal
        from etcd_stateful.jobs.restore import parse_order

        journal = Journal(os.devnull, "restore")
        code = run(what, parse_order(os.environ), Path(root), journal, secret=secret)
    print(peak(), seconds)
    return code


def peak() -> int:
    """Peak memory of this process in MiB. The value of getrusage may be that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith("VmHWM:"))
    return int(found.split()[1]) // 1024


if __name__ == "__main__":
    exit_at_once(main(*sys.argv[1:3]))
