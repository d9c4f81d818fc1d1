"""etcd issue 14523: a peer that is back stays inactive for a member whose message to it came late.

This happens when a pod comes back at another address: a message to the old address fails when the
new one is connected already, and nothing ever makes that peer active again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.request import urlopen

import pytest
from addresses import own_address
from etcd_live import PATIENCE, Cluster, Member, eventually
from gate import PORT, Gate

from etcd_operator.etcd.changes import CUT_OFF, change
from etcd_operator.etcd.client import GrpcEtcd
from etcd_operator.step_result import Declined, Done
from etcd_stateful.membership.steps import EtcdChange, Leader, MemberAddLearner, MemberRemove, Voter

pytestmark = pytest.mark.integration

ATTEMPTS = 5
CONNECTED_SECONDS = 2.0
"""In the first attempt; a busy machine gets more in each that follows."""

ACTIVE = "etcd_network_active_peers{"


@pytest.fixture
async def gates(cluster: Cluster) -> AsyncIterator[dict[str, Gate]]:
    """In front of each of three members, by its name."""
    found = {}
    cluster.first = [cluster.new_member() for _ in range(3)]
    for member in cluster.first:
        behind = own_address()
        gate = found[member.name] = Gate(member.host, behind)
        await gate.open()
        member.flags = {"listen-peer-urls": f"http://{behind}:{PORT}"}
        start(cluster, member)
    yield found
    for member in cluster.first:
        member.kill()
        await found[member.name].close()


@pytest.mark.timeout(240)
async def test_a_leader_that_believes_it_is_cut_off_does_not_block_changes(
    cluster: Cluster, gates: dict[str, Gate]
) -> None:
    etcd = await cluster.ready()
    leads, back, other = await one_believes_another_lost(cluster, etcd, gates)
    alone = Leader(*whom(cluster, leads))
    asked = replace(alone, others=(Voter(*whom(cluster, back)), Voter(*whom(cluster, other))))

    await eventually(lambda: is_done(etcd, MemberAddLearner(asked, "http://127.0.0.1:1", "grow")))
    listed = (await etcd.member_list(cluster.at(leads))).members
    learner = next(one.member_id for one in listed if one.learner)
    await eventually(lambda: is_done(etcd, MemberRemove(alone, learner, "is lost")))

    leaves = cluster.member_id(other)
    for refused in (
        MemberAddLearner(alone, "http://127.0.0.1:2", "grow"),
        MemberRemove(alone, leaves, "shrink"),
    ):
        assert await change(etcd, refused) == Declined(CUT_OFF)
    assert isinstance(await change(etcd, MemberRemove(asked, leaves, "shrink")), Done)


async def is_done(etcd: GrpcEtcd, step: EtcdChange) -> bool:
    """The others count whom they have been connected to for five seconds."""
    return isinstance(await change(etcd, step), Done)


async def one_believes_another_lost(
    cluster: Cluster, etcd: GrpcEtcd, gates: dict[str, Gate]
) -> tuple[Member, Member, Member]:
    """The leader, whom it believes lost, and the third. All streams must be there again before the
    message fails, which only their silence tells; and a busy machine elects others meanwhile."""
    for attempt in range(1, ATTEMPTS + 1):
        leads = await cluster.leader(etcd)
        back, other = (member for member in cluster.first if member is not leads)
        gate = gates[back.name]
        gate.keep_messages()
        back.kill()
        await eventually(lambda gate=gate: asyncio.sleep(0, gate.keeps_any))
        start(cluster, back)
        await asyncio.sleep(attempt * CONNECTED_SECONDS)
        gate.drop_messages()
        await asyncio.sleep(attempt * CONNECTED_SECONDS)
        if await asyncio.to_thread(believes_lost, leads, cluster.member_id(back)):
            return leads, back, other
    raise AssertionError(f"in {ATTEMPTS} attempts no leader has lost sight of its peer")


def believes_lost(leads: Member, peer: int) -> bool:
    with urlopen(f"http://{leads.host}:{leads.client_port}/metrics", timeout=PATIENCE) as reply:
        lines = reply.read().decode().splitlines()
    about = f'Remote="{peer:x}"'
    return any(one.startswith(ACTIVE) and about in one and one.endswith(" 0") for one in lines)


def start(cluster: Cluster, member: Member) -> None:
    member.start(cluster.initial_cluster(cluster.first), cluster.token, "new")


def whom(cluster: Cluster, member: Member) -> tuple[str, int, int]:
    return member.host, cluster.member_id(member), cluster.cluster_id
