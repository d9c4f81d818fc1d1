"""Moves of the StatefulSet controller, the kubelets, the claims and etcd's processes.

`next_move` makes one move, in a fixed order. Moves of different ordinals commute, so one order
represents all of them; a slow ordinal is a fault (`slow`, `away`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from model.world import faults_of_others, job, tables, volume
from model.world.job import Broken
from model.world.state import (
    CRASH,
    DATABASE,
    ETCD,
    IMAGE,
    LACKS,
    LOG,
    NO_HARM,
    NONE,
    PENDING,
    START,
    UNREADABLE,
    Claim,
    Content,
    Etcd,
    Member,
    Pod,
    State,
    has_quorum,
    is_up,
    runs_as,
    up_voters,
)
from model.world.world import World

Move = Callable[[World], bool]


def next_move(state: State) -> State | None:
    """The state after the next move that changes anything; None if there is none."""
    world = World(state)
    for move in MOVES:
        if move(world):
            return world.freeze()
    return None


def _stop(world: World) -> bool:
    for ordinal, pod in enumerate(world.pods):
        if pod and pod.deleting and not world.away >> ordinal & 1:
            world.drop_pod(ordinal)
            return True
    return False


def _release(world: World) -> bool:
    """pvc-protection: a deleted claim is gone once no scheduled pod uses it."""
    for ordinal, claim in enumerate(world.claims):
        pod = world.pods[ordinal]
        if claim and claim.deleting and (pod is None or pod.where == PENDING):
            world.claims[ordinal] = None
            world.touch("claim", ordinal)
            return True
    return False


def _scale_down(world: World) -> bool:
    if world.sts == NONE or world.asleep:
        return False
    for ordinal in range(world.replicas(), len(world.pods)):
        pod = world.pods[ordinal]
        if pod and not pod.deleting:
            world.pods[ordinal] = pod._replace(deleting=True)
            world.touch("pod", ordinal)
            return True
    return False


def _make(world: World) -> bool:
    """Creates claims for pods that lack one, then pods. A pod is not created for a claim that is
    being deleted."""
    if world.sts == NONE or world.asleep:
        return False
    for ordinal in range(min(world.replicas(), len(world.pods))):
        claim, pod = world.claims[ordinal], world.pods[ordinal]
        if world.durable and claim is None and (pod is None or pod.where == PENDING):
            world.claims[ordinal] = Claim()
            return True
        if pod is None and not (claim and claim.deleting):
            world.pods[ordinal] = Pod(PENDING, tables.objects[world.sts].template)
            return True
    return False


def _schedule(world: World) -> bool:
    for ordinal, pod in enumerate(world.pods):
        if pod is None or pod.where != PENDING or pod.deleting:
            continue
        claim = world.claims[ordinal]
        bound = not world.durable or (claim is not None and not claim.deleting and not claim.lost)
        if bound and not (world.slow | world.away) >> ordinal & 1:
            run_start(world, ordinal)
            return True
    return False


def run_start(world: World, ordinal: int) -> None:
    """A pod's init container runs: etcd starts with data of this member, and waits otherwise."""
    pod = world.pods[ordinal]
    assert pod is not None
    if not tables.templates[pod.template].startable:
        world.pods[ordinal] = pod._replace(where=LACKS, linked=False)
        world.touch("pod", ordinal)
        return
    epoch = tables.templates[pod.template].epoch
    waits = volume.finding(ordinal, world.content(ordinal), epoch) is not None
    world.pods[ordinal] = pod._replace(where=START if waits else ETCD, linked=False)
    world.new_run(ordinal)
    world.touch("pod", ordinal)
    if not waits:
        run_etcd(world, ordinal)


def run_etcd(world: World, ordinal: int) -> None:
    """The etcd container starts, without `start`."""
    pod = world.pods[ordinal]
    assert pod is not None
    content = world.content(ordinal)
    if not tables.templates[pod.template].pullable:
        where = IMAGE
    elif content is None or content.harm in (LOG, DATABASE, UNREADABLE):
        where = CRASH  # The path of the configuration does not exist, or etcd refuses to start.
    else:
        where = CRASH if _refuses_to_run(world, pod, content) else ETCD
    if where != pod.where:
        world.touch("pod", ordinal)
    world.pods[ordinal] = pod._replace(where=where, linked=False)
    if where == ETCD:
        job.begin_again(world, ordinal)


def _refuses_to_run(world: World, pod: Pod, content: Content) -> bool:
    """Its minor is lower than the cluster version, or a peer tells it that it was removed."""
    etcd = world.etcd
    if etcd is None or content.cluster != etcd.cluster or not content.log:
        return False
    if tables.templates[pod.template].version.minor < etcd.minor:
        return True
    return _is_removed(world, etcd, content)


def _is_removed(world: World, etcd: Etcd, content: Content) -> bool:
    """Any peer tells a removed member so. Without a peer of its cluster it continues alone."""
    if content.cluster != etcd.cluster:
        return False
    if any(one.member == content.member for one in etcd.members):
        return False
    return bool(up_voters(world.now()))


def _join(world: World) -> bool:
    """First starts, retries of containers that failed, and exits of removed members."""
    for ordinal, pod in enumerate(world.pods):
        content = world.content(ordinal)
        if pod is None or pod.deleting or content is None or world.away >> ordinal & 1:
            continue
        if pod.where == ETCD and not content.log and _first_start(world, ordinal, pod, content):
            return True
        if (
            pod.where == ETCD
            and content.log
            and world.etcd
            and _is_removed(world, world.etcd, content)
        ):
            world.pods[ordinal] = pod._replace(where=CRASH, linked=False)
            world.touch("pod", ordinal)
            return True
        if pod.where == CRASH and _recovers(world, ordinal, pod, content):
            return True
    return False


def _first_start(world: World, ordinal: int, pod: Pod, content: Content) -> bool:
    """On an empty volume with a ticket's configuration."""
    if content.new:
        _bootstrap(world, ordinal, content)
        return True
    if not _may_join(world, pod, content):
        world.pods[ordinal] = pod._replace(where=CRASH, linked=False)
        world.touch("pod", ordinal)
        return True
    world.set_content(ordinal, content._replace(log=True))
    return True


def _may_join(world: World, pod: Pod, content: Content) -> bool:
    """One peer has to answer, which takes no quorum; else the container fails and is restarted. A
    minor below the cluster version is an "invalid downgrade". No member may join during a
    downgrade."""
    etcd, state = world.etcd, world.now()
    if etcd is None or not any(is_up(state, one.ordinal) for one in etcd.members):
        return False
    older = tables.templates[pod.template].version.minor < etcd.minor
    barred = older or etcd.down
    return not barred and etcd.cluster == content.cluster and _matches(etcd, content)


def _matches(etcd: Etcd, content: Content) -> bool:
    """The initial cluster must have exactly the listed URLs; the ID comes from the list."""
    urls = sum(1 << one.ordinal for one in etcd.members)
    return urls == content.initial and any(one.member == content.member for one in etcd.members)


def _bootstrap(world: World, ordinal: int, content: Content) -> None:
    if world.etcd is None or world.etcd.cluster != content.cluster:
        _begin(world, content)
    world.set_content(ordinal, content._replace(log=True, has=True))


def _begin(world: World, content: Content) -> None:
    for ordinal in range(len(world.pods)):
        other = world.content(ordinal)
        formed = other is not None and other.cluster == world.told
        if other and other.log and formed and other.cluster != content.cluster:
            raise Broken(f"I11: a second etcd cluster begins beside the data of ordinal {ordinal}")
    members = tuple(
        Member(member, ordinal, learner=False, started=True, matched=True)
        for member, ordinal in sorted(tables.first_members[content.cluster], key=lambda one: one[1])
    )
    minor = min(
        tables.templates[pod.template].version.minor for pod in world.pods if pod is not None
    )
    world.etcd = Etcd(content.cluster, members, leader=0, minor=minor, down=0, format=minor)


def _recovers(world: World, ordinal: int, pod: Pod, content: Content) -> bool:
    """The kubelet restarts a failed container, which may run this time."""
    if content.harm in (LOG, DATABASE, UNREADABLE):
        return False
    if content.log:
        if _refuses_to_run(world, pod, content):
            return False
    elif not content.new and not _may_join(world, pod, content):
        return False
    world.pods[ordinal] = pod._replace(where=ETCD, linked=False)
    world.touch("pod", ordinal)
    job.begin_again(world, ordinal)
    return True


def candidates(state: State) -> list[Member]:
    """Members that may be elected: voters that are up; those with every committed entry, if any."""
    if state.etcd is None or state.etcd.leader or not has_quorum(state):
        return []
    up = up_voters(state)
    whole = []
    for one in up:
        claim, pod = state.claims[one.ordinal], state.pods[one.ordinal]
        content = claim.content if claim else pod.content if pod else None
        if content and content.has:
            whole.append(one)
    return whole or up


def elect(state: State, member: Member) -> State:
    world = World(state)
    assert world.etcd is not None
    world.etcd = world.etcd._replace(leader=member.member)
    return world.freeze()


def _elect(world: World) -> bool:
    able = candidates(world.now())
    if not able or world.etcd is None:
        return False
    world.etcd = world.etcd._replace(leader=able[0].member)
    return True


def _catch_up(world: World) -> bool:
    etcd, state = world.etcd, world.now()
    if etcd is None or not etcd.leader or not has_quorum(state):
        return False
    for at, one in enumerate(etcd.members):
        content = world.content(one.ordinal)
        if not one.learner or content is None or not is_up(state, one.ordinal):
            continue
        if runs_as(state, one) and not (content.has and one.matched):
            world.set_content(one.ordinal, content._replace(has=True))
            members = (*etcd.members[:at], one._replace(matched=True), *etcd.members[at + 1 :])
            world.etcd = etcd._replace(members=members)
            return True
    return False


def _migrate(world: World) -> bool:
    """Members write their data in the format of the cluster's version."""
    etcd = world.etcd
    if etcd is None or etcd.format == etcd.minor or not etcd.leader:
        return False
    world.etcd = etcd._replace(format=etcd.minor)
    return True


def _tick(world: World) -> bool:
    """A minute passes."""
    state, changed = world.now(), False
    for ordinal, pod in enumerate(world.pods):
        if pod is None:
            continue
        new = pod._replace(aged=True, linked=pod.linked or is_up(state, ordinal))
        if new != pod:
            world.pods[ordinal], changed = new, True
    return changed


MOVES: Final[tuple[Move, ...]] = (
    _stop,
    _release,
    _scale_down,
    _make,
    _schedule,
    job.go_on,
    _join,
    _elect,
    _catch_up,
    _migrate,
    _tick,
)


def _is_unreadable(world: World, ordinal: int) -> bool:
    content = world.content(ordinal)
    return content is not None and content.harm == UNREADABLE


def heal(state: State) -> State | None:
    """The state after passing faults have ended; None if there are none. Fairness guarantees that
    they end."""
    world = World(state)
    cured = [at for at in range(len(state.pods)) if _is_unreadable(world, at)]
    leaving = faults_of_others.passing(state)
    if not (state.cut or state.slow or state.away or state.unpullable or cured or leaving):
        return None
    faults_of_others.gone(world, leaving)
    world.unpullable = False
    for ordinal in cured:
        world.set_content(ordinal, world.content(ordinal)._replace(harm=NO_HARM))  # type: ignore[union-attr]
        if (waiting := world.pods[ordinal]) and waiting.where == START:
            run_start(world, ordinal)
    back, world.cut, world.slow, world.away = world.away, False, 0, 0
    for ordinal, pod in enumerate(world.pods):
        if pod and back >> ordinal & 1 and pod.where in (ETCD, CRASH):
            run_etcd(world, ordinal)
    return world.freeze()
