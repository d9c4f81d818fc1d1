"""Faults by name, most of them at an ordinal.

A fault returns None where it is impossible. `FREE` faults end a passing fault and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from etcd_stateful.versions import Version
from model.world import faults_of_others, faults_recovery, tables
from model.world.etcd import Refused, remove
from model.world.moves import run_etcd, run_start
from model.world.state import (
    BOUND,
    CRASH,
    DATABASE,
    DIFFERENT,
    ETCD,
    LOG,
    NO_HARM,
    NODE,
    NONE,
    PENDING,
    PHASE,
    START,
    UNREADABLE,
    UNSTARTED,
    Pod,
    State,
    has_quorum,
    is_up,
    member_at,
    voters,
)
from model.world.world import World

FEWEST: Final = 3
"""The fewest voters of which a majority can tell which one differs."""

Fault = Callable[[World, int], bool]

_RARE: Final = faults_recovery.FAULTS | faults_of_others.FAULTS


def happen(state: State, name: str, ordinal: int) -> State | None:
    """The state after the fault; None if it cannot happen or changes nothing."""
    world = World(state)
    fault = FAULTS.get(name) or FREE.get(name) or _RARE[name]
    if not fault(world, ordinal):
        return None
    after = world.freeze()
    return after if after != state else None


def container_restarts(world: World, ordinal: int) -> bool:
    """Only etcd's container restarts; init containers do not run again."""
    if not _runs(world, ordinal):
        return False
    run_etcd(world, ordinal)
    return True


def pod_deleted(world: World, ordinal: int) -> bool:
    pod = world.pods[ordinal]
    if pod is None or pod.deleting:
        return False
    world.pods[ordinal] = pod._replace(deleting=True)
    world.touch("pod", ordinal)
    return True


def claim_deleted(world: World, ordinal: int) -> bool:
    """Deleted with kubectl. The claim stays as long as a pod uses it."""
    claim = world.claims[ordinal]
    if claim is None or claim.deleting:
        return False
    world.claims[ordinal] = claim._replace(deleting=True)
    world.touch("claim", ordinal)
    return True


def claim_and_pod_deleted(world: World, ordinal: int) -> bool:
    return claim_deleted(world, ordinal) and pod_deleted(world, ordinal)


def volume_emptied(world: World, ordinal: int) -> bool:
    """Emptied while the pod runs, whose container fails and is restarted."""
    if world.content(ordinal) is None or not _runs(world, ordinal) or not world.durable:
        return False
    world.set_content(ordinal, None)
    run_etcd(world, ordinal)
    return True


def node_reimaged(world: World, ordinal: int) -> bool:
    """The pod object stays, and all its containers start again on an empty disk."""
    pod = world.pods[ordinal]
    if pod is None or pod.where in UNSTARTED or pod.deleting or world.away >> ordinal & 1:
        return False
    world.set_content(ordinal, None)
    run_start(world, ordinal)
    return True


def log_damaged(world: World, ordinal: int) -> bool:
    """Only `start` reports it. Pods with an emptyDir are not restarted to find it."""
    return world.durable and _damaged(world, ordinal, LOG)


def database_damaged(world: World, ordinal: int) -> bool:
    return _damaged(world, ordinal, DATABASE)


def _damaged(world: World, ordinal: int, harm: int) -> bool:
    content = world.content(ordinal)
    if content is None or not content.log or content.harm or not _runs(world, ordinal):
        return False
    world.set_content(ordinal, content._replace(harm=harm))
    run_etcd(world, ordinal)
    return True


def volume_unreadable(world: World, ordinal: int) -> bool:
    """For a while, from the moment that the pod is recreated."""
    content, pod = world.content(ordinal), world.pods[ordinal]
    if content is None or not content.log or content.harm or not _runs(world, ordinal):
        return False
    assert pod is not None
    if not world.durable:
        return False
    world.set_content(ordinal, content._replace(harm=UNREADABLE))
    _restarted(world, ordinal, pod)
    return True


def readable(world: World, ordinal: int) -> bool:
    content, pod = world.content(ordinal), world.pods[ordinal]
    if content is None or content.harm != UNREADABLE or pod is None or pod.where != START:
        return False
    world.set_content(ordinal, content._replace(harm=NO_HARM))
    _restarted(world, ordinal, pod)
    return True


def old_pod_restored(world: World, ordinal: int) -> bool:
    """Restored from a backup of Kubernetes objects: with the oldest version, and on its node."""
    pod = world.pods[ordinal]
    if pod is None or pod.where in UNSTARTED or pod.deleting or world.away >> ordinal & 1:
        return False
    template = min((one.template for one in world.pods if one is not None), key=_age)
    _restarted(world, ordinal, pod._replace(template=template, content=None))
    return True


def _age(template: int) -> tuple[Version, str]:
    """The age of a template by its content. Its number depends on the history of this process."""
    made = tables.templates[template]
    return made.version, made.text


def data_differs(world: World, ordinal: int) -> bool:
    """Silently, until the leader's check raises the alarm, on the right member."""
    return _differs(world, ordinal, blamed=ordinal)


def data_differs_and_another_is_blamed(world: World, ordinal: int) -> bool:
    return _differs(world, ordinal, blamed=0 if ordinal else 1)


def _differs(world: World, ordinal: int, *, blamed: int) -> bool:
    state = world.now()
    content, member = world.content(ordinal), member_at(state, blamed)
    if content is None or content.harm or not is_up(state, ordinal) or world.etcd is None:
        return False
    if member is None or world.etcd.alarms or not has_quorum(state):
        return False
    if len(voters(state)) < FEWEST:
        return False
    world.set_content(ordinal, content._replace(harm=DIFFERENT))
    world.etcd = world.etcd._replace(alarms=(member.member,))
    return True


def node_removed(world: World, ordinal: int) -> bool:
    """The node is gone with its volumes, and Kubernetes garbage-collects its pods."""
    pod, claim = world.pods[ordinal], world.claims[ordinal]
    if pod is None or pod.where == PENDING or (claim and claim.lost):
        return False
    if claim:
        world.claims[ordinal] = claim._replace(lost=NODE, content=None)
        world.touch("claim", ordinal)
    world.away &= ~(1 << ordinal)
    world.drop_pod(ordinal)
    return True


def volume_lost(world: World, ordinal: int) -> bool:
    """The claim's phase is Lost; the pod stops."""
    claim, pod = world.claims[ordinal], world.pods[ordinal]
    if claim is None or claim.lost or pod is None or pod.where == PENDING:
        return False
    world.claims[ordinal] = claim._replace(lost=PHASE, content=None)
    world.touch("claim", ordinal)
    world.drop_pod(ordinal)
    return True


def node_silent(world: World, ordinal: int) -> bool:
    """The node does not answer. Its processes may run, and the pod object stays as it was."""
    pod = world.pods[ordinal]
    if pod is None or pod.where == PENDING or world.away >> ordinal & 1:
        return False
    world.away |= 1 << ordinal
    return True


def unscheduled(world: World, ordinal: int) -> bool:
    if world.slow >> ordinal & 1:
        return False
    world.slow |= 1 << ordinal
    return True


def removed_by_hand(world: World, ordinal: int) -> bool:
    """`etcdctl member remove`, if etcd's rules allow it."""
    state = world.now()
    member = member_at(state, ordinal)
    if world.etcd is None or member is None or not world.etcd.leader or not has_quorum(state):
        return False
    try:
        remove(world, world.etcd, member.member)
    except Refused:
        return False
    return True


def wrong_mount(world: World, ordinal: int) -> bool:
    """A new pod finds an empty directory; the right volume may come back later."""
    claim, pod = world.claims[ordinal], world.pods[ordinal]
    if claim is None or claim.hidden or claim.content is None or not _runs(world, ordinal):
        return False
    assert pod is not None
    world.claims[ordinal] = claim._replace(content=None, hidden=claim.content)
    _restarted(world, ordinal, pod)
    return True


def _restarted(world: World, ordinal: int, pod: Pod) -> None:
    world.touch("pod uid", ordinal)
    world.pods[ordinal] = pod._replace(where=PENDING, linked=False, aged=False)
    run_start(world, ordinal)


def right_mount(world: World, ordinal: int) -> bool:
    claim, pod = world.claims[ordinal], world.pods[ordinal]
    if claim is None or claim.hidden is None or pod is None or pod.deleting:
        return False
    if pod.where in UNSTARTED:
        return False
    world.claims[ordinal] = claim._replace(content=claim.hidden, hidden=None)
    _restarted(world, ordinal, pod)
    return True


def onto_terminating_claim(world: World, ordinal: int) -> bool:
    """The new pod is bound to a node before its old claim is gone. The claim then stays because of
    the pod, and no kubelet starts a pod on a claim that is being deleted."""
    pod, claim = world.pods[ordinal], world.claims[ordinal]
    if pod is None or claim is None or not (pod.deleting and claim.deleting) or claim.lost:
        return False
    if world.sts == NONE or ordinal >= world.replicas():
        return False
    world.drop_pod(ordinal)
    world.pods[ordinal] = Pod(BOUND, tables.objects[world.sts].template)
    return True


def status_lost(world: World, ordinal: int) -> bool:
    changed, world.told = world.told != 0, 0
    return changed


def secret_lost(world: World, ordinal: int) -> bool:
    if world.secret == NONE:
        return False
    world.secret = NONE
    world.touch("secret")
    return True


def stateful_set_deleted(world: World, ordinal: int) -> bool:
    """Its pods go with it."""
    if not stateful_set_orphaned(world, ordinal):
        return False
    for at, pod in enumerate(world.pods):
        if pod is not None and not pod.deleting:
            world.pods[at] = pod._replace(deleting=True)
            world.touch("pod", at)
    return True


def stateful_set_orphaned(world: World, ordinal: int) -> bool:
    if world.sts == NONE:
        return False
    world.sts = NONE
    world.touch("StatefulSet", tables.NAME)
    return True


def pods_refused(world: World, ordinal: int) -> bool:
    """By a quota or a webhook that is gone by now, for so long that the StatefulSet controller does
    not try again by itself. In reality each event of another pod triggers a try."""
    if world.sts == NONE or world.asleep:
        return False
    replicas = min(world.replicas(), len(world.pods))
    world.asleep = any(world.pods[at] is None for at in range(replicas))
    return world.asleep


def budget_deleted(world: World, ordinal: int) -> bool:
    if world.budget == NONE:
        return False
    world.budget = NONE
    world.touch("PodDisruptionBudget", tables.NAME)
    return True


def operator_cut_off(world: World, ordinal: int) -> bool:
    changed, world.cut = not world.cut, True
    return changed


def operator_unpullable(world: World, ordinal: int) -> bool:
    """The operator was upgraded to an image that only its own node has."""
    changed, world.unpullable = not world.unpullable, True
    return changed


def operator_mended(world: World, ordinal: int) -> bool:
    changed, world.unpullable = world.unpullable, False
    return changed


def reconnected(world: World, ordinal: int) -> bool:
    changed, world.cut = world.cut, False
    return changed


def others_gone(world: World, ordinal: int) -> bool:
    leaving = faults_of_others.passing(world)
    faults_of_others.gone(world, leaving)
    return bool(leaving)


def scheduled(world: World, ordinal: int) -> bool:
    changed = bool(world.slow >> ordinal & 1)
    world.slow &= ~(1 << ordinal)
    return changed


def node_answers(world: World, ordinal: int) -> bool:
    """The node is back with its disk, and its containers start again."""
    if not world.away >> ordinal & 1:
        return False
    world.away &= ~(1 << ordinal)
    if _runs(world, ordinal):
        run_etcd(world, ordinal)
    return True


def _runs(world: World, ordinal: int) -> bool:
    pod = world.pods[ordinal]
    return pod is not None and pod.where in (ETCD, CRASH) and not world.away >> ordinal & 1


FAULTS: Final[dict[str, Fault]] = {
    one.__name__: one
    for one in (
        container_restarts,
        pod_deleted,
        claim_deleted,
        claim_and_pod_deleted,
        volume_emptied,
        node_reimaged,
        log_damaged,
        database_damaged,
        data_differs,
        data_differs_and_another_is_blamed,
        node_removed,
        volume_lost,
        volume_unreadable,
        old_pod_restored,
        node_silent,
        unscheduled,
        removed_by_hand,
        wrong_mount,
        onto_terminating_claim,
        status_lost,
        secret_lost,
        stateful_set_deleted,
        stateful_set_orphaned,
        pods_refused,
        budget_deleted,
        operator_cut_off,
        operator_unpullable,
    )
}
FREE: Final[dict[str, Fault]] = {
    one.__name__: one
    for one in (
        others_gone,
        right_mount,
        readable,
        reconnected,
        scheduled,
        node_answers,
        operator_mended,
    )
}
EVERYWHERE: Final = frozenset(
    {
        "status_lost",
        "secret_lost",
        "stateful_set_deleted",
        "stateful_set_orphaned",
        "pods_refused",
        "budget_deleted",
        "operator_cut_off",
        "operator_unpullable",
        "operator_mended",
        "reconnected",
    }
)
"""Faults that are not of one ordinal."""
