"""Deletes what one EtcdBackup of an interval has stored beyond `maxBackups`.

Two objects may write below one path, here or in another cluster: the UID in the manifest tells
whose a backup is. One without is the coreos operator's, or of a try that failed once it was stored,
or somebody is about to write it: it takes no other's place, and is left alone for a day.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import Whose, whose
from etcd_stateful.backup import names
from etcd_stateful.backup.order import Order

SECONDS: Final = 20.0
"""Each is deleted as it is found, so the next time goes on from there."""

AT_ONCE: Final = 16
"""Manifests that are asked for; a store may take a tenth of a second for each."""


async def prune(order: Order, sink: Sink, made: str) -> int:
    """How many were deleted; raises StoreFailed and TimeoutError.

    Never `made` itself, nor the last of an etcd cluster: one that was lost and made anew under its
    name is backed up as before, and must not use up what is to be restored.
    """
    path, kept, deleted = order.store.key, 0, 0
    clusters: set[str] = set()
    async with asyncio.timeout(SECONDS):
        found = names.newest_first(path, await sink.names(f"{path}_v"))
        if len(found) <= order.keep:
            return 0
        day_before = _day_before(names.moment_of(path, made))
        async for key, told in _owners(sink, found):
            is_own = told.owner_uid == order.owner_uid
            is_last = is_own and told.cluster_id not in clusters
            if is_own:
                clusters.add(told.cluster_id)
            if kept < order.keep:
                kept += is_own
            elif not (is_last or key in (order.spare, made)) and (
                is_own or (told.owner_uid is None and names.moment_of(path, key) < day_before)
            ):
                # The manifest first: what is left of one that is cut short is found by its name.
                await sink.delete((names.manifest_of(key), key))
                deleted += 1
    return deleted


def _day_before(moment: str) -> str:
    then = datetime.strptime(moment, names.MOMENT).replace(tzinfo=UTC)
    return (then - timedelta(days=1)).strftime(names.MOMENT)


async def _owners(sink: Sink, keys: list[str]) -> AsyncIterator[tuple[str, Whose]]:
    """Each with what is known of whoever has made it."""
    for first in range(0, len(keys), AT_ONCE):
        some = keys[first : first + AT_ONCE]
        owners = await asyncio.gather(*(whose(sink, key, undecided=False) for key in some))
        for one in zip(some, owners, strict=True):
            yield one
