"""A member that takes calls and never answers."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from aetcd import rpc

from etcd_operator.etcd.api import Endpoint, NoAnswer
from etcd_operator.etcd.client import GrpcEtcd

FAR_TOO_LONG = 5.0


class Silent(grpc.GenericRpcHandler):
    def service(self, _details):
        async def reply(_request, _context):
            await asyncio.Event().wait()

        return grpc.unary_unary_rpc_method_handler(reply)


async def test_is_not_waited_for_longer_than_the_deadline():
    """F23: whoever waits for it occupies a worker."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Silent(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with asyncio.timeout(FAR_TOO_LONG):
            with pytest.raises(NoAnswer):
                await GrpcEtcd().status(Endpoint("127.0.0.1", 1, 2, port=port), 0.05)
    finally:
        await server.stop(None)


class Slow(grpc.GenericRpcHandler):
    """A member that reads a large database for its hash."""

    def __init__(self) -> None:
        self.waited_for: list[float] = []

    def service(self, _details):
        header = rpc.ResponseHeader(cluster_id=1, member_id=2)

        async def reply(_request, context):
            self.waited_for.append(context.time_remaining())
            return rpc.HashKVResponse(header=header, hash=7).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(reply)


async def test_the_data_of_large_databases_was_never_compared():
    """Each hash was given up after ten seconds, and all of it was read again for the next one."""
    server, slow = grpc.aio.server(), Slow()
    server.add_generic_rpc_handlers((slow,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        assert (await GrpcEtcd().hash_kv(Endpoint("127.0.0.1", 1, 2, port=port), 5)).value == 7
    finally:
        await server.stop(None)

    assert slow.waited_for[0] > 55
