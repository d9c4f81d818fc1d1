"""The successor: the cluster that a restore in place replaces the present one with.

It is recorded before its first volume is created, until it has taken over or the restore is
cancelled. Its IDs are computed from its token, so they are known before it has any data.
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
    """UID of the EtcdRestore that requests it."""
    store: Store
    backup: str
    """Name of the EtcdBackup that the store was looked up from; empty if the EtcdRestore names the
    store itself."""
    name: str
    """The name of its first member: a pod at an ordinal that the present cluster does not use."""
    peer_url: str
    member_id: int
    token: str
    cluster_id: int
    bump: int
    """How much the revisions would have to be raised if the backup's own revision were unknown. It
    goes into the successor's record."""
    raised_by: int
    """How much they are raised above the backup's."""
    claim: str = ""
    """UID of the claim that has been filled; empty until then."""

    @property
    def source(self) -> str:
        """What the EtcdRestore names, as `api.source.named_in`."""
        return self.backup or self.store.place

    @property
    def ordinal(self) -> int:
        return int(self.name.rpartition("-")[2])

    def is_from(self, source: Source) -> bool:
        """Whether it comes from the source that the EtcdRestore's spec names now."""
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
    raised_by: int,
    store: Store,
    backup: str,
) -> Successor:
    """A successor, with IDs computed from the restore and the epoch.

    Args:
        epoch: the epoch that it will begin.
        first: name and peer URL of its first member.
    """
    token, (name, url) = f"{cluster_uid}-{epoch}-{restore}", first
    member_id = identity.member_id([url], token)
    cluster_id = identity.cluster_id([member_id])
    return Successor(
        restore, store, backup, name, url, member_id, token, cluster_id, bump, raised_by
    )


def bump(live: int, last: int) -> int:
    """How much the revisions have to be raised, so that no client sees a revision twice.

    They must be above all that were ever handed out. If a member answers, its revision tells how
    far they went, because the backup may be much older. Otherwise, or if it is a learner that has
    yet to get the data, the backup may even be older than the last restore: then twice what that
    one led to is more than all revisions since and before.

    Args:
        live: the highest revision that a member reports; 0 if none answers.
        last: `Bootstrap.bump`: what the last restore led to; 0 if there was none.
    """
    return (live if live >= last else max(0, 2 * last - BUMP)) + BUMP


def raised_by(live: int, last: int, revision: int) -> int:
    """How much the revisions are raised above the backup's: `bump` less the backup's own revision.
    Otherwise each restore of the cluster's own backup would double the revisions.

    The backup's revision is subtracted only if a member reports at least that revision. Otherwise
    the backup is from another cluster, or it is unknown how far the revisions went.

    Args:
        live: as for `bump`.
        last: as for `bump`.
        revision: the backup's revision, or less; 0 if unknown.
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
        raise ValueError(f"{name!r:.60} is not the name of a pod")
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
