"""What the operator asks of one member of etcd, and what the answer may be.

`client` is how it is asked; tests have fakes of it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from etcd_stateful import naming
from etcd_stateful.observed.members import Alarm, EtcdView, MemberStatus

READ_SECONDS: Final = 1.0
"""Status is answered from memory; more than this is as good as dead."""


class NoAnswer(Exception):
    """Nobody who may answer did. What holds there is unknown; a change may have happened."""


class Stranger(NoAnswer):
    """Someone else answered at this address.

    `cluster_id` is that of another etcd cluster; None where it was no etcd, or another member.
    """

    def __init__(self, words: str, cluster_id: int | None = None) -> None:
        super().__init__(words)
        self.cluster_id = cluster_id


class Refused(Exception):
    """etcd itself said no, in its own words: a reason to wait, and nothing has changed."""


class Denied(Refused):
    """etcd asks for a user, or for another one than the operator is to it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the operator trusts, and what it shows, all in PEM form; `host` is the name that the
    member's certificate must have, as it is dialled by its address."""

    authority: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    host: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member is expected, and who it must be; None where that is not known."""

    address: str
    cluster_id: int | None = None
    member_id: int | None = None
    port: int = naming.CLIENT_PORT
    tls: Identity | None = None
    """None: in plaintext."""

    @property
    def target(self) -> str:
        """The form of gRPC that needs no resolver: `ipv4:10.0.0.1:2379`, `ipv6:[::1]:2379`."""
        if ipaddress.ip_address(self.address).version == 6:
            return f"ipv6:[{self.address}]:{self.port}"
        return f"ipv4:{self.address}:{self.port}"


class Hash(NamedTuple):
    """HashKV of what lies between the last compaction and a revision: only such of the same
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

    async def revision(self, at: Endpoint) -> int: ...

    async def hash_kv(self, at: Endpoint, revision: int) -> Hash: ...

    async def disarm(self, at: Endpoint, alarm: Alarm) -> None: ...

    async def defragment(self, at: Endpoint) -> None: ...

    async def recount(self, at: Endpoint) -> None: ...

    async def enable_downgrade(self, at: Endpoint, minor: str) -> None: ...

    async def cancel_downgrade(self, at: Endpoint) -> None: ...
