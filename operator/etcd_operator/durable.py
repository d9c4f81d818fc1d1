"""What a Job has written, for good: whoever is told that it is done must find it after a crash."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """A file's content, or the names in a folder; raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
