"""Lists what is in the store below a path: files that are not of a schedule, for its status, and
backups under other names than the one that was asked for.

This takes SECONDS at most. Write-only credentials cannot list, so the files are unknown then.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.sink import Sink
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import names
from etcd_stateful.backup.foreign_files import (
    MOST_LOOKED_AT,
    File,
    ForeignFiles,
    find_foreign_files,
    newest_backup,
)

log = logging.getLogger(__name__)

SECONDS: Final = 3.0


@dataclass(slots=True)
class _Listed:
    files: list[File] = field(default_factory=list)
    partial: bool = False
    """Whether the store has more keys than were listed."""


async def survey(sink: Sink, key: str) -> ForeignFiles | None:
    """The other files below the path of the schedule that made `key`; None if they are unknown."""
    mine = names.of_schedule(key)
    listed = await _list(sink, mine[0]) if mine else None
    if listed is None:
        return None
    return find_foreign_files(key, listed.files, partial=listed.partial)


async def nothing_at(sink: Sink, store: Store, key: str) -> str:
    """The message that the store does not have this key of a backup. It names the newest backup
    below the path, if one is known: people name the path of a schedule."""
    words = f"{store.path_field}: there is no {key!r} in {store.bucket!r}"
    listed = await _list(sink, store.key)
    newest = newest_backup(store.key, listed.files) if listed else None
    if listed is None or newest is None:
        return words
    which = "one below it" if listed.partial else "the newest below it"
    return f"{words}; {which} is {newest.key!r} of {newest.modified}"


async def _list(sink: Sink, path: str) -> _Listed | None:
    """The files whose keys begin with the path; None if they are unknown."""
    listed = _Listed()
    try:
        async with asyncio.timeout(SECONDS):
            async for page in sink.pages(path):
                listed.files += page
                if len(listed.files) >= MOST_LOOKED_AT:
                    listed.partial = True
                    break
            listed.files += await _at(sink, path)
    except TimeoutError:
        listed.partial = True
    except StoreFailed as error:
        log.info("cannot list the other files in the store: %s", error)
        return None
    return listed


async def _at(sink: Sink, path: str) -> list[File]:
    """The file with exactly this name, if any: a bucket begins its list after it."""
    try:
        found = await sink.file(path)
    except StoreFailed:
        return []
    return [found] if found else []
