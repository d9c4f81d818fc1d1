"""What the operator can ask of one etcd member, and which errors may come back.

`client` implements it over gRPC; tests have fakes.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from etcd_stateful import naming
from etcd_stateful.observed.members import Alarm, EtcdView, MemberStatus

READ_SECONDS: Final = 1.0
"""A member answers Status from memory. One that takes longer counts as not answering."""


class NoAnswer(Exception):
    """The member did not answer. Its state is unknown; a change may have happened."""


class Stranger(NoAnswer):
    """Something else answered at this address.

    `cluster_id` is that of another etcd cluster; None if it was not etcd, or another member.
    """

    def __init__(self, words: str, cluster_id: int | None = None) -> None:
        super().__init__(words)
        self.cluster_id = cluster_id


class NoHandshake(NoAnswer):
    """One side refuses the other's certificate, or they have no kind of TLS in common."""


class Refused(Exception):
    """etcd itself refused, in its own words. Nothing has changed; a later try may succeed."""


class Denied(Refused):
    """etcd requires a user, or another one than the operator is to it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The authority that the operator trusts, and what it presents, in PEM form. It dials a member
    by its address, so `host` is the name that the member's certificate must have."""

    authority: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    host: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member is expected, and its IDs; None for one that is not known."""

    address: str
    cluster_id: int | None = None
    member_id: int | None = None
    port: int = naming.CLIENT_PORT
    tls: Identity | None = None
    """None for plaintext."""

    @property
    def target(self) -> str:
        """The form of gRPC that needs no resolver: `ipv4:10.0.0.1:2379`, `ipv6:[::1]:2379`."""
        if ipaddress.ip_address(self.address).version == 6:
            return f"ipv6:[{self.address}]:{self.port}"
        return f"ipv4:{self.address}:{self.port}"


class Hash(NamedTuple):
    """HashKV of what lies between the last compaction and a revision. Only hashes with the same
    compaction can be compared."""

    value: int
    compacted: int


class Etcd(Protocol):
    """What the operator asks of one member. Every method raises NoAnswer or Refused."""

    async def status(self, at: Endpoint, seconds: float = READ_SECONDS) -> MemberStatus: ...

    async def member_list(self, at: Endpoint) -> EtcdView: ...

    async def member_add_learner(self, at: Endpoint, *peer_urls: str) -> int: ...

    async def member_update(self, at: Endpoint, member_id: int, *peer_urls: str) -> None: ...

    async def member_promote(self, at: Endpoint, member_id: int) -> None: ...

    async def member_remove(self, at: Endpoint, member_id: int) -> None: ...

    async def move_leader(self, at: Endpoint, member_id: int) -> None: ...

    async def alarms(self, at: Endpoint) -> tuple[Alarm, ...]: ...

    async def hash_kv(self, at: Endpoint, revision: int) -> Hash: ...

    async def disarm(self, at: Endpoint, alarm: Alarm) -> None: ...

    async def defragment(self, at: Endpoint) -> None: ...

    async def recount(self, at: Endpoint) -> None: ...

    async def enable_downgrade(self, at: Endpoint, minor: str) -> None: ...

    async def cancel_downgrade(self, at: Endpoint) -> None: ...
