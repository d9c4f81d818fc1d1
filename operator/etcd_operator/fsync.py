"""Makes durable what a Job has written, before the Job reports that it is done."""

from __future__ import annotations

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Flushes a file's content, or the entries of a directory; raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
