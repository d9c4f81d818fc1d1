"""What etcd says: the member list, the status of each member, alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Member:
    """One line of the member list."""

    member_id: int
    name: str
    peer_urls: tuple[str, ...]
    learner: bool


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What one member says of itself."""

    member_id: int
    cluster_id: int
    version: str
    leader_id: int
    term: int
    applied_index: int
    learner: bool
    db_size: int
    errors: tuple[str, ...] = ()
    db_size_in_use: int = 0
    """Bytes of `db_size` that hold something: the file keeps the rest. 0 where it does not say."""
    storage_version: str = ""
    """Minor of the format of its data, `3.6`; from etcd 3.6 on."""
    revision: int = 0
    """Of its data, as far as it has applied it; 0 where it does not say."""
    downgrade_target: str = ""
    """Minor that etcd's downgrade API has been told to go down to; empty while it is off."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm that is raised; etcd may blame the wrong member for CORRUPT."""

    kind: Literal["NOSPACE", "CORRUPT"]
    member_id: int


@dataclass(frozen=True, slots=True)
class EtcdView:
    """The linearizable member list, with the cluster ID that its reply carried."""

    cluster_id: int
    members: tuple[Member, ...]
