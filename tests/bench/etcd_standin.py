"""A stand-in for etcd members that answers the operator's requests to a settled cluster.

It has no data and no raft, and is for measurements with more members than a machine can run. The
test tells it which members exist and run; leader and quorum follow from that.
tests/integration/etcd/test_etcd_standin.py compares it with real members. Requests that it does not
answer (changes, HashKV) are UNIMPLEMENTED, which the operator treats as no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from aetcd import rpc
from aetcd.rpc import rpc_pb2_grpc

from etcd_stateful import identity

TERM = 2
INDEX = 20
DB_SIZE = 20480
NO_LEADER = "etcdserver: no leader"
STORAGE_VERSION = b"\x5a"
"""Tag of field 11 of StatusResponse, which aetcd's stubs do not know yet."""


@dataclass
class StandIn:
    """One etcd cluster: peer URLs by member name, as in an `initial-cluster`."""

    peer_urls: Mapping[str, str]
    token: str
    version: str
    running: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.names = {
            identity.member_id([url], self.token): name for name, url in self.peer_urls.items()
        }
        self.cluster_id = identity.cluster_id(self.names)

    @property
    def leader(self) -> int:
        """ID of the leader, one of the running members; 0 if they are not a quorum."""
        return min(self.running) if 2 * len(self.running) > len(self.names) else 0

    @property
    def storage_version(self) -> str:
        """The storage version, which etcd reports from 3.6 on."""
        major, minor, _ = self.version.split(".")
        return f"{major}.{minor}.0" if (int(major), int(minor)) >= (3, 6) else ""


class Member(rpc_pb2_grpc.MaintenanceServicer, rpc_pb2_grpc.ClusterServicer):
    """The answers of one member. The methods have the names of etcd's API."""

    def __init__(self, cluster: StandIn, member_id: int) -> None:
        self._cluster = cluster
        self._member_id = member_id

    async def Status(self, _: Any, __: Any) -> Any:  # noqa: N802
        leader = self._cluster.leader
        reply = rpc.StatusResponse(
            header=self._header(),
            version=self._cluster.version,
            dbSize=DB_SIZE,
            dbSizeInUse=DB_SIZE,
            leader=leader,
            raftTerm=TERM,
            raftIndex=INDEX,
            raftAppliedIndex=INDEX,
            errors=[] if leader else [NO_LEADER],
        )
        if storage := self._cluster.storage_version.encode():
            reply.MergeFromString(STORAGE_VERSION + bytes([len(storage)]) + storage)
        return reply

    async def MemberList(self, _: Any, __: Any) -> Any:  # noqa: N802
        await self._quorum()
        members = [
            rpc.Member(ID=member_id, name=name, peerURLs=[self._cluster.peer_urls[name]])
            for member_id, name in sorted(self._cluster.names.items())
        ]
        return rpc.MemberListResponse(header=self._header(), members=members)

    async def Alarm(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.action != rpc.AlarmRequest.GET:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the stand-in raises no alarms")
        await self._quorum()
        return rpc.AlarmResponse(header=self._header())

    async def _quorum(self) -> None:
        """Hangs without a leader, as requests that need a quorum do, until the client gives up."""
        while not self._cluster.leader:
            await asyncio.sleep(0.1)

    def _header(self) -> Any:
        return rpc.ResponseHeader(
            cluster_id=self._cluster.cluster_id,
            member_id=self._member_id,
            revision=1,
            raft_term=TERM,
        )


async def serve(cluster: StandIn, member_id: int, address: str, port: int) -> grpc.aio.Server:
    """Runs the member at this address until the server is stopped."""
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    member = Member(cluster, member_id)
    rpc_pb2_grpc.add_MaintenanceServicer_to_server(member, server)
    rpc_pb2_grpc.add_ClusterServicer_to_server(member, server)
    server.add_insecure_port(f"{address}:{port}")
    await server.start()
    cluster.running.add(member_id)
    return server
