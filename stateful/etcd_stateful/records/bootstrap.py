"""The bootstrap record: how a cluster was meant to begin, and what has become of it.

How it changes is here as well: each function makes the record that follows another.
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
"""Restore and recovery raise the epoch, which fences every volume of the one before."""


@dataclass(frozen=True, slots=True)
class FirstMember:
    """One line of the initial cluster."""

    name: str
    peer_url: str
    member_id: int


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How the cluster begins. `latched` is set once a linearizable answer has carried this ID.

    `issued` is the ledger of tickets: member ID and challenge, written before the ticket goes out.
    """

    cluster_uid: str
    attempt: int
    token: str
    members: tuple[FirstMember, ...]
    cluster_id: int
    latched: bool = False
    issued: tuple[tuple[int, str], ...] = ()
    version: str = ""
    """What its members run. Not on the StatefulSet alone: that may be deleted (I9)."""
    oldest: str = ""
    """The oldest minor whose entries the members' logs may still hold; empty where nobody knows."""

    before: str = ""
    """What they ran before, while a change of the version is under way."""
    crossed: bool = False
    """The data may be of a minor above `before` by now (see `going_back`)."""
    untried: bool = False
    """It was written for data that there was, and no quorum has answered with this version yet."""

    size: int = 0
    """How many ordinals there are, once that is not the number of first members (I5)."""

    epoch: int = FIRST_EPOCH
    survivor: str = ""
    """The member that a recovery of this epoch goes on with, until that recovery is over."""

    restoring: bool = False
    """The first volume is being filled from a backup; until it is, nothing may run."""

    chosen: Chosen | None = None
    """The backup that it is filled from, where the spec says no more than an EtcdBackup's name."""

    bump: int = 0
    """What the revisions of the last restore were raised by; 0 where there was none."""

    successor: Successor | None = None
    """What a restore in place is about to put in this cluster's place."""

    retired: tuple[int, ...] = ()
    """Clusters whose place was taken, as long as their claims are kept: until this one serves."""

    restored_by: str = ""
    """UID of the EtcdRestore by which this cluster took another's place."""

    declined: bool = False
    """The `spec.recovery` there is came while a quorum answered. It has no effect, also later."""

    links: Links = NO_TLS
    """As chosen when the cluster began. A record that says nothing of them is of a time when there
    was only plaintext."""

    accounts: Accounts = NO_ACCOUNTS

    @property
    def initial_cluster(self) -> str:
        return ",".join(f"{member.name}={member.peer_url}" for member in self.members)

    def member(self, name: str) -> FirstMember | None:
        return next((member for member in self.members if member.name == name), None)

    def challenge(self, member_id: int) -> str | None:
        """The challenge of the one run that may have this member's ticket; None if none has."""
        return next((run for member, run in self.issued if member == member_id), None)


def first_attempt(
    cluster_uid: str,
    peers: Mapping[str, str],
    version: str,
    attempt: int = 1,
    links: Links = NO_TLS,
) -> Bootstrap:
    """The record of an attempt to form a cluster of `peers` (member name to peer URL).

    The token holds the custom resource's UID: deleted and created again under the same name is
    another cluster to etcd.
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
    """The attempt after one that never formed a cluster, as the spec says by then."""
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
    """The record of a cluster that is there already: adopted, or its Secret was lost."""
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
    """The record of a cluster that has formed; nothing ever takes it back (I4, I7)."""
    return replace(record, latched=True)


def issue(record: Bootstrap, tickets: Mapping[int, str]) -> Bootstrap:
    """The record with these tickets in its ledger."""
    if clash := [member for member in tickets if record.challenge(member) is not None]:
        raise ValueError(f"members {clash} had their ticket")
    return replace(record, issued=tuple(sorted((*record.issued, *tickets.items()))))


def recovering(record: Bootstrap, survivor: str) -> Bootstrap:
    """From here on every volume is of an epoch that is over, and must not run as it is."""
    return replace(record, epoch=record.epoch + 1, survivor=survivor)


def recovered(record: Bootstrap, size: int) -> Bootstrap:
    """The first members are no more, but for one. The ledger stays: no member gets two tickets."""
    return replace(record, survivor="", members=(), size=size)


def restoring(
    begun: Bootstrap, *, size: int, bump: int = BUMP, chosen: Chosen | None = None
) -> Bootstrap:
    """How a cluster begins that is born from a backup: with one member, that others join.

    Args:
        begun: an attempt of that one member.
        size: how many ordinals there are to be in the end.
        bump: by how much the revisions of the backup are raised.
        chosen: what the EtcdBackup had stored that the spec names.
    """
    return replace(begun, restoring=True, size=size, chosen=chosen, bump=bump)


def restored(record: Bootstrap, size: int) -> Bootstrap:
    """From here on there is data, which no empty volume may ever take the place of."""
    filled = replace(record, restoring=False, chosen=None, latched=True)
    return replace(filled, members=(), size=size, bump=record.bump or BUMP)


def decline(record: Bootstrap, *, declined: bool) -> Bootstrap:
    """The record with or without a note that `spec.recovery` came while a quorum answered."""
    return replace(record, declined=declined)
