"""What the operator writes down before it lets anything start, and reads back after a crash.

Two records make every start traceable. The *bootstrap record* lives in the Secret that holds the
key of the tickets: how the cluster was meant to begin, which run of `start` had each member's one
ticket and, once it has formed, its latched cluster ID. The *member record* lives on each claim:
which member the volume belongs to. A claim can be deleted and made anew, so that it has no record
does not mean that its member never had a ticket; the bootstrap record knows. Neither is in the
custom resource's status, which others may wipe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from etcd_stateful import identity, made, naming
from etcd_stateful import successor as successors
from etcd_stateful.api.tls import NO_TLS, Links, links_as_json, load_links
from etcd_stateful.backup.named import Chosen, chosen_as_json, load_chosen
from etcd_stateful.made import NO_ACCOUNTS, Accounts
from etcd_stateful.restore import BUMP
from etcd_stateful.successor import Successor
from etcd_stateful.untrusted import loads, truth, whole

FIRST_EPOCH: Final = 1
"""Restore and recovery raise the epoch, which fences every volume of the one before."""

FORMAT: Final = 1
"""Of the bootstrap record. Raised with every key that is added, also to what is nested in it: an
older operator would pass over the key, and write the record again without it."""


class BadRecord(ValueError):
    """A record that this version cannot read. The cluster is held rather than guessed at."""


class NewerRecord(BadRecord):
    """One that a later version has written: sound, and not to be touched by this one."""


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
    return replace(record, declined=declined)


def dump_bootstrap(record: Bootstrap) -> str:
    """JSON for the Secret; read back by `load_bootstrap`."""
    links = {} if record.links.are_plaintext else {"links": links_as_json(record.links)}
    return json.dumps(
        {
            **links,
            "format": FORMAT,
            "clusterUID": record.cluster_uid,
            "attempt": record.attempt,
            "token": record.token,
            "members": [
                [member.name, member.peer_url, identity.to_hex(member.member_id)]
                for member in record.members
            ],
            "clusterID": identity.to_hex(record.cluster_id),
            "latched": record.latched,
            "issued": [[identity.to_hex(member), run] for member, run in record.issued],
            "version": record.version,
            "oldest": record.oldest,
            "before": record.before,
            "size": record.size,
            "epoch": record.epoch,
            "survivor": record.survivor,
            "declined": record.declined,
        }
        | ({"restoring": True} if record.restoring else {})
        | ({"chosen": chosen_as_json(record.chosen)} if record.chosen else {})
        | _replacement_as_json(record)
        | ({"accounts": made.as_json(record.accounts)} if record.accounts != NO_ACCOUNTS else {}),
        sort_keys=True,
    )


def _replacement_as_json(record: Bootstrap) -> dict[str, object]:
    """Of what most clusters never see, nothing."""
    said: dict[str, object] = {
        "bump": record.bump,
        "successor": successors.as_json(record.successor) if record.successor else None,
        "retired": [identity.to_hex(one) for one in record.retired],
        "restoredBy": record.restored_by,
        "untried": record.untried,
        "crossed": record.crossed,
    }
    return {key: value for key, value in said.items() if value}


def load_bootstrap(text: str) -> Bootstrap:
    """Raises BadRecord."""
    try:
        raw: dict[str, Any] = loads(text)
        _check_format(raw)
        return Bootstrap(
            cluster_uid=str(raw["clusterUID"]),
            attempt=whole(raw["attempt"]),
            token=str(raw["token"]),
            members=tuple(
                FirstMember(str(name), str(url), identity.from_hex(member))
                for name, url, member in raw["members"]
            ),
            cluster_id=identity.from_hex(raw["clusterID"]),
            latched=truth(raw["latched"]),
            issued=tuple((identity.from_hex(member), str(run)) for member, run in raw["issued"]),
            version=str(raw["version"]),
            oldest=str(raw.get("oldest", "")),
            before=str(raw.get("before", "")),
            crossed=truth(raw.get("crossed", False)),
            untried=truth(raw.get("untried", False)),
            size=whole(raw["size"]),
            epoch=_epoch(raw.get("epoch", FIRST_EPOCH)),
            survivor=str(raw.get("survivor", "")),
            declined=truth(raw.get("declined", False)),
            links=load_links(raw["links"]) if "links" in raw else NO_TLS,
            restoring=truth(raw.get("restoring", False)),
            chosen=load_chosen(raw["chosen"]) if "chosen" in raw else None,
            bump=whole(raw.get("bump", 0)),
            successor=successors.from_json(raw["successor"]) if "successor" in raw else None,
            retired=tuple(identity.from_hex(one) for one in raw.get("retired", ())),
            restored_by=str(raw.get("restoredBy", "")),
            accounts=made.from_json(raw["accounts"]) if "accounts" in raw else NO_ACCOUNTS,
        )
    except NewerRecord:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise BadRecord(f"the bootstrap record cannot be read: {error}") from error


def _check_format(raw: Mapping[str, Any]) -> None:
    """Before anything is made of the rest. The first records said nothing of a format."""
    written = whole(raw["format"], 1) if "format" in raw else 1
    if written > FORMAT:
        raise NewerRecord(
            f"the bootstrap record is of format {written}, as a newer operator has written it, "
            f"and this one knows no more than format {FORMAT}"
        )


def _epoch(value: object) -> int:
    """Anything else must not read as an epoch: it decides which volumes may run."""
    if type(value) is not int or value < FIRST_EPOCH:
        raise TypeError(f"{value!r:.60} is no epoch")
    return value


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """Which member a claim's volume belongs to; written before the member's ticket goes out.

    `claim_uid` is the claim's own UID at that time: another one later means that the claim, with
    its annotations, was restored or cloned.
    """

    cluster_uid: str
    claim_uid: str
    member_id: int
    cluster_id: int
    epoch: int = FIRST_EPOCH
    """Of the marker on the volume: outlives the bootstrap record, which goes with its cluster."""

    peer_scheme: str = "http"
    """Of the peer URL that the data knows the member by."""


def member_annotations(record: MemberRecord) -> dict[str, str]:
    scheme = {naming.PEER_SCHEME: "https"} if record.peer_scheme == "https" else {}
    return {
        **scheme,
        naming.CLUSTER_UID: record.cluster_uid,
        naming.CLAIM_UID: record.claim_uid,
        naming.MEMBER_ID: identity.to_hex(record.member_id),
        naming.CLUSTER_ID: identity.to_hex(record.cluster_id),
        naming.EPOCH: str(record.epoch),
    }


def load_member(annotations: Mapping[str, str]) -> MemberRecord | None:
    """The record in a claim's annotations, None where no ticket was ever recorded.

    Raises BadRecord for half a record: someone has edited it.
    """
    if not {naming.CLAIM_UID, naming.MEMBER_ID, naming.CLUSTER_ID} & annotations.keys():
        return None
    try:
        return MemberRecord(
            cluster_uid=_said(annotations, naming.CLUSTER_UID),
            claim_uid=_said(annotations, naming.CLAIM_UID),
            member_id=identity.from_hex(annotations[naming.MEMBER_ID]),
            cluster_id=identity.from_hex(annotations[naming.CLUSTER_ID]),
            epoch=_epoch_in(annotations.get(naming.EPOCH, str(FIRST_EPOCH))),
            peer_scheme=_scheme_in(annotations.get(naming.PEER_SCHEME, "http")),
        )
    except (KeyError, ValueError) as error:
        raise BadRecord(f"the member record on the claim cannot be read: {error}") from error


def _epoch_in(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not int(text):
        raise ValueError(f"not an epoch: {text[:32]!r}")
    return int(text)


def _scheme_in(text: str) -> str:
    if text not in ("http", "https"):
        raise ValueError(f"not a scheme: {text[:32]!r}")
    return text


def _said(annotations: Mapping[str, str], key: str) -> str:
    """An empty UID would equal one that nobody has set."""
    if not annotations[key]:
        raise ValueError(f"{key} is empty")
    return annotations[key]
