"""The end of a Job's program, once all is said and done."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def exit_at_once(code: int) -> NoReturn:
    """Ends the process without finalizing the interpreter.

    obstore's threads outlive its answers. One that wants the interpreter while that ends has the
    process aborted, silently (PyO3/pyo3-async-runtimes#40; seen in one of eight on a busy machine):
    a Job whose work is done would count as failed, and do it again. It is quicker, too.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
