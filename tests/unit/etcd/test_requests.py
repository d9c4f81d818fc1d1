"""What a member is asked for, what it is not, and what its refusals mean. A server takes all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from aetcd import rpc

from etcd_operator.etcd.api import (
    Denied,
    Endpoint,
    NoAnswer,
    NoHandshake,
    Refused,
    Stranger,
)
from etcd_operator.etcd.client import GrpcEtcd
from etcd_stateful.observed.members import Alarm

CODES = grpc.StatusCode


class Member(grpc.GenericRpcHandler):
    """Answers every call with its IDs, which are in the first field of every response."""

    def __init__(self) -> None:
        self.header = rpc.ResponseHeader(cluster_id=1, member_id=2)
        self.error: tuple[grpc.StatusCode, str] | None = None
        self.asked: dict[str, bytes] = {}
        self.port = 0

    def service(self, details):
        name = details.method.rpartition("/")[2]

        async def reply(request, context):
            self.asked[name] = request
            if self.error and name != "Status":
                await context.abort(*self.error)
            return rpc.StatusResponse(header=self.header).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(reply)

    def at(self, cluster_id: int | None = 1, member_id: int | None = 2) -> Endpoint:
        return Endpoint("127.0.0.1", cluster_id, member_id, port=self.port)


@pytest.fixture
async def member() -> AsyncIterator[Member]:
    made, server = Member(), grpc.aio.server()
    server.add_generic_rpc_handlers((made,))
    made.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield made
    await server.stop(None)


CHANGES: dict[str, Callable[[GrpcEtcd, Endpoint], Awaitable[object]]] = {
    "MemberAdd": lambda etcd, at: etcd.member_add_learner(at, "http://a-3:2380"),
    "MemberUpdate": lambda etcd, at: etcd.member_update(at, 3, "https://a-3:2380"),
    "MemberPromote": lambda etcd, at: etcd.member_promote(at, 3),
    "MemberRemove": lambda etcd, at: etcd.member_remove(at, 3),
    "MoveLeader": lambda etcd, at: etcd.move_leader(at, 3),
    "Alarm": lambda etcd, at: etcd.disarm(at, Alarm("CORRUPT", 3)),
    "Defragment": lambda etcd, at: etcd.defragment(at),
    "Compact": lambda etcd, at: etcd.recount(at),
    "Downgrade": lambda etcd, at: etcd.enable_downgrade(at, "3.6"),
    "Downgrade, cancelled": lambda etcd, at: etcd.cancel_downgrade(at),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_sent_to_the_member_that_was_meant(member: Member, name: str) -> None:
    await CHANGES[name](GrpcEtcd(), member.at())

    assert list(member.asked) == ["Status", name.partition(",")[0]]


@pytest.mark.parametrize("other", [{"cluster_id": 9}, {"member_id": 9}], ids=str)
@pytest.mark.parametrize("name", CHANGES)
async def test_no_change_is_sent_to_another_member(
    member: Member, name: str, other: dict[str, int]
) -> None:
    """An address is that of another pod by now. A look at the answer would come too late."""
    with pytest.raises(Stranger):
        await CHANGES[name](GrpcEtcd(), member.at(**other))

    assert list(member.asked) == ["Status"]


async def test_who_has_no_ids_is_no_member(member: Member) -> None:
    member.header = rpc.ResponseHeader()

    with pytest.raises(Stranger, match="answered as cluster"):
        await GrpcEtcd().status(member.at(None, None))


async def test_the_member_list_is_what_a_quorum_agrees_on(member: Member) -> None:
    """I5, I6: a member that is cut off still has a list, from its own memory."""
    await GrpcEtcd().member_list(member.at())

    assert rpc.MemberListRequest.FromString(member.asked["MemberList"]).linearizable


async def test_members_are_added_as_learners(member: Member) -> None:
    await GrpcEtcd().member_add_learner(member.at(), "http://a-3:2380", "https://a-3:2380")

    asked = rpc.MemberAddRequest.FromString(member.asked["MemberAdd"])
    assert asked.isLearner
    assert list(asked.peerURLs) == ["http://a-3:2380", "https://a-3:2380"]


async def test_the_cause_of_a_failed_handshake_was_cut_off(member: Member) -> None:
    words = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:2379: Tls "
        "handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000012e:SSL routines:"
        "OPENSSL_internal:KEY_USAGE_BIT_INCORRECT: Invalid certificate verification context: OK"
    )
    member.error = (CODES.UNAVAILABLE, words)

    with pytest.raises(NoHandshake, match=r"Tls handshake failed .*KEY_USAGE_BIT_INCORRECT"):
        await GrpcEtcd().member_remove(member.at(), 3)


async def test_that_a_member_refuses_the_operators_certificate_was_not_said(member: Member) -> None:
    """With TLS 1.3 its alert comes when the handshake is over for the operator."""
    member.error = (CODES.UNAVAILABLE, "ipv4:10.0.0.1:2379: Unwrap failed (TSI_DATA_CORRUPTED)")

    with pytest.raises(NoHandshake, match="as with a certificate that it does not accept"):
        await GrpcEtcd().member_remove(member.at(), 3)


@pytest.mark.parametrize(
    ("code", "words", "meaning"),
    [
        (CODES.FAILED_PRECONDITION, "etcdserver: too many learner members in cluster", Refused),
        (CODES.NOT_FOUND, "etcdserver: member not found", Refused),
        (CODES.UNAVAILABLE, "etcdserver: unhealthy cluster", Refused),
        (CODES.UNAVAILABLE, "etcdserver: leader changed", NoAnswer),
        (CODES.UNAVAILABLE, "etcdserver: request timed out", NoAnswer),
        (CODES.UNKNOWN, "something that etcd has no code for", NoAnswer),
        (CODES.DEADLINE_EXCEEDED, "context deadline exceeded", NoAnswer),
        (CODES.PERMISSION_DENIED, "etcdserver: permission denied", Denied),
    ],
    ids=str,
)
async def test_only_what_etcd_itself_refused_has_not_happened(
    member: Member, code: grpc.StatusCode, words: str, meaning: type[Exception]
) -> None:
    member.error = (code, words)

    with pytest.raises(meaning) as raised:
        await GrpcEtcd().member_remove(member.at(), 3)

    assert type(raised.value) is meaning
