"""What a recovery does to files beyond what `start` does. Each function is durable by itself."""

from __future__ import annotations

import os

from etcd_operator.fsync import fsync
from etcd_operator.start.volume import read
from etcd_stateful.start import marker


def read_marker(root: str, name: str) -> bytes | None:
    """A marker's content; None if it does not exist. Raises OSError."""
    return read(os.path.join(root, name), marker.MAX_BYTES + 1)


def set_aside(root: str, name: str, place: str) -> None:
    """Renames a file within the volume; raises OSError."""
    os.rename(os.path.join(root, name), os.path.join(root, place))
    fsync(root)


def remove(root: str, name: str) -> None:
    """Deletes a file if it exists; raises OSError."""
    try:
        os.unlink(os.path.join(root, name))
    except FileNotFoundError:
        return
    fsync(root)
