"""The steps a planner may choose. Each is at most one write; `reason` is what the user reads."""

from __future__ import annotations

from dataclasses import dataclass

from etcd_stateful.membership.records import Bootstrap, MemberRecord
from etcd_stateful.ticket import Ticket


@dataclass(frozen=True, slots=True)
class ApplyChild:
    """Server-side apply one object as the renderer says."""

    kind: str
    name: str
    manifest: dict[str, object]
    reason: str


@dataclass(frozen=True, slots=True)
class CreateSecret:
    """Create the Secret: a fresh key and this bootstrap record. Never overwrites one."""

    name: str
    record: Bootstrap
    reason: str


@dataclass(frozen=True, slots=True)
class WriteBootstrap:
    """Replace the bootstrap record in the Secret of exactly this resourceVersion."""

    name: str
    resource_version: str
    record: Bootstrap
    reason: str


@dataclass(frozen=True, slots=True)
class RecordMember:
    """Write the member record on the claim (or pod) of exactly this UID and resourceVersion."""

    kind: str
    name: str
    uid: str
    resource_version: str
    record: MemberRecord
    reason: str


@dataclass(frozen=True, slots=True)
class PushTicket:
    """Hand `start` in this pod its ticket, if a fresh read says that it is still this pod."""

    pod: str
    pod_uid: str
    address: str
    ticket: Ticket
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete the claim of exactly this UID and resourceVersion."""

    name: str
    uid: str
    resource_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to write now. `reason` says what for."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing more until a human acts. `reason` is one word, `message` says what to do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The cluster is as declared."""


Write = ApplyChild | CreateSecret | WriteBootstrap | RecordMember | PushTicket | DeleteClaim
Step = Write | Wait | Hold | Settled
