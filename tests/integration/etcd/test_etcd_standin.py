"""The stand-in of `make bench` answers as real members of every supported minor do."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from addresses import own_address
from etcd_live import eventually
from minors import NEWEST, OLDEST, differing

from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused
from etcd_operator.etcd.client import GrpcEtcd

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from etcd_standin import NO_LEADER, StandIn, serve

pytestmark = pytest.mark.integration


@pytest.fixture
async def standin(cluster):
    """Plays the very members of the real cluster, which has been begun; by real member's name."""
    cluster.begin(3)
    urls = {member.name: member.peer_url for member in cluster.first}
    played = StandIn(urls, cluster.token, cluster.binary.name.removeprefix("etcd-"))
    async with AsyncExitStack() as stack:
        servers, places = {}, {}
        for member in cluster.first:
            at = replace(cluster.at(member), address=own_address())
            member_id = cluster.member_id(member)
            servers[member.name] = await serve(played, member_id, at.address, at.port)
            stack.push_async_callback(servers[member.name].stop, None)
            places[member.name] = at
        yield Played(played, servers, places)


class Played:
    def __init__(self, cluster, servers, places):
        self.cluster = cluster
        self.servers = servers
        self.places = places

    def pairs(self, real):
        """Where to ask each real member, and where the one that plays it."""
        return [(real.at(member), self.places[member.name]) for member in real.first]

    async def kill(self, member, member_id):
        await self.servers[member.name].stop(None)
        self.cluster.running.discard(member_id)


async def answers(etcd: GrpcEtcd, at: Endpoint):
    """All that the operator asks of a member in its rounds."""
    return (
        comparable(await etcd.status(at)),
        await said(etcd.member_list(at)),
        await said(etcd.alarms(at)),
    )


async def said(question):
    try:
        return await question
    except (NoAnswer, Refused) as error:
        return type(error)


async def answer_alike(etcd, cluster, standin):
    """The real ones tell the format of their data only once they have agreed on it."""
    for real, played in standin.pairs(cluster):
        expected = await answers(etcd, played)

        async def is_the_same(real=real, expected=expected):
            return await answers(etcd, real) == expected

        await eventually(is_the_same)


def comparable(status):
    """What two clusters of the same members may differ in: only whether it is there counts."""
    return replace(
        status,
        leader_id=bool(status.leader_id),
        term=bool(status.term),
        applied_index=bool(status.applied_index),
        db_size=bool(status.db_size),
        db_size_in_use=bool(status.db_size_in_use),
    )


@differing("cluster", OLDEST, NEWEST)
async def test_the_standin_answers_as_each_real_member(cluster, standin):
    etcd = await cluster.ready()
    leaders = {(await etcd.status(played)).leader_id for played in standin.places.values()}
    assert len(leaders) == 1
    assert leaders < {at.member_id for at in standin.places.values()}
    await answer_alike(etcd, cluster, standin)


async def test_without_a_quorum_etcd_and_the_standin_list_nothing(cluster, standin, monkeypatch):
    etcd = await cluster.ready()
    # A quorum that is lost before the members have agreed on a version leaves them at their first.
    await answer_alike(etcd, cluster, standin)
    for member in cluster.first[1:]:
        member.kill()
        await standin.kill(member, cluster.member_id(member))
    real, played = standin.pairs(cluster)[0]

    async def has_lost_its_leader():
        return not (await etcd.status(real)).leader_id

    await eventually(has_lost_its_leader)
    monkeypatch.undo()
    expected = await answers(etcd, real)
    found = await answers(etcd, played)
    assert found[1:] == expected[1:]
    assert expected[1] is NoAnswer
    assert found[0].errors == expected[0].errors == (NO_LEADER,)
    assert found[0] == expected[0]
    gone = standin.pairs(cluster)[1]
    assert [await said(etcd.status(at)) for at in gone] == [NoAnswer, NoAnswer]


async def test_a_request_to_the_wrong_member_gets_no_answer_from_either(cluster, standin):
    etcd = await cluster.ready()
    for pair in standin.pairs(cluster):
        for wrong in ("cluster_id", "member_id"):
            meant = [replace(at, **{wrong: getattr(at, wrong) ^ 1}) for at in pair]
            found = [await said(etcd.status(at)) for at in meant]
            assert found[0] is found[1]
            assert issubclass(found[0], NoAnswer)
