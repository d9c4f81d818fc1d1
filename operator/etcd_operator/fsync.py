"""Makes what a Job has written durable, before anybody is told that it is done."""

from __future__ import annotations

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """A file's content, or the entries of a folder; raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
