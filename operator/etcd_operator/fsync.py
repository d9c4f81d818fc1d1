"""Makes durable what `start` and Jobs have written, before they report that it is done."""

from __future__ import annotations

import os


def fsync(path: str | os.PathLike[str]) -> None:
    """Flushes a file's content, or the entries of a directory; raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
