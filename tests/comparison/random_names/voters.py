"""The operator's own etcd client, which makes requests as the coreos operator did.

It adds a member as a voter at once, which nobody should do since etcd has learners. Every call has
a deadline of five seconds, as in the coreos operator.
"""

from __future__ import annotations

from typing import Any, Final

from aetcd import rpc

from etcd_operator.etcd.api import Endpoint
from etcd_operator.etcd.client import GrpcEtcd
from etcd_stateful.observed.members import EtcdView, Member

CALL_SECONDS: Final = 5.0


class Voters(GrpcEtcd):
    async def member_list(self, at: Endpoint) -> EtcdView:
        request = rpc.MemberListRequest(linearizable=True)
        reply = await self._cluster(at, "MemberList", request)
        members = tuple(
            Member(one.ID, one.name, tuple(one.peerURLs), one.isLearner) for one in reply.members
        )
        return EtcdView(cluster_id=reply.header.cluster_id, members=members)

    async def member_add(self, at: Endpoint, peer_url: str) -> int:
        """Adds a voter, and returns the ID that etcd gave it."""
        request = rpc.MemberAddRequest(peerURLs=[peer_url], isLearner=False)
        return int((await self._cluster(at, "MemberAdd", request)).member.ID)

    async def member_remove(self, at: Endpoint, member_id: int) -> None:
        await self._cluster(at, "MemberRemove", rpc.MemberRemoveRequest(ID=member_id))

    async def _cluster(self, at: Endpoint, method: str, request: Any) -> Any:
        async with self._channel(at) as channel:
            ask = getattr(rpc.ClusterStub(channel), method)
            return await ask(request, timeout=CALL_SECONDS)
