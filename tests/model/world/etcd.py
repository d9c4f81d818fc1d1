"""etcd's own rules for membership changes, as its server checks them.

Each change is requested from one server. If etcd refuses it, `Refused` is raised and nothing
changes.
"""

from __future__ import annotations

from etcd_stateful.membership import steps
from model.world import tables
from model.world.state import Etcd, Member, State, is_up, quorum, runs_as, up_voters, voters
from model.world.world import World, fresh_member, pruned


class Refused(Exception):
    """etcd or the API server refused the request, and nothing has changed."""


def change(world: World, step: steps.EtcdChange) -> None:
    etcd = _asked(world, step.leader)
    match step:
        case steps.MemberAddLearner(peer_url=url):
            _add(world, etcd, url)
        case steps.MemberPromote(member_id=member):
            _promote(world, etcd, member)
        case steps.MemberRemove(member_id=member):
            remove(world, etcd, member)
        case steps.MoveLeader(member_id=member):
            _move(world, etcd, member)
        case steps.DisarmAlarm(alarm=alarm):
            alarms = tuple(one for one in etcd.alarms if one != alarm.member_id)
            world.etcd = etcd._replace(alarms=alarms)
        case steps.EnableDowngrade(minor=minor):
            _enable(world, etcd, int(minor.rpartition(".")[2]))
        case steps.CancelDowngrade():
            _cancel(world, etcd)


def _asked(world: World, asked: steps.Leader) -> Etcd:
    """The server at that address, if it is the expected member and the leader."""
    etcd, state = world.etcd, world.now()
    if etcd is None or world.cut or etcd.cluster != asked.cluster_id:
        raise Refused("nobody answers")
    leader = next((one for one in etcd.members if one.member == asked.member_id), None)
    if leader is None or not is_up(state, leader.ordinal) or not runs_as(state, leader):
        raise Refused("another member, or none, is at this address")
    if asked.address != f"10.0.0.{leader.ordinal + 1}":
        raise Refused("the address is another member's")
    if not etcd.leader or len(up_voters(state)) < quorum(len(voters(state))):
        raise Refused("no leader")
    return etcd


def linked(state: State) -> int:
    """How many voters have been connected for longer than the health interval, with the leader."""
    assert state.etcd is not None
    count = 0
    for one in up_voters(state):
        pod = state.pods[one.ordinal]
        count += one.member == state.etcd.leader or bool(pod and pod.linked)
    return count


def _add(world: World, etcd: Etcd, url: str) -> None:
    """From 3.5.30 and 3.6.11 on: members connected for 5 s >= quorum(n + 1), including learners. A
    single member may always add one."""
    ordinal = tables.ordinal_of(url.removeprefix("http://").partition(".")[0])
    if any(one.ordinal == ordinal for one in etcd.members):
        raise Refused("Peer URLs already exists")
    if any(one.learner for one in etcd.members):
        raise Refused("too many learner members in cluster")
    count = len(etcd.members)
    if count > 1 and linked(world.now()) < quorum(count + 1):
        raise Refused("unhealthy cluster")
    new = Member(fresh_member(world), ordinal, learner=True, started=False, matched=False)
    _put(world, etcd, (*etcd.members, new))


def _promote(world: World, etcd: Etcd, member: int) -> None:
    """By what the leader last heard from the learner, even if it is dead or wiped since."""
    found = _member(etcd, member)
    if not found.learner:
        raise Refused("can only promote a learner member")
    if not found.matched:
        raise Refused("can only promote a learner member which is in sync with leader")
    state = world.now()
    started = 1 + sum(one.started for one in voters(state))
    if started < quorum(len(voters(state)) + 1):
        raise Refused("re-configuration failed due to not enough started members")
    _put(
        world, etcd, [one._replace(learner=False) if one is found else one for one in etcd.members]
    )


def remove(world: World, etcd: Etcd, member: int) -> None:
    found, state = _member(etcd, member), world.now()
    rest = [one for one in voters(state) if one is not found]
    if not found.learner:
        if not rest or sum(one.started for one in rest) < quorum(len(rest)):
            raise Refused("re-configuration failed due to not enough started members")
        up = is_up(state, found.ordinal) and runs_as(state, found)
        if up and linked(state) - 1 < 1 + (len(rest)) // 2:
            raise Refused("unhealthy cluster")
    _put(world, etcd, [one for one in etcd.members if one is not found])
    pruned(world)


def _move(world: World, etcd: Etcd, member: int) -> None:
    state = world.now()
    if not any(one.member == member for one in up_voters(state)):
        raise Refused("the transferee is not active")
    world.etcd = etcd._replace(leader=member)


def _enable(world: World, etcd: Etcd, minor: int) -> None:
    """The cluster version goes down at once, and with it the format of each member's data."""
    if minor != etcd.minor - 1:
        raise Refused("invalid downgrade target version")
    if etcd.down:
        raise Refused("cluster has a downgrade job in progress")
    world.etcd = etcd._replace(down=minor, minor=minor)


def _cancel(world: World, etcd: Etcd) -> None:
    """etcd accepts this even if no downgrade is enabled."""
    world.etcd = etcd._replace(down=0)


def _put(world: World, etcd: Etcd, members: list[Member] | tuple[Member, ...]) -> None:
    ordered = tuple(sorted(members, key=lambda one: one.ordinal))
    world.etcd = etcd._replace(members=ordered)


def _member(etcd: Etcd, member: int) -> Member:
    found = next((one for one in etcd.members if one.member == member), None)
    if found is None:
        raise Refused("member not found")
    return found
