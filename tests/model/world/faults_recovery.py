"""Faults during a recovery, and in the cluster after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from model.world import job, tables
from model.world.moves import run_start
from model.world.state import FAILED, LOG, PENDING, PHASE, RUNS, STAYS, Job, Pod
from model.world.world import World


def _at_work(world: World, ordinal: int) -> Job | None:
    made = world.job
    found = made is not None and made.survivor == ordinal and made.going == STAYS
    return made if found else None


def job_deleted(world: World, ordinal: int) -> bool:
    """Deleted with kubectl, in the foreground."""
    made = _at_work(world, ordinal)
    if made is None:
        return False
    job.delete_foreground(world, made)
    return True


def job_fails(world: World, ordinal: int) -> bool:
    """Its pods were killed until its back-off limit was reached."""
    made = _at_work(world, ordinal)
    if made is None or made.phase != RUNS:
        return False
    world.job = made._replace(phase=FAILED)
    world.touch("job")
    return True


def volume_lost_under_job(world: World, ordinal: int) -> bool:
    claim = world.claims[ordinal]
    if claim is None or claim.lost or _at_work(world, ordinal) is None:
        return False
    world.claims[ordinal] = claim._replace(lost=PHASE, content=None)
    world.touch("claim", ordinal)
    return True


def log_damaged_under_job(world: World, ordinal: int) -> bool:
    content = world.content(ordinal)
    if content is None or not content.log or content.harm or _at_work(world, ordinal) is None:
        return False
    world.set_content(ordinal, content._replace(harm=LOG))
    return True


def pod_of_before_restored(world: World, ordinal: int) -> bool:
    """A pod of the earlier epoch is restored from a backup of Kubernetes objects, even while there
    should be no pods. The StatefulSet adopts it."""
    pod, claim = world.pods[ordinal], world.claims[ordinal]
    if world.sts < 0 or claim is None or claim.deleting or claim.lost:
        return False
    before = tables.of_before(tables.objects[world.sts].template)
    if before < 0 or (pod and (pod.deleting or pod.template == before or pod.where == PENDING)):
        return False
    if world.away >> ordinal & 1 or (world.job is not None and world.job.survivor == ordinal):
        return False
    world.touch("pod", ordinal)
    world.touch("pod uid", ordinal)
    world.pods[ordinal] = Pod(PENDING, before)
    run_start(world, ordinal)
    return True


FAULTS: Final[dict[str, Callable[[World, int], bool]]] = {
    one.__name__: one
    for one in (
        job_deleted,
        job_fails,
        volume_lost_under_job,
        log_damaged_under_job,
        pod_of_before_restored,
    )
}
"""Faults that are only possible with a recovery, apart from those of any cluster."""
