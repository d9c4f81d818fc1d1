"""A member that takes calls and never answers."""

from __future__ import annotations

import asyncio

import grpc
import pytest

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
