"""The etcd client against real members of every supported minor."""

from __future__ import annotations

import asyncio
import os
import socket
import time

import pytest
from aetcd import rpc
from etcd_live import eventually, raise_alarm
from minors import NEWEST, OLDEST, differing

from etcd_operator.etcd import client
from etcd_operator.etcd.api import Endpoint, NoAnswer, Refused, Stranger
from etcd_operator.etcd.client import GrpcEtcd
from etcd_stateful.observed.members import Alarm

pytestmark = pytest.mark.integration

A_BREATH = 5.0
"""What two busy cores may add to a deadline; etcd's own are longer than ours by more."""

LONG = 30.0


@differing("cluster", OLDEST, NEWEST)
async def test_status_and_list_are_those_of_the_predicted_members(cluster):
    cluster.begin(3)
    etcd = await cluster.ready()

    statuses = [await etcd.status(cluster.at(member)) for member in cluster.first]
    view = await etcd.member_list(cluster.at(cluster.first[1]))

    predicted = {cluster.member_id(member): member.name for member in cluster.first}
    assert view.cluster_id == cluster.cluster_id
    assert {member.member_id: member.name for member in view.members} == predicted
    assert {member.peer_urls for member in view.members} == {
        (member.peer_url,) for member in cluster.first
    }
    assert [status.member_id for status in statuses] == list(predicted)
    assert {status.cluster_id for status in statuses} == {cluster.cluster_id}
    assert all(cluster.binary.name == f"etcd-{status.version}" for status in statuses)
    assert len({status.leader_id for status in statuses}) == 1
    assert all(status.applied_index > 0 and status.db_size > 0 for status in statuses)
    assert not any(status.learner or status.errors for status in statuses)


async def test_a_reply_from_another_cluster_or_member_is_rejected(cluster):
    cluster.begin(1)
    etcd = await cluster.ready()
    member = cluster.first[0]

    with pytest.raises(Stranger, match="as cluster") as raised:
        await etcd.status(cluster.at(member, cluster_id=cluster.cluster_id ^ 1))
    assert raised.value.cluster_id == cluster.cluster_id
    with pytest.raises(Stranger, match="as cluster"):
        await etcd.member_list(cluster.at(member, cluster_id=cluster.cluster_id ^ 1))
    with pytest.raises(Stranger, match="as member") as raised:
        await etcd.status(cluster.at(member, member_id=cluster.member_id(member) ^ 1))
    assert raised.value.cluster_id is None
    assert issubclass(Stranger, NoAnswer)


async def test_a_change_is_never_sent_to_another_member(cluster):
    cluster.begin(1)
    etcd = await cluster.ready()
    member = cluster.first[0]
    stranger = cluster.at(member, cluster_id=cluster.cluster_id ^ 1)

    with pytest.raises(Stranger):
        await etcd.member_add_learner(stranger, "http://127.0.0.1:1")
    assert len((await etcd.member_list(cluster.at(member))).members) == 1


async def test_without_a_quorum_the_list_is_unknown_and_the_status_still_answers(
    cluster, monkeypatch
):
    """The teeth of `linearizable`: a serializable list would be answered from memory."""
    cluster.begin(3)
    etcd = await cluster.ready()
    for member in cluster.first[1:]:
        member.kill()

    monkeypatch.undo()
    began = time.monotonic()
    with pytest.raises(NoAnswer):
        await etcd.member_list(cluster.at(cluster.first[0]))
    assert time.monotonic() - began < client.LIST_SECONDS + A_BREATH
    status = await etcd.status(cluster.at(cluster.first[0]), LONG)
    assert status.member_id == cluster.member_id(cluster.first[0])


async def test_a_learner_is_added_promoted_made_leader_and_removed(cluster):
    cluster.begin(1)
    etcd = await cluster.ready()
    old = cluster.first[0]
    new = cluster.new_member()

    member_id = await etcd.member_add_learner(cluster.at(old), new.peer_url)
    view = await etcd.member_list(cluster.at(old))
    assert [one.member_id for one in view.members if one.learner] == [member_id]
    with pytest.raises(Refused, match="in sync with leader"):
        await etcd.member_promote(cluster.at(old), member_id)
    with pytest.raises(Refused, match="too many learner"):
        await etcd.member_add_learner(cluster.at(old), "http://127.0.0.1:1")

    new.start(cluster.initial_cluster([old, new]), cluster.token, "existing")
    await _until_learner(etcd, cluster.at(new, member_id))
    with pytest.raises(Refused, match="not supported for learner"):
        await etcd.member_list(cluster.at(new, member_id))
    await _until_allowed(lambda: etcd.member_promote(cluster.at(old), member_id))
    assert not any(one.learner for one in (await etcd.member_list(cluster.at(old))).members)

    await _until_allowed(lambda: etcd.move_leader(cluster.at(old), member_id))
    assert (await etcd.status(cluster.at(new, member_id))).leader_id == member_id
    await _until_allowed(
        lambda: etcd.member_remove(cluster.at(new, member_id), cluster.member_id(old))
    )
    view = await etcd.member_list(cluster.at(new, member_id))
    assert [one.member_id for one in view.members] == [member_id]
    assert view.cluster_id == cluster.cluster_id


async def test_a_refusal_is_distinguished_from_silence(cluster):
    cluster.begin(1)
    etcd = await cluster.ready()
    at = cluster.at(cluster.first[0])

    with pytest.raises(Refused, match="member not found"):
        await etcd.member_remove(at, 12345)
    with pytest.raises(Refused, match="Peer URLs already exists"):
        await etcd.member_add_learner(at, cluster.first[0].peer_url)
    with pytest.raises(Refused):
        await etcd.move_leader(at, 12345)


async def test_alarms_are_read(cluster):
    cluster.begin(1)
    etcd = await cluster.ready()
    at, member_id = cluster.at(cluster.first[0]), cluster.member_id(cluster.first[0])
    assert await etcd.alarms(at) == ()

    await raise_alarm(cluster.first[0], rpc.NOSPACE, member_id)
    assert await etcd.alarms(at) == (Alarm("NOSPACE", member_id),)
    assert (await etcd.status(at)).errors


async def test_many_requests_leave_no_connection_open(cluster):
    """A channel per call: neither descriptors nor tasks may add up."""
    cluster.begin(1)
    etcd = await cluster.ready()
    at = cluster.at(cluster.first[0])
    await asyncio.gather(*(etcd.status(at) for _ in range(40)))
    await asyncio.sleep(0.3)
    before, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())

    for _ in range(5):
        await asyncio.gather(*(etcd.status(at) for _ in range(40)))

    async def nothing_more_is_open() -> bool:
        files, now = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        return files <= before + 2 and now <= tasks

    await eventually(nothing_more_is_open, LONG)


async def test_an_ipv6_member_answers(cluster):
    if not _has_ipv6():
        pytest.skip("no IPv6 on loopback here")
    cluster.begin(1, host="::1")
    etcd = await cluster.ready()
    status = await etcd.status(cluster.at(cluster.first[0]))
    assert status.member_id == cluster.member_id(cluster.first[0])


async def test_a_refused_connection_is_no_answer_at_once():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        began = time.monotonic()
        with pytest.raises(NoAnswer):
            await GrpcEtcd().status(Endpoint("127.0.0.1", 1, 1, port=probe.getsockname()[1]), LONG)
    assert time.monotonic() - began < LONG


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_silent_server_is_no_answer_within_the_deadline(accepts):
    """A frozen process: the kernel takes the connection, nobody speaks."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5 if accepts else 0)
        at = Endpoint("127.0.0.1", 1, 1, port=listener.getsockname()[1])
        began = time.monotonic()
        with pytest.raises(NoAnswer):
            await GrpcEtcd().status(at)
        with pytest.raises(NoAnswer):
            await GrpcEtcd().member_remove(at, 1)
        assert time.monotonic() - began < LONG, "without a deadline it waits for ever"


async def test_a_server_of_another_protocol_is_no_answer():
    async def shout(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(NoAnswer):
        await GrpcEtcd().status(Endpoint("127.0.0.1", 1, 1, port=port))
    server.close()


async def test_a_restarted_endpoint_is_reached_without_a_back_off(cluster):
    """gRPC backs off per subchannel; with shared ones a restarted member would be unheard."""
    cluster.begin(1)
    etcd = await cluster.ready()
    member = cluster.first[0]
    member.kill()
    for _ in range(5):
        with pytest.raises(NoAnswer):
            await etcd.status(cluster.at(member))
    member.start(cluster.initial_cluster([member]), cluster.token, "existing")
    began = time.monotonic()
    while True:
        try:
            await etcd.status(cluster.at(member))
            break
        except NoAnswer:
            assert time.monotonic() - began < LONG
            await asyncio.sleep(0.05)


async def _until_learner(etcd, at):
    began = time.monotonic()
    while True:
        try:
            if (await etcd.status(at)).learner:
                return
        except NoAnswer:
            pass
        assert time.monotonic() - began < LONG
        await asyncio.sleep(0.05)


async def _until_allowed(change):
    """etcd refuses changes for five seconds after the last one: a wait, and said as one."""
    began = time.monotonic()
    while True:
        try:
            return await change()
        except Refused:
            assert time.monotonic() - began < LONG
            await asyncio.sleep(0.1)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
