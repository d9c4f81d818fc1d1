"""The steps that change etcd, on real members: done, refused with etcd's message, or unknown."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from aetcd import rpc
from etcd_live import Cluster, binary, compact, eventually, put, raise_alarm
from minors import NEWEST, differing

from etcd_operator.etcd import corruption
from etcd_operator.etcd.api import NoAnswer, Refused
from etcd_operator.etcd.changes import change
from etcd_operator.etcd.client import GrpcEtcd
from etcd_operator.step_result import Declined, Done, Outdated, Uncertain
from etcd_stateful.membership.steps import (
    CancelDowngrade,
    DisarmAlarm,
    EnableDowngrade,
    Leader,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
    MoveLeader,
)
from etcd_stateful.observed.members import Alarm

pytestmark = pytest.mark.integration


async def leader(cluster: Cluster, etcd: GrpcEtcd) -> Leader:
    """As the operator finds it: it answers as itself, and says that it leads."""
    for member in cluster.first:
        if member.process is None:
            continue
        status = await etcd.status(cluster.at(member))
        if status.leader_id == status.member_id:
            return Leader(member.host, status.member_id, status.cluster_id)
    raise NoAnswer("nobody leads")


async def done(etcd: GrpcEtcd, step, seconds: float = 60.0):
    """Asks until etcd agrees; everything that it said before."""
    began, declined = time.monotonic(), []
    while isinstance(outcome := await change(etcd, step), Declined):
        declined.append(outcome.why)
        assert time.monotonic() - began < seconds, declined
        await asyncio.sleep(0.1)
    assert isinstance(outcome, Done), outcome
    return declined


async def test_a_member_is_added_and_removed_by_steps(cluster):
    cluster.begin(3)
    etcd = await cluster.ready()
    asked = await leader(cluster, etcd)
    new = cluster.new_member()

    await done(etcd, MemberAddLearner(asked, new.peer_url, "grow"))
    view = await etcd.member_list(cluster.at(cluster.first[0]))
    member_id = next(one.member_id for one in view.members if one.learner)
    assert len(view.members) == 4

    early = await change(etcd, MemberPromote(asked, member_id, "has not started"))
    assert early == Declined("can only promote a learner member which is in sync with leader")
    second = await change(etcd, MemberAddLearner(asked, "http://127.0.0.1:1", "grow"))
    assert second == Declined("too many learner members in cluster")

    new.start(cluster.initial_cluster([*cluster.first, new]), cluster.token, "existing")
    await done(etcd, MemberPromote(asked, member_id, "has caught up"))
    view = await etcd.member_list(cluster.at(cluster.first[0]))
    assert not any(one.learner for one in view.members)

    await eventually(lambda: _leads_nobody(etcd, cluster, new, member_id))
    await done(etcd, MoveLeader(asked, member_id, "is to go"))
    at_old = await change(etcd, MoveLeader(asked, member_id, "again"))
    assert at_old == Declined("not leader")
    assert (await etcd.status(cluster.at(new, member_id))).leader_id == member_id

    back = cluster.member_id(cluster.first[0])
    now = replace(asked, address=new.host, member_id=member_id)
    await done(etcd, MoveLeader(now, back, "is to go"))
    asked = Leader(cluster.first[0].host, back, asked.cluster_id)
    await done(etcd, MemberRemove(asked, member_id, "shrink"))
    view = await etcd.member_list(cluster.at(cluster.first[0]))
    assert {one.member_id for one in view.members} == {
        cluster.member_id(member) for member in cluster.first
    }
    gone = await change(etcd, MemberRemove(asked, member_id, "again"))
    assert gone == Declined("member not found")


async def test_a_leader_that_is_told_to_stop_hands_over_by_itself(cluster):
    """So a leader that the operator cannot reach may be restarted without MoveLeader. In its heir's
    log the election is asked for, and not due to silence."""
    cluster.begin(3, log_level="info")
    etcd = await cluster.ready()
    leads = await cluster.leader(etcd)
    others = [one for one in cluster.first if one is not leads]

    leads.stop()

    await eventually(lambda: _leads_one_of(etcd, cluster, others))
    assert sum("received MsgTimeoutNow" in one.log.read_text() for one in others) == 1


async def _leads_one_of(etcd, cluster, members):
    said = [await etcd.status(cluster.at(one)) for one in members]
    return any(one.leader_id == one.member_id for one in said)


async def _leads_nobody(etcd, cluster, member, member_id):
    status = await etcd.status(cluster.at(member, member_id))
    return not status.learner and status.leader_id != 0


async def test_a_change_declined_because_a_member_is_down_is_no_error(cluster):
    """Three members, one down: neither a voter nor a learner may be added before it is gone."""
    cluster.begin(3)
    etcd = await cluster.ready()
    asked = await leader(cluster, etcd)
    dead = next(one for one in cluster.first if cluster.member_id(one) != asked.member_id)
    dead.kill()

    add = MemberAddLearner(asked, "http://127.0.0.1:1", "grow")
    await eventually(lambda: _is(change(etcd, add), Declined("unhealthy cluster")))
    assert len((await etcd.member_list(_at(cluster, asked))).members) == 3
    await done(etcd, MemberRemove(asked, cluster.member_id(dead), "is lost"))
    await done(etcd, add)


async def _is(outcome, wanted):
    return await outcome == wanted


def _at(cluster, asked):
    return next(
        cluster.at(one) for one in cluster.first if cluster.member_id(one) == asked.member_id
    )


async def test_without_a_quorum_the_outcome_is_unknown(cluster, monkeypatch):
    cluster.begin(3)
    etcd = await cluster.ready()
    asked = await leader(cluster, etcd)
    others = [one for one in cluster.first if cluster.member_id(one) != asked.member_id]
    for member in others:
        member.kill()
    monkeypatch.undo()
    outcome = await change(etcd, MemberRemove(asked, cluster.member_id(others[0]), "is lost"))
    # The leader may still know too little to ask, and then says so.
    assert isinstance(outcome, Uncertain) or outcome == Declined("unhealthy cluster")


async def test_another_member_at_the_address_is_not_changed(cluster):
    cluster.begin(1)
    etcd = await cluster.ready()
    asked = await leader(cluster, etcd)
    stranger = replace(asked, cluster_id=asked.cluster_id ^ 1)
    outcome = await change(etcd, MemberAddLearner(stranger, "http://127.0.0.1:1", "grow"))
    assert isinstance(outcome, Outdated)
    assert len((await etcd.member_list(_at(cluster, asked))).members) == 1


class TestAlarms:
    async def test_are_seen_in_the_status_and_disarmed(self, cluster):
        cluster.begin(1)
        etcd = await cluster.ready()
        asked = await leader(cluster, etcd)
        at = _at(cluster, asked)
        assert not corruption.is_raised([await etcd.status(at)])

        await raise_alarm(cluster.first[0], rpc.CORRUPT, 0xABC)
        await raise_alarm(cluster.first[0], rpc.NOSPACE, asked.member_id)
        assert corruption.is_raised([await etcd.status(at)])
        await done(etcd, DisarmAlarm(asked, Alarm("CORRUPT", 0xABC), "is gone"))
        assert await etcd.alarms(at) == (Alarm("NOSPACE", asked.member_id),)

    async def test_a_member_without_a_leader_reports_no_alarm(self, cluster):
        cluster.begin(3)
        etcd = await cluster.ready()
        for member in cluster.first[1:]:
            member.kill()
        at = cluster.at(cluster.first[0])
        await eventually(lambda: _leaderless(etcd, at))
        status = await etcd.status(at)
        assert status.errors, "etcd's words for it"
        assert not corruption.is_raised([status])

    async def test_members_may_be_removed_and_added_under_a_corrupt_alarm(self, cluster):
        """The alarm stops writes and reads, but not the changes that end it."""
        cluster.begin(3)
        etcd = await cluster.ready()
        asked = await leader(cluster, etcd)
        blamed = next(one for one in cluster.first if cluster.member_id(one) != asked.member_id)
        await raise_alarm(cluster.first[0], rpc.CORRUPT, cluster.member_id(blamed))
        await done(etcd, MemberRemove(asked, cluster.member_id(blamed), "is lost"))
        await done(etcd, MemberAddLearner(asked, "http://127.0.0.1:1", "is replaced"))


async def _leaderless(etcd, at):
    return (await etcd.status(at)).leader_id == 0


class TestHashes:
    async def test_differ_for_the_member_whose_database_differs(self, cluster):
        """A byte of a value, flipped where bbolt cannot notice; the alarm blames another one."""
        cluster.begin(3)
        etcd = await cluster.ready()
        for n in range(5):
            await put(cluster.first[0], b"key-%d" % n, b"a value to find again %d" % n)
        victim = cluster.first[2]
        await _until_alike(etcd, cluster)
        victim.stop()
        database = victim.folder / "member/snap/db"
        content = database.read_bytes()
        assert b"a value to find again 3" in content
        database.write_bytes(content.replace(b"to find again 3", b"to find again X"))
        victim.start(cluster.initial_cluster(cluster.first), cluster.token, "existing")
        await put(cluster.first[0], b"key", b"later")
        await cluster.ready()
        innocent = cluster.member_id(cluster.first[0])
        await raise_alarm(cluster.first[0], rpc.CORRUPT, innocent)

        found = await _look(etcd, cluster)
        assert found.alarms == (Alarm("CORRUPT", innocent),)
        assert sorted(found.hashes) == [0, 1, 2]
        assert found.hashes[0] == found.hashes[1] != found.hashes[2]
        assert found.calls == 4

    async def test_are_equal_while_one_member_lags_and_after_a_compaction(self, cluster):
        cluster.begin(3)
        etcd = await cluster.ready()
        revision = 0
        for n in range(30):
            revision = await put(cluster.first[0], b"key", b"%d" % n)
        await compact(cluster.first[0], revision - 5)
        await raise_alarm(cluster.first[0], rpc.CORRUPT, 0xABC)
        await _until_alike(etcd, cluster)
        found = await _look(etcd, cluster)
        assert len(found.hashes) == 3
        assert len(set(found.hashes.values())) == 1

    async def test_of_a_compacted_or_future_revision_are_unknown(self, cluster):
        cluster.begin(1)
        etcd = await cluster.ready()
        at = cluster.at(cluster.first[0])
        for n in range(10):
            revision = await put(cluster.first[0], b"key", b"%d" % n)
        await compact(cluster.first[0], revision - 2)
        with pytest.raises((NoAnswer, Refused)):
            await etcd.hash_kv(at, revision - 5)
        with pytest.raises((NoAnswer, Refused)):
            await etcd.hash_kv(at, revision + 5)
        assert (await etcd.hash_kv(at, revision)).compacted == revision - 2
        assert (await etcd.status(at)).revision == revision


async def _until_alike(etcd, cluster):
    async def alike():
        found = [(await etcd.status(cluster.at(one))).revision for one in cluster.first]
        return len(set(found)) == 1

    await eventually(alike)


async def _look(etcd, cluster, last=corruption.NONE):
    places = {n: cluster.at(member) for n, member in enumerate(cluster.first)}
    statuses = {n: await etcd.status(at) for n, at in places.items()}
    assert corruption.is_raised(statuses.values())
    return await corruption.look_into(
        etcd, places[0], places, statuses, last=last, clock=lambda: 0.0
    )


LOWER = {"3.6": "3.5", "3.7": "3.6"}
with_downgrades = differing("cluster", NEWEST, of=LOWER)


class TestDowngrade:
    @pytest.mark.parametrize("cluster", ["3.5"], indirect=True)
    async def test_is_not_in_the_status_before_3_6(self, cluster):
        cluster.begin(3)
        etcd = await cluster.ready()
        status = await etcd.status(_at(cluster, await leader(cluster, etcd)))
        assert (status.storage_version, status.downgrade_target) == ("", "")

    @with_downgrades
    async def test_is_seen_in_the_status_and_cancelled(self, cluster):
        """Fields 11 and 13 of the status, which came with 3.6 and which aetcd does not know."""
        cluster.begin(3)
        etcd = await cluster.ready()
        asked = await leader(cluster, etcd)
        at = _at(cluster, asked)
        await eventually(lambda: _stores(etcd, cluster, cluster.minor))
        assert (await etcd.status(at)).downgrade_target == ""
        lower = LOWER[cluster.minor]

        refused = await change(etcd, EnableDowngrade(asked, "3.4", "two at once"))
        assert refused == Declined("invalid downgrade target version")
        assert isinstance(await change(etcd, CancelDowngrade(asked, "none is on")), Done)

        await done(etcd, EnableDowngrade(asked, lower, "the spec says so"))
        again = await change(etcd, EnableDowngrade(asked, lower, "again"))
        assert again == Declined("cluster has a downgrade job in progress")
        await eventually(lambda: _stores(etcd, cluster, lower))
        for member in cluster.first:
            assert (await etcd.status(cluster.at(member))).downgrade_target == lower

        await done(etcd, CancelDowngrade(asked, "the spec goes back"))
        await eventually(lambda: _stores(etcd, cluster, cluster.minor))
        assert (await etcd.status(at)).downgrade_target == ""

    @differing("cluster", *LOWER, of=LOWER)
    async def test_is_active_while_members_of_both_minors_run(self, cluster):
        """The whole way down of one member, and what the older one says of it."""
        older = LOWER[cluster.minor]
        etcd = await _begun_and_told_to_go_down(cluster, 3)

        first = cluster.first[0]
        _start_again(cluster, first, binary(older))
        await eventually(lambda: _runs(etcd, cluster.at(first), older))
        others = [await etcd.status(cluster.at(one)) for one in cluster.first[1:]]
        assert {(one.storage_version, one.downgrade_target) for one in others} == {(older, older)}

    @with_downgrades
    @pytest.mark.parametrize("ran", [False, True], ids=["never", "for a while"])
    async def test_can_be_reverted_without_a_quorum(self, cluster, ran):
        """All are started again by hand: the lower one cannot be had, or has run and fails."""
        older = LOWER[cluster.minor]
        newer = cluster.binary
        etcd = await _begun_and_told_to_go_down(cluster, 1)
        only = cluster.first[0]
        if ran:
            _start_again(cluster, only, binary(older))
            await eventually(lambda: _runs(etcd, cluster.at(only), older))
            await put(only, b"key", b"written by the lower one")

        _start_again(cluster, only, newer)

        await eventually(lambda: _runs(etcd, cluster.at(only), cluster.minor))
        await change(etcd, CancelDowngrade(await leader(cluster, etcd), "back up"))
        await eventually(lambda: _stores(etcd, cluster, cluster.minor), seconds=60)

    @differing("cluster", *LOWER, of=LOWER)
    async def test_is_not_needed_while_one_member_runs_the_lower_minor(self, cluster):
        """Others that run the higher one, or failed at that, have not changed what is stored; nor
        does a quorum of them."""
        newer, minor = cluster.binary, cluster.minor
        older = LOWER[minor]
        cluster.binary = binary(older)
        cluster.begin(3)
        etcd = await cluster.ready()
        for member in cluster.first[1:]:
            _start_again(cluster, member, newer)
            await eventually(lambda member=member: _runs(etcd, cluster.at(member), minor))
        await asyncio.sleep(12)  # etcd looks for another version every five seconds
        cluster.first[0].kill()
        await asyncio.sleep(12)

        for member in cluster.first:
            _start_again(cluster, member, binary(older))

        for member in cluster.first:
            await eventually(lambda member=member: _runs(etcd, cluster.at(member), older))


async def _begun_and_told_to_go_down(cluster, members):
    """Until every member's data has the format of the lower minor; all still run the higher."""
    older = LOWER[cluster.minor]
    cluster.begin(members)
    etcd = await cluster.ready()
    await eventually(lambda: _stores(etcd, cluster, cluster.minor))
    await done(etcd, EnableDowngrade(await leader(cluster, etcd), older, "down"))
    # etcd looks every few seconds, first at the cluster's version and then at the data's.
    await eventually(lambda: _stores(etcd, cluster, older), seconds=60)
    return etcd


def _start_again(cluster, member, binary):
    """Ends it in order, as the kubelet does. etcd says that its data has the lower format before
    that is on its disk (bbolt commits every 100 ms) and before it has taken the snapshot that the
    lower minor begins from: killed just then, it ends the lower minor with "invalid downgrade"."""
    member.stop()
    member.binary = binary
    member.start(cluster.initial_cluster(cluster.first), cluster.token, "existing")


async def _stores(etcd, cluster, minor):
    statuses = [await etcd.status(cluster.at(one)) for one in cluster.first]
    return all(one.storage_version == minor for one in statuses)


async def _runs(etcd, at, minor):
    status = await etcd.status(at)
    return status.version.startswith(minor) and status.leader_id != 0
