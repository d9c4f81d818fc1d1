"""Lists the other files in the store below a schedule's path, for the schedule's status.

This happens after the backup is stored, and takes SECONDS at most. Write-only credentials cannot
list, so the files are unknown then.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from etcd_operator.backup.clients import StoreFailed
from etcd_operator.backup.sink import Sink
from etcd_stateful.backup import names
from etcd_stateful.backup.foreign_files import (
    MOST_LOOKED_AT,
    File,
    ForeignFiles,
    find_foreign_files,
)

log = logging.getLogger(__name__)

SECONDS: Final = 3.0


async def survey(sink: Sink, key: str) -> ForeignFiles | None:
    """The other files below the path of the schedule that made `key`; None if they are unknown."""
    mine = names.of_schedule(key)
    if mine is None:
        return None
    found: list[File] = []
    partial = False
    try:
        async with asyncio.timeout(SECONDS):
            async for page in sink.pages(mine[0]):
                found += page
                if len(found) >= MOST_LOOKED_AT:
                    partial = True
                    break
            found += await _at(sink, mine[0])
    except TimeoutError:
        partial = True
    except StoreFailed as error:
        log.info("cannot list the other files in the store: %s", error)
        return None
    return find_foreign_files(key, found, partial=partial)


async def _at(sink: Sink, path: str) -> list[File]:
    """The file with exactly this name, if any: a bucket begins its list after it."""
    try:
        found = await sink.file(path)
    except StoreFailed:
        return []
    return [found] if found else []
