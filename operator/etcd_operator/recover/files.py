"""What a recovery does to files beyond what `start` does. Each function is durable by itself, and
raises OSError."""

from __future__ import annotations

import os

from etcd_operator.fsync import fsync
from etcd_operator.start.volume import read
from etcd_stateful.jobs.recover import ASIDE, CONFIG
from etcd_stateful.start import marker


def read_aside(root: str) -> bytes | None:
    """The marker that was set aside; None if none was."""
    return read(os.path.join(root, ASIDE), marker.MAX_BYTES + 1)


def set_aside(root: str) -> None:
    """Sets the volume's marker aside."""
    os.rename(os.path.join(root, marker.FILE), os.path.join(root, ASIDE))
    fsync(root)


def remove_config(root: str) -> None:
    """Deletes the configuration for etcd's one run, if it exists."""
    try:
        os.unlink(os.path.join(root, CONFIG))
    except FileNotFoundError:
        return
    fsync(root)
