"""Ends the program of a Job that has done its work."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def exit_at_once(code: int) -> NoReturn:
    """Ends the process without finalizing the interpreter.

    obstore's threads outlive its calls. If one of them needs the interpreter while that is being
    finalized, the process aborts silently (PyO3/pyo3-async-runtimes#40; seen in one of eight runs
    on a busy machine). The Job would count as failed and repeat its work. This is also faster.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
