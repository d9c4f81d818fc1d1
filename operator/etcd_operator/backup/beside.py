"""Reads the manifest that lies beside a backup: whose it is, and what it is of."""

from __future__ import annotations

import logging
from typing import Final

from etcd_operator.backup.sink import Sink, TooLarge
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.manifest import BadManifest, Manifest, Undecided

log = logging.getLogger(__name__)

UNREADABLE: Final = "unreadable"
"""No object's UID: a backup that nobody may touch by what its manifest says."""


async def manifest_beside(sink: Sink, key: str) -> Manifest | None:
    """None where there is none. Raises StoreFailed, and BadManifest where it cannot be read."""
    data = await bytes_beside(sink, key)
    return manifest.parse(data) if data is not None else None


async def bytes_beside(sink: Sink, key: str) -> bytes | None:
    """As `manifest_beside`, before anything is read off it."""
    try:
        return await sink.get(names.manifest_of(key), manifest.MAX_BYTES)
    except TooLarge as error:
        raise BadManifest(f"the manifest cannot be read: {error}") from error


async def owner_of(sink: Sink, key: str, *, undecided: bool = True) -> str | None:
    """The UID of whoever has made it, or UNREADABLE; None where it has no manifest. Raises
    StoreFailed.

    Args:
        undecided: whether a manifest counts whose backup did not come to its end.
    """
    try:
        told = await manifest_beside(sink, key)
    except Undecided as error:
        owner = error.owner_uid if undecided else None
        return owner if error.owner_uid else UNREADABLE
    except BadManifest as error:
        log.warning("%s is left alone: %s", key, error)
        return UNREADABLE
    return told.owner_uid if told else None
