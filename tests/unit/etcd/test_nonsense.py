"""A server at a member's address that speaks gRPC, but answers with garbage."""

from __future__ import annotations

import logging

import grpc
import pytest
from aetcd import rpc

from etcd_operator.etcd.api import Endpoint, NoAnswer
from etcd_operator.etcd.client import GrpcEtcd

HEADER = rpc.ResponseHeader(cluster_id=1, member_id=2)


class Somebody(grpc.GenericRpcHandler):
    """Methods with `genuine` in their name get the right IDs as an answer, all others garbage."""

    def __init__(self, genuine: str) -> None:
        self._genuine = genuine

    def service(self, details):
        status = rpc.StatusResponse(header=HEADER).SerializeToString()

        async def reply(_request, _context):
            return status if self._genuine in details.method else b"\xff\xff\xff\xff"

        return grpc.unary_unary_rpc_method_handler(reply)


@pytest.fixture
async def somebody():
    servers = []

    async def begin(genuine: str) -> Endpoint:
        servers.append(server := grpc.aio.server())
        server.add_generic_rpc_handlers((Somebody(genuine),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return Endpoint("127.0.0.1", 1, 2, port=port)

    yield begin
    for server in servers:
        await server.stop(None)


async def test_nonsense_at_a_members_address_was_an_internal_error_with_a_traceback(
    somebody, caplog
):
    at, etcd = await somebody("/Nothing"), GrpcEtcd()
    for asked in (etcd.status(at), etcd.member_list(at), etcd.member_promote(at, 3)):
        with pytest.raises(NoAnswer, match="did not answer with a message of etcd"):
            await asked

    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


async def test_a_change_that_is_answered_with_nonsense_may_have_happened(somebody):
    at = await somebody("/Status")

    with pytest.raises(NoAnswer, match="did not answer with a message of etcd"):
        await GrpcEtcd().member_add_learner(at, "http://a-3:2380")
