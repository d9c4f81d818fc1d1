"""A learner that begins with a snapshot waits for the next log entry, whoever writes it.

This does not apply to 3.5, which serves after seven seconds.
"""

from __future__ import annotations

import asyncio

import pytest
from aetcd import rpc
from etcd_live import Cluster, Member, eventually
from minors import NEWEST, differing

from etcd_operator.etcd.api import Endpoint
from etcd_operator.etcd.changes import change
from etcd_operator.etcd.client import GrpcEtcd, plaintext
from etcd_operator.step_result import Done
from etcd_stateful.membership.steps import Leader, MemberAddLearner, MemberRemove

pytestmark = pytest.mark.integration

GAP = 5000
"""How far applied may lie behind committed before etcd refuses what it is asked for."""

ATTEMPTS = 5
SILENT_SECONDS = 9.0
"""Its first announcement is in the snapshot already, so it waits for that one for seven seconds."""


@differing("cluster", NEWEST, of=("3.6", "3.7"))
async def test_a_learner_in_an_idle_cluster_serves_once_alarms_are_requested(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()  # a learner that waits lets its clients wait
    cluster.begin(1, snapshot_count="100", unsafe_no_fsync="true")
    etcd = await cluster.ready()
    first = cluster.first[0]
    await write(first, entries=GAP + 1500)
    learner = await one_that_waits(cluster, etcd)

    assert await etcd.alarms(cluster.at(first)) == ()
    await eventually(lambda: is_learner(etcd, learner))


async def one_that_waits(cluster: Cluster, etcd: GrpcEtcd) -> Endpoint:
    """Where its announcement comes after the snapshot, that is the entry, and it serves at once."""
    for _ in range(ATTEMPTS):
        learner = await join(cluster, etcd)
        try:
            await eventually(lambda at=learner: is_learner(etcd, at), seconds=SILENT_SECONDS)
        except AssertionError:
            return learner
        assert learner.member_id is not None
        cluster.members[-1].kill()
        leaves = MemberRemove(asked(cluster), learner.member_id, "did not wait")
        assert isinstance(await change(etcd, leaves), Done)
    raise AssertionError(f"each of {ATTEMPTS} learners served by itself: is the fault mended?")


async def write(member: Member, entries: int) -> None:
    async with plaintext(Endpoint(member.host, port=member.client_port)) as channel:
        keys = rpc.KVStub(channel)
        for _ in range(entries // 100):
            puts = (keys.Put(rpc.PutRequest(key=b"%d" % n), timeout=10) for n in range(100))
            await asyncio.gather(*puts)


def asked(cluster: Cluster) -> Leader:
    first = cluster.first[0]
    return Leader(first.host, cluster.member_id(first), cluster.cluster_id)


async def join(cluster: Cluster, etcd: GrpcEtcd) -> Endpoint:
    first, new = cluster.first[0], cluster.new_member()
    step = MemberAddLearner(asked(cluster), new.peer_url, "grow")
    assert isinstance(await change(etcd, step), Done)
    listed = (await etcd.member_list(cluster.at(first))).members
    new.start(cluster.initial_cluster([first, new]), cluster.token, "existing")
    return cluster.at(new, next(one.member_id for one in listed if one.learner))


async def is_learner(etcd: GrpcEtcd, at: Endpoint) -> bool:
    return (await etcd.status(at)).learner
