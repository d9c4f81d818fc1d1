"""Free space in members' files, and defragmentation, on real etcd."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
import minors
import pytest
from aetcd import rpc
from etcd_live import Cluster, Member, compact, eventually, put, put_all, raise_alarm

from etcd_operator.etcd.api import Endpoint, NoAnswer
from etcd_operator.etcd.changes import change
from etcd_operator.etcd.client import GrpcEtcd, plaintext
from etcd_operator.step_result import Done, Uncertain
from etcd_stateful.membership.steps import Defragment, DisarmAlarm, Leader, Voter
from etcd_stateful.membership.upkeep import space
from etcd_stateful.membership.upkeep.space import MIB
from etcd_stateful.observed.members import Alarm, MemberStatus

pytestmark = pytest.mark.integration

KEYS = 40
KEPT = 10
LARGE = 256 * 1024


async def overwrite(member: Member, times: int) -> int:
    """Most of what is written is history in the end; the last revision."""
    turns = ((turn, number) for turn in range(times) for number in range(KEYS))
    return await put_all(member, ((b"key-%d" % n, bytes([turn]) * LARGE) for turn, n in turns))


async def filled(cluster: Cluster) -> tuple[GrpcEtcd, Member, MemberStatus]:
    """A cluster of one that refuses writes for want of space."""
    cluster.begin(1, quota_backend_bytes=str(32 * MIB))
    etcd, member = await cluster.ready(), cluster.first[0]
    with pytest.raises(rpc.AioRpcError, match="database space exceeded"):
        await overwrite(member, 10)
    return etcd, member, await status(cluster, etcd)


async def status(cluster: Cluster, etcd: GrpcEtcd) -> MemberStatus:
    return await etcd.status(cluster.at(cluster.first[0]))


async def freed(cluster: Cluster, etcd: GrpcEtcd) -> MemberStatus:
    """Once the pages of what was compacted count as free: bbolt takes further commits for that, and
    a deletion is one also at the quota."""
    found, rest = list[MemberStatus](), iter(range(KEPT, KEYS))

    async def much_is_free() -> bool:
        await delete(cluster.first[0], b"key-%d" % next(rest))
        await asyncio.sleep(0.2)  # etcd commits after 100 ms
        found[:] = [await status(cluster, etcd)]
        return found[0].db_size > 2 * found[0].db_size_in_use

    await eventually(much_is_free)
    return found[0]


def step(said: MemberStatus, member: Member) -> Defragment:
    asked = Voter(member.host, said.member_id, said.cluster_id)
    return Defragment(asked, member.name, said.db_size_in_use, "its file is mostly free")


async def delete(member: Member, key: bytes) -> None:
    async with plaintext(Endpoint(member.host, port=member.client_port)) as channel:
        await rpc.KVStub(channel).DeleteRange(rpc.DeleteRangeRequest(key=key), timeout=5)


async def value(member: Member, key: bytes) -> bytes:
    async with plaintext(Endpoint(member.host, port=member.client_port)) as channel:
        reply = await rpc.KVStub(channel).Range(rpc.RangeRequest(key=key), timeout=5)
        return bytes(reply.kvs[0].value)


async def test_defragmentation_shrinks_a_file_to_what_is_in_use(cluster):
    cluster.begin(1)
    etcd, member = await cluster.ready(), cluster.first[0]
    await compact(member, await overwrite(member, 4))
    before = await freed(cluster, etcd)

    assert await change(etcd, step(before, member)) == Done(f"defragmented {member.name}")

    after = await status(cluster, etcd)
    assert after.db_size < before.db_size / 2
    assert after.db_size_in_use > space.WASTED * after.db_size
    assert await value(member, b"key-7") == bytes([3]) * LARGE


async def test_a_full_quota_ends_once_space_is_reclaimed(cluster):
    etcd, member, full = await filled(cluster)
    assert any("NOSPACE" in error for error in full.errors)
    alarms = await etcd.alarms(cluster.at(member))
    assert alarms == (Alarm("NOSPACE", full.member_id),)

    await compact(member, full.revision)  # which etcd still takes
    free = await freed(cluster, etcd)
    assert isinstance(await change(etcd, step(free, member)), Done)
    assert (await status(cluster, etcd)).db_size < space.ROOM * 32 * MIB
    with pytest.raises(rpc.AioRpcError, match="database space exceeded"):
        await put(member, b"a", b"b")
    leader = Leader(member.host, full.member_id, full.cluster_id)
    assert isinstance(await change(etcd, DisarmAlarm(leader, alarms[0], "x")), Done)

    await put(member, b"a", b"b")
    assert await etcd.alarms(cluster.at(member)) == ()


async def test_a_member_that_comes_back_full_raises_the_alarm_itself(cluster):
    """At a write. So the alarm need not stay for the sake of one that is away. Here its quota is
    the lower one."""
    cluster.begin(3)
    etcd = await cluster.ready()
    serves = await cluster.leader(etcd)
    away = next(one for one in cluster.first if one is not serves)
    away.kill()
    await overwrite(serves, 4)
    assert await etcd.alarms(cluster.at(serves)) == ()

    away.flags = {"quota-backend-bytes": str(16 * MIB)}
    away.start(cluster.initial_cluster(cluster.first), cluster.token, "existing")

    async def is_raised() -> bool:
        with contextlib.suppress(rpc.AioRpcError):
            await put(serves, b"a", b"b")
        return Alarm("NOSPACE", cluster.member_id(away)) in await etcd.alarms(cluster.at(serves))

    await eventually(is_raised)


@minors.differing("cluster", minors.OLDEST, minors.NEWEST)
async def test_space_freed_by_a_compaction_at_the_quota_is_seen_after_a_recount(cluster):
    """Nobody can write there, and without another commit the member says that all is in use."""
    etcd, member, full = await filled(cluster)
    await etcd.recount(cluster.at(member))  # which takes nothing away
    assert await value(member, b"key-7")
    await compact(member, full.revision)

    async def much_is_free() -> bool:
        await etcd.recount(cluster.at(member))
        said = await status(cluster, etcd)
        return said.db_size > 2 * said.db_size_in_use

    await eventually(much_is_free)
    assert (await status(cluster, etcd)).revision == full.revision


@minors.differing("cluster", minors.OLDEST, minors.NEWEST)
async def test_etcd_3_5_accepts_writes_to_differing_data_once_another_alarm_is_disarmed(cluster):
    """So that one stays until the data is right."""
    cluster.begin(1)
    etcd, member = await cluster.ready(), cluster.first[0]
    at, said = cluster.at(member), await status(cluster, etcd)
    full, corrupt = Alarm("NOSPACE", said.member_id), Alarm("CORRUPT", said.member_id)
    for alarm in (full, corrupt):
        await raise_alarm(member, rpc.AlarmType.Value(alarm.kind), alarm.member_id)
    with pytest.raises(rpc.AioRpcError, match="corrupt cluster"):
        await put(member, b"a", b"b")

    await etcd.disarm(at, full)

    assert await etcd.alarms(at) == (corrupt,)
    if cluster.minor == minors.OLDEST:
        await put(member, b"a", b"b")
    else:
        with pytest.raises(rpc.AioRpcError, match="corrupt cluster"):
            await put(member, b"a", b"b")


async def test_a_member_blocks_until_its_snapshot_has_been_read(cluster, monkeypatch):
    """So none is defragmented during a backup; and nobody waits for the end of it."""
    cluster.begin(1)
    etcd, member = await cluster.ready(), cluster.first[0]
    await compact(member, await overwrite(member, 4))
    before = await freed(cluster, etcd)
    monkeypatch.undo()  # from here on with the operator's own patience
    monkeypatch.setattr("etcd_operator.etcd.client.DEFRAGMENT_SECONDS", 1.0)

    async with plaintext(Endpoint(member.host, port=member.client_port)) as channel:
        stream = rpc.MaintenanceStub(channel).Snapshot(rpc.SnapshotRequest())
        await stream.read()
        assert isinstance(await change(etcd, step(before, member)), Uncertain)
        with pytest.raises(NoAnswer):
            await status(cluster, etcd)
        await asyncio.wait_for(_read_all(stream), 30)

    await eventually(lambda: _is_smaller(cluster, etcd, before.db_size))
    assert await value(member, b"key-7") == bytes([3]) * LARGE


async def _read_all(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def _is_smaller(cluster: Cluster, etcd: GrpcEtcd, before: int) -> bool:
    return (await status(cluster, etcd)).db_size < before / 2
