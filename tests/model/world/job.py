"""The recovery Job: what its pod does to the survivor's volume.

The pod may die at any point and be recreated, so its progress follows from the volume: the marker
is set aside, the WAL's own member list has one member, the marker of the new epoch is written. Only
then may anything run on the volume, and the survivor becomes the cluster.
"""

from __future__ import annotations

from etcd_stateful.jobs import recover
from model.world import volume
from model.world.state import (
    COMPLETE,
    DATABASE,
    DELETING,
    ETCD,
    FAILED,
    LEAVING,
    RUNS,
    STAYS,
    Content,
    Job,
    Member,
    State,
)
from model.world.world import World, pruned


class Broken(AssertionError):
    """A rule of the design does not hold; the message starts with its name."""


def go_on(world: World) -> bool:
    """The next thing that the Job's pod does, or the controller with it."""
    job = world.job
    if job is None:
        return False
    if job.going != STAYS:
        if world.away >> job.survivor & 1 and job.phase == RUNS:
            return False  # Nothing confirms that the pod has stopped.
        _become(world, None)
        return True
    if job.phase != RUNS or not is_scheduled(world.now(), job):
        return False
    return _work(world, job, world.content(job.survivor))


def is_scheduled(state: State, job: Job) -> bool:
    """A pod is not scheduled onto a claim that is being deleted, nor onto a volume in use."""
    claim, at = state.claims[job.survivor], job.survivor
    if claim is None or claim.deleting or claim.lost or state.pods[at] is not None:
        return False
    return not (state.slow | state.away) >> at & 1


def _work(world: World, job: Job, content: Content | None) -> bool:
    match volume.verdict(job, content):
        case recover.WrongVolume():
            _become(world, job._replace(phase=FAILED))
        case recover.Unreadable():
            return False
        case recover.Begin():
            assert content is not None
            world.set_content(job.survivor, content._replace(aside=True, alone=False))
        case recover.Continue():
            assert content is not None
            return _force(world, job, content)
        case recover.Finished():
            _become(world, job._replace(phase=COMPLETE))
    return True


def _force(world: World, job: Job, content: Content) -> bool:
    """etcd runs with `force-new-cluster`, which keeps cluster and member ID; then the marker."""
    if content.alone:
        finished = content._replace(aside=False, epoch=job.epoch)
        world.set_content(job.survivor, finished)
        return True
    if not job.pullable or content.harm == DATABASE or job.minor < _minor(world):
        return False  # Its container is in a crash loop.
    if _is_no_voter(world, content):
        _become(world, job._replace(phase=FAILED))
        return True
    # The human's word is for this data. From now on it lacks only what is acknowledged later.
    world.set_content(job.survivor, content._replace(alone=True, has=True))
    if world.etcd is not None:
        world.etcd = world.etcd._replace(minor=job.minor, format=job.minor)
    return True


def _is_no_voter(world: World, content: Content) -> bool:
    """etcd panics as it removes the last voter. That a removed member knows of its removal is
    assumed: if it does not, it becomes a cluster of one like any other."""
    etcd = world.etcd
    if etcd is None or content.epoch != etcd.epoch:
        return False
    return not any(one.member == content.member and not one.learner for one in etcd.members)


def _minor(world: World) -> int:
    return world.etcd.minor if world.etcd is not None else 0


def etcd_started(state: State) -> bool:
    """Whether the planner observes that etcd has started, and may have written its own format."""
    job = state.job
    claim = state.claims[job.survivor] if job else None
    content = claim.content if claim else None
    if job is None or job.phase != RUNS:
        return job is not None
    return job.pullable and content is not None and (content.aside or content.epoch == job.epoch)


def _become(world: World, job: Job | None) -> None:
    world.job = job
    world.touch("job")


def leave(world: World, job: Job) -> None:
    """Deleted by the operator: the Job is gone at once, and its pod stops later."""
    _become(world, job._replace(going=LEAVING) if job.phase == RUNS else None)


def delete_foreground(world: World, job: Job) -> None:
    """Deleted by a human in the foreground: the Job stays until its pod is gone."""
    _become(world, job._replace(going=DELETING))


def begin_again(world: World, ordinal: int) -> None:
    """Called when etcd runs: the survivor of a new epoch becomes the cluster, with its data."""
    etcd, content = world.etcd, world.content(ordinal)
    if etcd is None or content is None or not (content.log and content.alone):
        return
    if content.cluster != etcd.cluster or content.epoch <= etcd.epoch:
        return
    if not content.has:
        raise Broken(
            f"I3: ordinal {ordinal} begins an epoch, and lacks what one before wrote since"
        )
    for at, pod in enumerate(world.pods):
        other = world.content(at)
        if at != ordinal and pod and pod.where == ETCD and other and other.log:
            raise Broken(f"I3: ordinal {ordinal} begins an epoch, and {at} runs in the one before")
    alone = Member(content.member, ordinal, learner=False, started=True, matched=True)
    world.etcd = etcd._replace(members=(alone,), leader=0, epoch=content.epoch)
    world.set_content(ordinal, content._replace(has=True, alone=False))
    pruned(world)


def trouble(state: State) -> str:
    """The trouble of the Job's pod, as the planner observes it."""
    job = state.job
    if job is None or job.phase != RUNS or job.going != STAYS:
        return ""
    if not is_scheduled(state, job):
        return "no node has room for it"
    content = state.claims[job.survivor]
    refused = content and content.content and content.content.harm == DATABASE
    return "container etcd keeps failing" if refused else ""
