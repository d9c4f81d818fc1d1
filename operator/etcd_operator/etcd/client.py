"""Calls etcd members, one endpoint at a time, and believes only the member that was meant.

Three rules, each learned from a loss somewhere:

- The member list is read linearizably. aetcd's own method lists serializably, so its stubs are used
  directly. They also have MemberPromote and MoveLeader, for which aetcd has no methods.
- The header of every reply is checked. Pod addresses are reused, so a reply from another cluster or
  member counts as no answer.
- Every call has a deadline, and no answer means *unknown*. Only etcd itself can refuse.

A channel is used for one call. At 0.1 calls per second and cluster, a connection that is kept would
cost memory for nothing, and a new one has no back-off from an earlier pod at the same address.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
from aetcd import rpc

from etcd_operator.etcd import fields as etcd_fields
from etcd_operator.etcd.api import (
    READ_SECONDS,
    Denied,
    Endpoint,
    Hash,
    NoAnswer,
    NoHandshake,
    Refused,
    Stranger,
)
from etcd_operator.etcd.denial import is_denial
from etcd_stateful.identity import to_hex
from etcd_stateful.observed.members import Alarm, EtcdView, Member, MemberStatus

# It logs a traceback for a reply that it cannot parse, which is then None: see `_ask`.
logging.getLogger("grpc._common").setLevel(logging.CRITICAL)

LIST_SECONDS: Final = 1.5
"""A linearizable read waits for a quorum; without one it would wait for etcd's own 7 seconds."""

CHANGE_SECONDS: Final = 2.0
"""For one try. If the leader is lost, a change may hang; the next observation shows its outcome."""

HASH_SECONDS: Final = 60.0
"""A member reads its whole database for a hash, from the disk if its memory is smaller. If nobody
waits any more it reads on, and the next request only makes it read everything at once again. After
a minute of silence the kubelet restarts it."""

DEFRAGMENT_SECONDS: Final = 10.0
"""How long a worker waits for it, as other clusters need the worker too. etcd goes on afterwards,
and the member answers nothing until it is done, so the next look shows the outcome."""

AT_ONCE: Final = 32
"""Calls at a time, of all clusters together."""

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 1024 * 1024),
)

_REFUSALS: Final = frozenset(
    {
        rpc.StatusCode.FAILED_PRECONDITION,
        rpc.StatusCode.INVALID_ARGUMENT,
        rpc.StatusCode.NOT_FOUND,
        rpc.StatusCode.OUT_OF_RANGE,
        rpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)

_ALARMS: Final = {"CORRUPT": rpc.CORRUPT, "NOSPACE": rpc.NOSPACE}

_ENABLE: Final = rpc.DowngradeRequest.ENABLE
_CANCEL: Final = rpc.DowngradeRequest.CANCEL

_REFUSED_IN_WORDS: Final = (
    "unhealthy cluster",
    "rpc not supported for learner",
    "password was given for no password user",
)
"""etcd's messages for refusals whose code alone would leave the outcome unknown."""


_NO_HANDSHAKE: Final = "Tls handshake failed"
_ALERT: Final = "TSI_DATA_CORRUPTED"
"""In gRPC's words for a connection that the server ends with an alert once the handshake is over.
In TLS 1.3 only then it looks at the client's certificate."""

Ask = Callable[[Any], Awaitable[Any]]

OpenChannel = Callable[[Endpoint], Any]


def open_channel(endpoint: Endpoint) -> Any:
    """A channel that has not connected yet."""
    if endpoint.tls is None:
        return plaintext(endpoint)
    mine = endpoint.tls
    credentials = grpc.ssl_channel_credentials(mine.authority, mine.key, mine.certificate)
    named = (("grpc.ssl_target_name_override", mine.host),)
    return rpc.secure_channel(endpoint.target, credentials, options=_OPTIONS + named)


def plaintext(endpoint: Endpoint) -> Any:
    """A channel without TLS that has not connected yet."""
    return rpc.insecure_channel(endpoint.target, options=_OPTIONS)


class GrpcEtcd:
    """`Etcd` over aetcd's gRPC stubs."""

    def __init__(self, opener: OpenChannel = open_channel) -> None:
        self._open = opener
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def status(self, at: Endpoint, seconds: float = READ_SECONDS) -> MemberStatus:
        reply = await self.read(at, _ask_status(seconds))
        return MemberStatus(
            member_id=reply.header.member_id,
            cluster_id=reply.header.cluster_id,
            version=reply.version,
            leader_id=reply.leader,
            term=reply.raftTerm,
            applied_index=reply.raftAppliedIndex,
            learner=reply.isLearner,
            db_size=reply.dbSize,
            db_size_in_use=reply.dbSizeInUse,
            errors=tuple(reply.errors),
            revision=reply.header.revision,
            storage_version=etcd_fields.storage_version(reply),
            downgrade_target=etcd_fields.downgrade_target(reply),
        )

    async def member_list(self, at: Endpoint) -> EtcdView:
        """The linearizable member list: what a quorum agrees on now."""
        request = rpc.MemberListRequest(linearizable=True)
        reply = await self.read(at, call(rpc.ClusterStub, "MemberList", request, LIST_SECONDS))
        return EtcdView(
            cluster_id=reply.header.cluster_id,
            members=tuple(
                Member(member.ID, member.name, tuple(member.peerURLs), member.isLearner)
                for member in reply.members
            ),
        )

    async def alarms(self, at: Endpoint) -> tuple[Alarm, ...]:
        request = rpc.AlarmRequest(action=rpc.AlarmRequest.GET)
        reply = await self.read(at, call(rpc.MaintenanceStub, "Alarm", request, LIST_SECONDS))
        return tuple(
            Alarm("CORRUPT" if alarm.alarm == rpc.CORRUPT else "NOSPACE", alarm.memberID)
            for alarm in reply.alarms
            if alarm.alarm in _ALARMS.values()
        )

    async def hash_kv(self, at: Endpoint, revision: int) -> Hash:
        """The hash of all that the member has up to `revision`; Refused if that is compacted."""
        request = rpc.HashKVRequest(revision=revision)
        reply = await self.read(at, call(rpc.MaintenanceStub, "HashKV", request, HASH_SECONDS))
        return Hash(reply.hash, reply.compact_revision)

    async def member_add_learner(self, at: Endpoint, *peer_urls: str) -> int:
        """Adds a learner and returns the ID that etcd gave it. Ask the leader."""
        request = rpc.MemberAddRequest(peerURLs=peer_urls, isLearner=True)
        reply = await self.change(at, call(rpc.ClusterStub, "MemberAdd", request, CHANGE_SECONDS))
        return int(reply.member.ID)

    async def member_update(self, at: Endpoint, member_id: int, *peer_urls: str) -> None:
        """Never call this for a learner: older patches of each minor then take it for a voter."""
        request = rpc.MemberUpdateRequest(ID=member_id, peerURLs=peer_urls)
        await self.change(at, call(rpc.ClusterStub, "MemberUpdate", request, CHANGE_SECONDS))

    async def member_promote(self, at: Endpoint, member_id: int) -> None:
        request = rpc.MemberPromoteRequest(ID=member_id)
        await self.change(at, call(rpc.ClusterStub, "MemberPromote", request, CHANGE_SECONDS))

    async def member_remove(self, at: Endpoint, member_id: int) -> None:
        request = rpc.MemberRemoveRequest(ID=member_id)
        await self.change(at, call(rpc.ClusterStub, "MemberRemove", request, CHANGE_SECONDS))

    async def move_leader(self, at: Endpoint, member_id: int) -> None:
        """Makes `member_id` the leader. Only the present leader may be asked."""
        request = rpc.MoveLeaderRequest(targetID=member_id)
        await self.change(at, call(rpc.MaintenanceStub, "MoveLeader", request, CHANGE_SECONDS))

    async def disarm(self, at: Endpoint, alarm: Alarm) -> None:
        request = rpc.AlarmRequest(
            action=rpc.AlarmRequest.DEACTIVATE,
            memberID=alarm.member_id,
            alarm=_ALARMS[alarm.kind],
        )
        await self.change(at, call(rpc.MaintenanceStub, "Alarm", request, CHANGE_SECONDS))

    async def defragment(self, at: Endpoint) -> None:
        request = rpc.DefragmentRequest()
        await self.change(at, call(rpc.MaintenanceStub, "Defragment", request, DEFRAGMENT_SECONDS))

    async def recount(self, at: Endpoint) -> None:
        """Makes the member commit, so that its next status shows which pages are free by now.

        A compaction at revision 1 changes nothing; see `recounting`.
        """
        request = rpc.CompactionRequest(revision=1, physical=True)
        ask = call(rpc.KVStub, "Compact", request, CHANGE_SECONDS)
        with contextlib.suppress(Refused):  # it is compacted already
            await self.change(at, ask)

    async def enable_downgrade(self, at: Endpoint, minor: str) -> None:
        """Tells the cluster that its members will run `minor`, which is one below theirs."""
        await self._downgrade(at, rpc.DowngradeRequest(action=_ENABLE, version=minor))

    async def cancel_downgrade(self, at: Endpoint) -> None:
        await self._downgrade(at, rpc.DowngradeRequest(action=_CANCEL))

    async def _downgrade(self, at: Endpoint, request: Any) -> None:
        await self.change(at, call(rpc.MaintenanceStub, "Downgrade", request, CHANGE_SECONDS))

    async def read(self, at: Endpoint, ask: Ask) -> Any:
        async with self._channel(at) as channel:
            reply = await _ask(at, ask, channel)
        _check_speaker(at, reply.header)
        return reply

    async def change(self, at: Endpoint, ask: Ask) -> Any:
        """Sends a change over a connection on which the member has just been identified.

        A check of its reply would be too late, and the reply to MoveLeader has no header.
        """
        async with self._channel(at) as channel:
            _check_speaker(at, (await _ask(at, _ask_status(READ_SECONDS), channel)).header)
            return await _ask(at, ask, channel)

    @contextlib.asynccontextmanager
    async def _channel(self, at: Endpoint) -> AsyncIterator[Any]:
        async with self._turns:
            channel = self._open(at)
            try:
                yield channel
            except rpc.AioRpcError as error:
                raise _meaning(at, error) from error
            finally:
                await channel.close()


def call(stub: Callable[[Any], Any], method: str, request: Any, seconds: float) -> Ask:
    """One request, which can be sent over any channel."""
    return lambda channel: getattr(stub(channel), method)(request, timeout=seconds)


async def _ask(at: Endpoint, ask: Ask, channel: Any) -> Any:
    """Returns the reply. gRPC returns None if it cannot parse it: anything may listen there."""
    if (reply := await ask(channel)) is None:
        raise NoAnswer(f"{at.target} did not answer with a message of etcd")
    return reply


def _ask_status(seconds: float) -> Ask:
    return call(rpc.MaintenanceStub, "Status", rpc.StatusRequest(), seconds)


def _check_speaker(at: Endpoint, header: Any) -> None:
    """Raises Stranger for the reply of another member, or with a zero ID, which no member has."""
    for what, meant, found, cluster_id in (
        ("cluster", at.cluster_id, header.cluster_id, header.cluster_id or None),
        ("member", at.member_id, header.member_id, None),
    ):
        if not found or (meant is not None and meant != found):
            wanted = to_hex(meant) if meant is not None else "any"
            words = f"{at.target} answered as {what} {to_hex(found)}, expected {wanted}"
            raise Stranger(words, cluster_id)


def _meaning(at: Endpoint, error: Any) -> NoAnswer | Refused:
    """Decides whether etcd refused, or the outcome is unknown.

    `Unavailable` can mean both: a dead endpoint or a lost leader (the change may still happen), and
    the plain refusals of the health check and of learners. So can `Unknown`, which stands for every
    error that etcd's table of errors lacks.
    """
    words = str(error.details() or "")
    code = error.code()
    if is_denial(error):
        return Denied(words.removeprefix("etcdserver: ") or code.name)
    if code in _REFUSALS or any(phrase in words for phrase in _REFUSED_IN_WORDS):
        return Refused(words.removeprefix("etcdserver: ") or code.name)
    _, failed, why = words.partition(_NO_HANDSHAKE)
    if failed:
        return NoHandshake(f"{at.target}: {failed}{why[:200]}")
    if _ALERT in words:
        said = "ended the TLS connection, as with a certificate that it does not accept"
        return NoHandshake(f"{at.target} {said}")
    return NoAnswer(f"{at.target}: {code.name}: {words[:200]}")
