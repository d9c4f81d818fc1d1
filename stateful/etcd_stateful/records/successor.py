"""The cluster that a restore puts in the place of one that is there: written down before its first
volume is made, and forgotten when it has taken that place or is called off.

Its IDs are computed from its token, so they are known before any of its data is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from etcd_stateful import identity, naming
from etcd_stateful.api import stores
from etcd_stateful.api.source import BackupRef, Source
from etcd_stateful.api.stores import Store
from etcd_stateful.jobs.restore import BUMP
from etcd_stateful.untrusted import whole


@dataclass(frozen=True, slots=True)
class Successor:
    restore: str
    """UID of the EtcdRestore that asks for it."""
    store: Store
    backup: str
    """Name of the EtcdBackup that had stored there when it was looked up; empty where the place
    itself is named."""
    name: str
    """Of its first member: a pod at an ordinal that the cluster there does not use."""
    peer_url: str
    member_id: int
    token: str
    cluster_id: int
    bump: int
    """How much higher its revisions would begin if those of the backup were not known. On record
    of the cluster that comes of it."""
    raised_by: int
    """How much higher they begin than the backup's end."""
    claim: str = ""
    """UID of the claim that holds all of it; empty until one does."""

    @property
    def ordinal(self) -> int:
        return int(self.name.rpartition("-")[2])

    def is_from(self, source: Source) -> bool:
        """Whether it is what a spec, as it is by now, means."""
        if isinstance(source, BackupRef):
            return source.name == self.backup
        return not self.backup and source == self.store


def successor(
    *,
    cluster_uid: str,
    restore: str,
    epoch: int,
    first: tuple[str, str],
    bump: int,
    raised_by: int = 0,
    store: Store,
    backup: str = "",
) -> Successor:
    """One whose IDs follow from the restore and the epoch.

    Args:
        epoch: the one that it will begin.
        first: name and peer URL of its first member.
        raised_by: 0 where it is the whole of `bump`.
    """
    token, (name, url) = f"{cluster_uid}-{epoch}-{restore}", first
    member_id = identity.member_id([url], token)
    cluster_id = identity.cluster_id([member_id])
    return Successor(
        restore, store, backup, name, url, member_id, token, cluster_id, bump, raised_by or bump
    )


def bump(live: int, last: int) -> int:
    """How much higher revisions have to begin, so that no client sees one again.

    Above all that was ever given out: what the running members say where one does, for the backup
    may be much older. Otherwise a backup that is older than the last restore counts, too: all that
    was ever bumped, twice, is more than what that one and its restore came to together.

    Args:
        live: the highest revision that a member speaks of; 0 where none does.
        last: what the last restore was bumped by; 0 where there was none.
    """
    return (live or max(0, 2 * last - BUMP)) + BUMP


def raised_by(live: int, last: int, revision: int) -> int:
    """By how much of that a backup is raised: its own revisions count, or each restore of one of
    the cluster itself would double them.

    Only where a member says that the cluster has come at least so far. Else the backup is of
    another, or nobody knows what was reached.

    Args:
        live: as for `bump`.
        last: as for `bump`.
        revision: of the backup, at least; 0 where that is not known.
    """
    return bump(live, last) - (revision if 0 < revision <= live else 0)


def as_json(one: Successor) -> dict[str, object]:
    return {
        "restore": one.restore,
        "store": stores.to_json(one.store),
        "backup": one.backup,
        "member": [one.name, one.peer_url, identity.to_hex(one.member_id)],
        "token": one.token,
        "clusterID": identity.to_hex(one.cluster_id),
        "bump": one.bump,
        "claim": one.claim,
    } | ({"raisedBy": one.raised_by} if one.raised_by != one.bump else {})


def from_json(raw: Mapping[str, Any]) -> Successor:
    """Raises ValueError, KeyError and TypeError."""
    name, url, member = raw["member"]
    if naming.ordinal_of(str(name).rpartition("-")[0], str(name)) is None:
        raise ValueError(f"{name!r:.60} is no pod's name")
    return Successor(
        restore=str(raw["restore"]),
        store=stores.from_json(raw["store"]),
        backup=str(raw["backup"]),
        name=str(name),
        peer_url=str(url),
        member_id=identity.from_hex(member),
        token=str(raw["token"]),
        cluster_id=identity.from_hex(raw["clusterID"]),
        bump=whole(raw["bump"]),
        raised_by=whole(raw.get("raisedBy", raw["bump"])),
        claim=str(raw["claim"]),
    )
