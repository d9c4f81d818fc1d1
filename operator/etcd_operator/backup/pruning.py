"""Deletes the backups of one periodic EtcdBackup that exceed `maxBackups`.

Two objects may store backups below one path, from this or another Kubernetes cluster: the UID in
the manifest says whose a backup is. A backup without a manifest is from the coreos operator, or
from a try that failed after the upload, or its manifest is about to be written. Neither that nor an
unfinished one of the same object counts as one of `maxBackups`, and both are left alone for a day.
But of those that are unfinished, no more stay than of the others: if every backup fails after its
upload, they would fill the store.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from etcd_operator.backup.sink import Sink
from etcd_operator.backup.stored_manifest import Whose, owners
from etcd_operator.tasks import loop_time
from etcd_stateful.backup import names
from etcd_stateful.backup.order import Order

SECONDS: Final = 20.0
"""The time limit, once those that stay are counted. Each backup is deleted as it is found, so the
next run goes on from there."""


async def prune(order: Order, sink: Sink, made: str) -> int:
    """Deletes old backups and returns how many; raises StoreFailed and TimeoutError.

    It never deletes `made`, nor the newest backup of an etcd cluster. If a cluster was lost and
    recreated under the same name, its backups must not displace the one that is to be restored.
    Backups that are named for later than `made` stay and do not count: the clock was ahead when
    they were made, or is behind now.
    """
    path, kept, unfinished, deleted = order.store.key, 0, 0, 0
    clusters: set[str] = set()
    async with asyncio.timeout(SECONDS) as limit:
        every, now = await sink.names(f"{path}_v"), names.moment_of(path, made)
        found = [key for key in names.newest_first(path, every) if _is_past(path, key, now)]
        if len(found) <= order.keep:
            return 0
        day_before = _day_before(now)
        async for key, told in owners(sink, found):
            is_own = told.owner_uid == order.owner_uid
            finished = is_own and told.finished
            is_last = finished and told.cluster_id not in clusters
            if finished:
                clusters.add(told.cluster_id)
            unfinished += is_own and not finished
            is_old = is_own and not finished and unfinished > order.keep
            if kept < order.keep:
                kept += finished
                # Each run reads these again, so they must not use up the time of every run.
                limit.reschedule(loop_time() + SECONDS)
            elif finished or (_is_left(order, told) and names.moment_of(path, key) < day_before):
                is_old = True
            if is_old and not (is_last or key in (*order.spare, made)):
                # The manifest first: backups are found by their own keys, even if this ends early.
                await sink.delete((names.manifest_of(key), key))
                deleted += 1
    return deleted


def _is_past(path: str, key: str, now: str) -> bool:
    return names.moment_of(path, key) <= now


def _is_left(order: Order, told: Whose) -> bool:
    """Whether nobody may be left to finish the backup: it has no manifest, or is this object's."""
    return told.owner_uid is None or (told.owner_uid == order.owner_uid and not told.finished)


def _day_before(moment: str) -> str:
    then = datetime.strptime(moment, names.MOMENT).replace(tzinfo=UTC)
    return (then - timedelta(days=1)).strftime(names.MOMENT)
