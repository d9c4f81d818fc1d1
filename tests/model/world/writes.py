"""The effects of writes, if the preconditions of their steps hold.

`Refused` is raised for a conflict, or if etcd refuses; nothing changes then. Whether the write was
allowed at all is checked by `rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from etcd_stateful.membership import steps
from etcd_stateful.membership.steps import Step, Write
from model.world import etcd, job, orders, tables, volume
from model.world.etcd import Refused
from model.world.moves import run_etcd
from model.world.state import LEAVING, NONE, PENDING, START, Record, State
from model.world.world import World


def is_write(step: Step) -> bool:
    return not isinstance(step, steps.Wait | steps.Hold | steps.Settled)


def apply(state: State, step: Write) -> State:
    """Raises Refused."""
    world = World(state)
    if isinstance(step, steps.EtcdChange):
        etcd.change(world, step)
    else:
        _CARRIED_OUT[type(step)](world, step)
    return world.freeze()


def _apply_child(world: World, step: steps.ApplyChild) -> None:
    field = field_of(step)
    there = getattr(world, field) != NONE
    metadata: Any = step.manifest["metadata"]
    if there != ("resourceVersion" in metadata):
        raise Refused("another resourceVersion, or there is one by now")
    setattr(world, field, tables.stored(step.manifest))
    world.touch(step.kind, step.name)
    if field == "sts":
        world.asleep = False


def _touch(world: World, step: steps.TouchStatefulSet) -> None:
    if world.sts == NONE:
        raise Refused("the StatefulSet is gone")
    world.touch("StatefulSet", step.name)
    world.asleep = False


_FIELDS: Final = {"StatefulSet": "sts", "PodDisruptionBudget": "budget"}


def field_of(step: steps.ApplyChild) -> str:
    if step.kind in _FIELDS:
        return _FIELDS[step.kind]
    return "headless" if step.name == tables.NAME else "client"


def _create_secret(world: World, step: steps.CreateSecret) -> None:
    if world.secret != NONE:
        raise Refused("there is a Secret")
    world.secret = tables.bootstrap(step.record)
    world.touch("secret")
    if step.record.latched:
        world.told = step.record.cluster_id
    elif not any(content.log for content in world.contents()):
        world.given = ()  # No member with a ticket is left, so its ID may be used again.


def _write_bootstrap(world: World, step: steps.WriteBootstrap) -> None:
    if world.secret == NONE:
        raise Refused("there is no Secret")
    world.secret = tables.bootstrap(step.record)
    world.touch("secret")
    if step.record.latched:
        world.told = step.record.cluster_id  # The status is written after every pass.


def _record_member(world: World, step: steps.RecordMember) -> None:
    said = step.record
    record = Record(said.member_id, said.cluster_id, own=True, epoch=said.epoch)
    if step.kind == "Pod":
        ordinal = tables.ordinal_of(step.name)
        pod = world.pods[ordinal]
        if pod is None:
            raise Refused("the pod is gone")
        world.pods[ordinal] = pod._replace(record=record)
        world.touch("pod", ordinal)
        return
    ordinal = tables.ordinal_of(step.name.removeprefix("data-"))
    claim = world.claims[ordinal]
    if claim is None:
        raise Refused("the claim is gone")
    world.claims[ordinal] = claim._replace(record=record)
    world.touch("claim", ordinal)


def _push(world: World, step: steps.PushTicket) -> None:
    """Succeeds if a fresh read shows the pod in `start`, and if the ledger has the ticket."""
    ordinal, ticket = tables.ordinal_of(step.pod), step.ticket
    pod, away = world.pods[ordinal], world.away >> ordinal & 1
    if pod is None or pod.where != START or pod.deleting or away or world.cut:
        raise Refused("no longer in start")
    if world.secret == NONE:
        raise Refused("there is no key to sign the ticket with")
    if tables.bootstraps[world.secret].challenge(ticket.member_id) != ticket.challenge:
        raise Refused("the ledger does not know the ticket")
    epoch = tables.templates[pod.template].epoch
    taken = volume.take(ordinal, world.content(ordinal), epoch, tables.run_of(ordinal), ticket)
    if isinstance(taken, str):
        raise Refused(taken)
    world.set_content(ordinal, taken)
    world.given = tuple(sorted({*world.given, (ticket.member_id, True)}))
    world.touch("pod", ordinal)
    world.touch("pod uid", ordinal)
    run_etcd(world, ordinal)


def _delete_claim(world: World, step: steps.DeleteClaim) -> None:
    ordinal = tables.ordinal_of(step.name.removeprefix("data-"))
    claim = world.claims[ordinal]
    if claim is None:
        raise Refused("the claim is gone")
    if claim.deleting:
        return
    world.claims[ordinal] = claim._replace(deleting=True)
    world.touch("claim", ordinal)


def _create_job(world: World, step: steps.CreateJob) -> None:
    if world.job is not None and world.job.going != LEAVING:
        raise Refused("there is one of that name")
    world.job = orders.ordered(step.manifest)
    world.touch("job")


def _delete_job(world: World, step: steps.DeleteJob) -> None:
    if world.job is None or world.job.going == LEAVING:
        raise Refused("the Job is gone")
    job.leave(world, world.job)


def _delete_pod(world: World, step: steps.DeletePod) -> None:
    ordinal = tables.ordinal_of(step.name)
    pod = world.pods[ordinal]
    if pod is None:
        raise Refused("the pod is gone")
    if step.force:
        world.drop_pod(ordinal)
        return
    if pod.deleting:
        return
    if pod.where != PENDING:
        world.ours |= 1 << ordinal
    world.pods[ordinal] = pod._replace(deleting=True)
    world.touch("pod", ordinal)


_CARRIED_OUT: Final[dict[type, Callable[[World, Any], None]]] = {
    steps.ApplyChild: _apply_child,
    steps.TouchStatefulSet: _touch,
    steps.CreateSecret: _create_secret,
    steps.WriteBootstrap: _write_bootstrap,
    steps.RecordMember: _record_member,
    steps.PushTicket: _push,
    steps.DeleteClaim: _delete_claim,
    steps.DeletePod: _delete_pod,
    steps.CreateJob: _create_job,
    steps.DeleteJob: _delete_job,
}
