"""The bootstrap record: how a cluster was meant to begin, and what has happened to it since.

The functions are its transitions: each returns the record that follows another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from etcd_stateful import identity
from etcd_stateful.api.tls import NO_TLS, Links
from etcd_stateful.backup.reference import Chosen
from etcd_stateful.jobs.restore import BUMP
from etcd_stateful.records.accounts import NO_ACCOUNTS, Accounts
from etcd_stateful.records.successor import Successor

FIRST_EPOCH: Final = 1
"""A restore or a recovery raises the epoch. Volumes of an earlier epoch may not run any more."""


@dataclass(frozen=True, slots=True)
class FirstMember:
    """One entry of etcd's `initial-cluster`."""

    name: str
    peer_url: str
    member_id: int


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The bootstrap record.

    `latched` is set once a linearizable answer has proven that the cluster formed with this cluster
    ID. `issued` is the ticket ledger: member IDs with the challenge of the run of `start` that gets
    the ticket, written before the ticket is handed out.
    """

    cluster_uid: str
    attempt: int
    token: str
    members: tuple[FirstMember, ...]
    cluster_id: int
    latched: bool = False
    issued: tuple[tuple[int, str], ...] = ()
    version: str = ""
    """The version that the members run. Also here because the StatefulSet may be deleted (I9)."""
    oldest: str = ""
    """The oldest minor that may have written entries in the members' logs; empty if unknown."""

    before: str = ""
    """The version that they ran before, while a version change is under way."""
    crossed: bool = False
    """The data may already have the format of a minor above `before` (see `rollback`)."""
    untried: bool = False
    """The record was rebuilt for existing data, and no quorum has answered with `version` yet."""

    size: int = 0
    """The number of ordinals, once it is no longer the number of first members (I5)."""

    epoch: int = FIRST_EPOCH
    begun: int = 0
    """The highest epoch that other objects still named when this record was rebuilt, or a higher
    one if the StatefulSet was lost: a volume may be of it, although no record tells of what began
    it. 0 if that is not known."""
    survivor: str = ""
    """The survivor of this epoch's recovery, until that recovery is over."""

    restoring: bool = False
    """The first volume is being filled from a backup. Until that is done, nothing may run."""

    chosen: Chosen | None = None
    """Where the backup is stored, if the spec gives only the name of an EtcdBackup."""

    bump: int = 0
    """How much the last restore raised the revisions; after one in place, how far they had come
    once it was over, if that is more. 0 if there was none."""

    successor: Successor | None = None
    """The cluster that a restore in place will replace this one with."""

    retired: tuple[int, ...] = ()
    """IDs of replaced clusters whose claims are still kept: until this cluster serves."""

    restored_by: str = ""
    """UID of the EtcdRestore that replaced the previous cluster with this one."""

    restored_from: str = ""
    """The name of the EtcdBackup, or the location in a store, that it named then."""

    declined: bool = False
    """The present `spec.recovery` was set while a quorum answered, so it never takes effect."""

    links: Links = NO_TLS
    """The links that the cluster has now. A record without them is from before there was TLS."""

    accounts: Accounts = NO_ACCOUNTS

    @property
    def latest_epoch(self) -> int:
        """The latest epoch that volumes may be of."""
        return max(self.epoch, self.begun)

    @property
    def next_epoch(self) -> int:
        """The epoch that a recovery or a restore in place begins; no volume is of it yet."""
        return self.latest_epoch + 1

    @property
    def initial_cluster(self) -> str:
        return ",".join(f"{member.name}={member.peer_url}" for member in self.members)

    @property
    def ordinals(self) -> int:
        """The number of ordinals on record, also while no pod may run."""
        return self.size or len(self.members)

    def member(self, name: str) -> FirstMember | None:
        return next((member for member in self.members if member.name == name), None)

    def challenge(self, member_id: int) -> str | None:
        """The challenge of the one run that may get this member's ticket; None if there is none
        yet."""
        return next((run for member, run in self.issued if member == member_id), None)


def first_attempt(
    cluster_uid: str,
    peers: Mapping[str, str],
    version: str,
    attempt: int = 1,
    links: Links = NO_TLS,
) -> Bootstrap:
    """The record of an attempt to form a cluster of `peers` (member name to peer URL).

    The token contains the UID of the custom resource. If that is deleted and created again with the
    same name, it is another cluster to etcd.
    """
    token = f"{cluster_uid}-{attempt}"
    members = tuple(
        FirstMember(name, url, identity.member_id([url], token)) for name, url in peers.items()
    )
    return Bootstrap(
        cluster_uid=cluster_uid,
        attempt=attempt,
        token=token,
        members=members,
        cluster_id=identity.cluster_id(member.member_id for member in members),
        version=version,
        oldest=version,
        links=links,
    )


def next_attempt(
    record: Bootstrap, peers: Mapping[str, str], version: str, links: Links
) -> Bootstrap:
    """The next attempt, from the present spec, after one that never formed a cluster."""
    return first_attempt(record.cluster_uid, peers, version, record.attempt + 1, links)


def adopted(
    cluster_uid: str,
    cluster_id: int,
    version: str,
    size: int,
    *,
    epoch: int = FIRST_EPOCH,
    links: Links = NO_TLS,
) -> Bootstrap:
    """The record of an existing cluster, which is adopted or whose Secret was lost."""
    return Bootstrap(
        cluster_uid=cluster_uid,
        attempt=0,
        token=f"{cluster_uid}-adopted",
        members=(),
        cluster_id=cluster_id,
        latched=True,
        version=version,
        size=size,
        epoch=epoch,
        links=links,
    )


def latch(record: Bootstrap) -> Bootstrap:
    """The record of a cluster that has formed. The latch is never undone (I4, I7)."""
    return replace(record, latched=True)


def issue(record: Bootstrap, tickets: Mapping[int, str]) -> Bootstrap:
    """The record with these tickets in its ledger."""
    if clash := [member for member in tickets if record.challenge(member) is not None]:
        raise ValueError(f"members {clash} already had their ticket")
    return replace(record, issued=tuple(sorted((*record.issued, *tickets.items()))))


def recovering(record: Bootstrap, survivor: str) -> Bootstrap:
    """The record with the next epoch: no volume may run until the Job has prepared the
    survivor's."""
    return replace(record, epoch=record.next_epoch, survivor=survivor)


def recovered(record: Bootstrap, size: int) -> Bootstrap:
    """The record after a recovery. The ledger stays: no member gets two tickets."""
    return replace(record, survivor="", members=(), size=size)


def restoring(
    begun: Bootstrap, *, size: int, bump: int = BUMP, chosen: Chosen | None = None
) -> Bootstrap:
    """The record of a cluster that starts from a backup, with one member that others will join.

    Args:
        begun: an attempt with that one member.
        size: how many ordinals there will be.
        bump: how much the revisions of the backup are raised.
        chosen: where the backup of the EtcdBackup is stored that the spec names.
    """
    return replace(begun, restoring=True, size=size, chosen=chosen, bump=bump)


def restored(record: Bootstrap, size: int) -> Bootstrap:
    """The latched record after the restore: from now on an empty volume is a lost member."""
    return replace(record, restoring=False, chosen=None, latched=True, members=(), size=size)
