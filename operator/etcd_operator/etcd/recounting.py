"""Makes members count their free space again while etcd refuses writes for lack of it.

Pages that a compaction has freed count as free only once a later transaction is committed. While
etcd refuses writes there may be none, so a member goes on reporting that all of its file is in use.
A compaction of what is already compacted changes nothing. But with `physical` it ends with a commit
on the member that is asked (`Compact` in etcd's `v3_server.go`; seen on 3.5.35, 3.6.16 and 3.7.3).
It costs an entry in the log, as a request for the alarms does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from etcd_operator.etcd.api import Endpoint, Etcd, NoAnswer, Refused
from etcd_stateful.membership.observation import Observation
from etcd_stateful.observed.members import Alarm, MemberStatus, is_full


def is_due(base: Observation, alarms: tuple[Alarm, ...]) -> bool:
    """Whether to recount: the quota is reached, and the operator may defragment."""
    return base.cluster.defragments and is_full(alarms)


async def recounted(
    etcd: Etcd, places: Mapping[int, Endpoint], statuses: Mapping[int, MemberStatus]
) -> dict[int, MemberStatus]:
    """Returns the statuses by ordinal: new ones of the voters that have recounted."""
    said = await asyncio.gather(
        *(_recounted(etcd, places[ordinal], status) for ordinal, status in statuses.items())
    )
    return dict(zip(statuses, said, strict=True))


async def _recounted(etcd: Etcd, at: Endpoint, before: MemberStatus) -> MemberStatus:
    if before.learner:
        return before
    try:
        await etcd.recount(at)
        return await etcd.status(at)
    except (NoAnswer, Refused):
        return before
