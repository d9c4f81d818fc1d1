"""Reads the manifest that is stored beside a backup: who made the backup, and of which cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from etcd_operator.backup.sink import Sink, TooLarge
from etcd_stateful.backup import manifest, names
from etcd_stateful.backup.manifest import BadManifest, Manifest, Undecided

log = logging.getLogger(__name__)

UNREADABLE: Final = "unreadable"
"""In place of the owner's UID if it is unknown. It equals no UID, so no object owns the backup."""

AT_ONCE: Final = 16
"""How many manifests are read at a time; a store may take a tenth of a second for each."""


async def read_manifest(sink: Sink, key: str) -> Manifest | None:
    """The manifest of the backup `key`; None if it has none.

    Raises StoreFailed; Undecided if the backup did not come to its end; BadManifest if the manifest
    cannot be read.
    """
    data = await read_manifest_bytes(sink, key)
    return manifest.parse(data) if data is not None else None


async def read_manifest_bytes(sink: Sink, key: str) -> bytes | None:
    """The manifest as it is stored, not parsed; raises StoreFailed, BadManifest if too large."""
    try:
        return await sink.get(names.manifest_of(key), manifest.MAX_BYTES)
    except TooLarge as error:
        raise BadManifest(f"the manifest cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class Whose:
    """What is known of the object that made a backup."""

    owner_uid: str | None
    """UNREADABLE if it is unknown; None if there is no manifest."""
    cluster_id: str = ""
    """ID of the etcd cluster that was backed up; empty if unknown."""
    finished: bool = True
    """Whether the backup came to its end, as far as its manifest says."""


async def owner_of(sink: Sink, key: str) -> str | None:
    """The owner's UID, as in `Whose`; raises StoreFailed."""
    return (await whose(sink, key)).owner_uid


async def whose(sink: Sink, key: str) -> Whose:
    """Reads from the manifest who made the backup `key`. Raises StoreFailed."""
    try:
        told = await read_manifest(sink, key)
    except Undecided as error:
        return Whose(error.owner_uid or UNREADABLE, error.cluster_id, finished=False)
    except BadManifest as error:
        log.warning("the backup %s is left alone: %s", key, error)
        return Whose(UNREADABLE)
    return Whose(told.owner_uid, told.cluster_id) if told else Whose(None)


async def owners(sink: Sink, keys: list[str]) -> AsyncIterator[tuple[str, Whose]]:
    """Yields each key with what its manifest says of the object that made the backup."""
    for first in range(0, len(keys), AT_ONCE):
        some = keys[first : first + AT_ONCE]
        told = await asyncio.gather(*(whose(sink, key) for key in some))
        for one in zip(some, told, strict=True):
            yield one
