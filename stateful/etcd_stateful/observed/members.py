"""What etcd reports: the member list, the status of each member, alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the member list."""

    member_id: int
    name: str
    peer_urls: tuple[str, ...]
    learner: bool


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member's answer to a status request."""

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
    """The bytes of `db_size` that are not free pages; 0 if unknown."""
    storage_version: str = ""
    """The minor of its data format, such as `3.6`; reported from etcd 3.6 on."""
    revision: int = 0
    """The revision that it has applied; 0 if unknown."""
    downgrade_target: str = ""
    """The target minor of an enabled downgrade; empty if none is enabled."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm that is raised. For CORRUPT, etcd may name the wrong member."""

    kind: Literal["NOSPACE", "CORRUPT"]
    member_id: int


def is_full(alarms: tuple[Alarm, ...]) -> bool:
    """Whether etcd refuses writes because a member's file has reached its quota."""
    return any(alarm.kind == "NOSPACE" for alarm in alarms)


def is_corrupt(alarms: tuple[Alarm, ...]) -> bool:
    """Whether the data of members differs."""
    return any(alarm.kind == "CORRUPT" for alarm in alarms)


@dataclass(frozen=True, slots=True)
class EtcdView:
    """The linearizable member list, and the cluster ID in the header of its response."""

    cluster_id: int
    members: tuple[Member, ...]
