"""The etcd side of a backup: which members answer, which one is chosen, and its snapshot.

Each endpoint has one connection, from the first question to the end: behind a Service, another
connection could lead to another member.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from aetcd import rpc

from etcd_operator.backup.channel import (
    NO_HANDSHAKE,
    NoChannel,
    asked,
    is_plaintext,
    open_channels,
    speaks_tls,
)
from etcd_operator.backup.idle_timeout import SILENT_SECONDS, WithIdleTimeout
from etcd_operator.backup.measuring import hashed, measure, patience
from etcd_operator.backup.read_ahead import read_ahead
from etcd_operator.etcd.denial import is_denial
from etcd_stateful.backup.choice import EndpointStatus, NoUsableMember, candidates
from etcd_stateful.backup.measurement import Measured
from etcd_stateful.backup.order import CLUSTER_FIELD, Order
from etcd_stateful.backup.outcome import Failed, Failure

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 4.0
CATCH_UP_SECONDS: Final = 15.0
MEASURING_TRIES: Final = 3
PIECE: Final = 2 * 1024 * 1024
"""etcd sends 32 KiB at a time; passing on fewer, larger pieces costs less."""


class Unusable(Failed):
    """No backup can be taken, from this member or from any."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member that has answered, with the connection that it answered on."""

    answer: EndpointStatus
    channel: Any


class Source:
    """The endpoints of an order. As an asynchronous context manager it closes its connections."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._channels: list[Any] = []

    async def __aenter__(self) -> Source:
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._channels:
            channel.close()

    async def members(self) -> list[Member]:
        """The members to try, best first; raises Unusable."""
        answers = await asyncio.gather(*(self._ask(one) for one in self._order.endpoints))
        found = [one for one in answers if isinstance(one, Member)]
        failures = [one for one in answers if isinstance(one, Failure)]
        where = self._order.endpoints_field
        if not found:
            raise Unusable(_worst(where, failures, self._hint))
        for failure in failures:
            log.warning("no snapshot is taken from an endpoint: %s", failure.message)
        try:
            best = candidates((one.answer for one in found), self._order.cluster_id)
        except NoUsableMember as error:
            raise Unusable(Failure("EtcdRefused", f"{where}: {error}")) from error
        by_endpoint = {one.answer.endpoint: one for one in found}
        return [by_endpoint[answer.endpoint] for answer in best]

    @property
    def _hint(self) -> str:
        """The most frequent cause when members close the connection, if it fits the order."""
        order = self._order
        secured = any(endpoint.startswith("https://") for endpoint in order.endpoints)
        if order.tls or not secured or order.endpoints_field == CLUSTER_FIELD:
            return ""
        return ". If it asks for a certificate, name the Secret with one in spec.clientTLSSecret"

    async def _ask(self, endpoint: str) -> Member | Failure:
        failed: Any = None
        try:
            for channel in open_channels(self._order, endpoint):
                self._channels.append(channel)
                try:
                    return Member(await _status(endpoint, channel), channel)
                except rpc.RpcError as error:
                    failed = error
                if NO_HANDSHAKE not in str(failed.details()):
                    break
        except NoChannel as error:
            raise Unusable(error.failure) from error
        if is_plaintext(self._order, endpoint) and await speaks_tls(endpoint):
            return self._needs_tls(endpoint)
        return self._failure(endpoint, failed)

    def _needs_tls(self, endpoint: str) -> Failure:
        order, https = self._order, f"https://{endpoint.removeprefix('http://')}"
        certificate = "name a Secret with a certificate for it"
        if order.endpoints_field == CLUSTER_FIELD:
            words = f"{CLUSTER_FIELD}: its members speak TLS, and it is known as a cluster in "
            words += f"plaintext: give spec.etcdEndpoints with {https} instead"
            also = f", and spec.clientTLSSecret must {certificate}"
        else:
            words = f"{order.endpoints_field}: {endpoint} speaks TLS: it must begin with https://"
            also = ". Unless it is a Service or a pod of an EtcdCluster of this namespace, "
            also += f"spec.clientTLSSecret must also {certificate}"
        return Failure("EtcdRefused", words if order.tls else words + also)

    async def caught_up(self, member: Member) -> Member:
        """Waits until the member has every write that was acknowledged so far; raises Unusable.

        It reads a key, because etcd 3.4 never asks the quorum about the member list.
        """
        request = rpc.RangeRequest(key=b"\0", count_only=True)
        try:
            read = rpc.KVStub(member.channel).Range
            await asked(read, request, CATCH_UP_SECONDS, "caught up with the quorum")
            answer = await _status(member.answer.endpoint, member.channel)
        except rpc.RpcError as error:
            raise self._unusable(member, error) from error
        self._check_same(member, answer)
        return replace(member, answer=answer)

    def _check_same(self, member: Member, answer: EndpointStatus) -> None:
        if answer.member_id != member.answer.member_id:
            words = f"{self._order.endpoints_field}: {answer.endpoint} changed the member behind it"
            raise Unusable(Failure("EtcdUnreachable", words))

    async def measured(self, member: Member) -> tuple[Member, Measured]:
        """Counts and hashes the member's keys; raises Unusable. If its revision is compacted before
        that is done, a newer one is measured, which the returned member has."""
        for _ in range(MEASURING_TRIES):
            try:
                found = await measure(
                    member.channel, member.answer.revision, self._patience(member)
                )
            except rpc.RpcError as error:
                raise self._unusable(member, error) from error
            if found.whole:
                return member, found
            member = await self.caught_up(member)
        words = f"{self._order.endpoints_field}: {member.answer.endpoint} is compacted faster than "
        words += "its keys are counted: let it keep some revisions, or set spec.verify to Hash"
        raise Unusable(Failure("EtcdRefused", words))

    async def measure_again(self, member: Member, before: Measured) -> Measured:
        """Adds the hash as it is after the snapshot: a compaction in between changes it."""
        try:
            found = await hashed(member.channel, member.answer.revision, self._patience(member))
        except rpc.RpcError as error:
            log.warning(
                "no hash could be read after the snapshot, only before it: %s", _words(error)
            )
            return before
        hashes = (*before.hashes, *((found,) if found else ()))
        return replace(before, hashes=tuple(dict.fromkeys(hashes)))

    def _patience(self, member: Member) -> float:
        return patience(member.answer.db_size, self._order.timeout)

    async def snapshot(self, member: Member) -> AsyncGenerator[bytes, None]:
        """Yields the file that `etcdctl snapshot save` would write; raises Unusable.

        A snapshot that ends early is an error: etcd says with each reply how much is left.
        """
        call = rpc.MaintenanceStub(member.channel).Snapshot(rpc.SnapshotRequest())
        replies = WithIdleTimeout(call, SILENT_SECONDS)
        received = read_ahead(self._received(member, replies), replies.end)
        async with contextlib.aclosing(received) as pieces:
            if (first := await anext(pieces, None)) is not None:
                await self._check_sender(member)
                yield first
            async for piece in pieces:
                yield piece

    async def _check_sender(self, member: Member) -> None:
        """Raises Unusable if another member may be sending the snapshot, as it may lack writes that
        this one had. gRPC reconnects when a connection breaks, behind a Service to any member."""
        try:
            answer = await _status(member.answer.endpoint, member.channel)
        except rpc.RpcError as error:
            log.info("cannot make sure which member sends the snapshot: %s", _words(error))
            return
        self._check_same(member, answer)

    def _received(self, member: Member, replies: WithIdleTimeout) -> Iterator[bytes]:
        left, size, passed = 1, 0, 0
        blobs: list[bytes] = []
        try:
            for reply in replies:
                left = reply.remaining_bytes
                blobs.append(reply.blob)
                size += len(blobs[-1])
                passed += len(blobs[-1])
                if size >= PIECE:
                    blobs, size = [b"".join(blobs)], 0
                    yield blobs.pop()
        except rpc.RpcError as error:
            raise self._broken(member, passed, replies.is_silent, error) from error
        if left:
            words = f"{member.answer.endpoint} ended its snapshot {left} bytes early"
            raise Unusable(Failure("SnapshotDamaged", words))
        if blobs:
            yield b"".join(blobs)

    def _broken(self, member: Member, passed: int, silent: bool, error: Any) -> Unusable:
        """The error of a snapshot that failed, perhaps in the middle."""
        failure = self._failure(member.answer.endpoint, error)
        if failure.reason != "EtcdUnreachable" or not (passed or silent):
            return Unusable(failure)
        where = f"{self._order.endpoints_field}: {member.answer.endpoint}"
        why = f"sent nothing more for {SILENT_SECONDS:g} s" if silent else f"ended: {_words(error)}"
        return Unusable(
            Failure(failure.reason, f"{where}: its snapshot {why}, after {passed} bytes")
        )

    def _unusable(self, member: Member, error: Any) -> Unusable:
        return Unusable(self._failure(member.answer.endpoint, error))

    def _failure(self, endpoint: str, error: Any) -> Failure:
        where = self._order.endpoints_field
        if is_denial(error):
            return Failure(
                "EtcdRefused",
                f"{where}: {endpoint} asks for a user with the role root: name a Secret with "
                f"its certificate in spec.clientTLSSecret ({_words(error)})",
            )
        return Failure("EtcdUnreachable", f"{where}: {endpoint}: {_words(error)}")


def _worst(where: str, failures: list[Failure], hint: str) -> Failure:
    """The failure to report if no endpoint can be used: a refusal goes before missing answers."""
    refused = [one for one in failures if one.reason == "EtcdRefused"]
    if refused:
        return refused[0]
    told = "; ".join(one.message.removeprefix(f"{where}: ") for one in failures)
    return Failure("EtcdUnreachable", f"{where}: no endpoint answers: {told}{hint}")


async def _status(endpoint: str, channel: Any) -> EndpointStatus:
    status = rpc.MaintenanceStub(channel).Status
    reply = await asked(status, rpc.StatusRequest(), ASK_SECONDS, "reported its revision")
    return EndpointStatus(
        endpoint=endpoint,
        cluster_id=reply.header.cluster_id,
        member_id=reply.header.member_id,
        leader_id=reply.leader,
        learner=reply.isLearner,
        revision=reply.header.revision,
        version=reply.version,
        db_size=reply.dbSize,
        errors=tuple(reply.errors),
    )


def _words(error: Any) -> str:
    words = " ".join(str(error.details() or "").split())[:200]
    return f"{error.code().name}: {words}" if words else str(error.code().name)
