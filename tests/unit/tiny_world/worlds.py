"""A tiny world for the planner: API server, StatefulSet controller, kubelet, `start` and etcd.

`World.apply` carries out a step as the shell would. It checks every precondition that the step
names (`Conflict`), and the safety rules (`world_rules`): no write may break a rule, whatever
happened before. `World.turn` lets everything else continue: pods are created, `start` runs, members
connect and catch up. `drive` plays the operator.

Nothing here knows how the planner decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from world_api import UID, Json, body, cluster, with_defaults
from world_core import World
from world_etcd import Conflict, Data
from world_rules import RuleBroken
from world_view import IMAGE

from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import (
    ApplyChild,
    DeleteClaim,
    DeletePod,
    Hold,
    MemberAddLearner,
    MemberPromote,
    MemberRemove,
    MoveLeader,
    PushTicket,
    RecordMember,
    Settled,
    Step,
    Wait,
    WriteBootstrap,
)

__all__ = [
    "IMAGE", "OLD", "OLDER", "UID", "Conflict", "Data", "Json", "RuleBroken", "World", "body",
    "cluster", "drive", "formed", "is_write", "labels", "until", "with_defaults",
]  # fmt: skip

OLD = "0ld00000-0000-4000-8000-000000000001"
OLDER = "0ld00000-0000-4000-8000-000000000002"


def is_write(step: Step) -> bool:
    return not isinstance(step, Wait | Hold | Settled)


def labels(steps: list[Step]) -> list[str]:
    """Short names of steps, to compare whole chains."""
    return [_label(step) for step in steps]


def _label(step: Step) -> str:  # noqa: C901, PLR0911
    match step:
        case ApplyChild(kind=kind, name=name):
            return f"{kind} {name}"
        case WriteBootstrap(reason=reason) if reason.startswith("the cluster goes"):
            return f"version {step.record.version}"
        case WriteBootstrap(reason=reason) if "has formed" in reason:
            return "latch"
        case WriteBootstrap(record=record, reason=reason) if reason.endswith("members now"):
            return f"size {record.size}"
        case WriteBootstrap(record=record):
            return f"ledger {len(record.issued)}"
        case RecordMember(name=name):
            return f"record {name}"
        case PushTicket(pod=pod, ticket=ticket):
            return f"push {pod} {ticket.state}"
        case DeleteClaim(name=name):
            return f"delete {name}"
        case DeletePod(name=name, force=force):
            return f"{'force' if force else 'restart'} {name}"
        case MemberAddLearner(peer_url=url):
            return f"add {url.partition('//')[2].partition('.')[0]}"
        case MemberPromote() | MemberRemove() | MoveLeader():
            return f"{_VERBS[type(step)]} {step.reason.partition(' ')[0]}"
        case _:
            return type(step).__name__


_VERBS = {MemberPromote: "promote", MemberRemove: "remove", MoveLeader: "lead"}


def once(world: World) -> Step:
    """One pass of the operator; if it writes nothing, the world goes on."""
    step = decide(world.observe())
    world.apply(step) if is_write(step) else world.turn()
    return step


def drive(
    world: World, *, idle: int = 15, limit: int = 300, each: Callable[[Step], None] | None = None
) -> Step:
    """Runs the operator and the world until nothing has been written for `idle` seconds.

    The operator is restarted before every step, so it cannot depend on anything it remembers.
    Returns the step at which it rests.
    """
    rest = 0
    for _ in range(limit):
        step = decide(world.observe())
        if each:
            each(step)
        if is_write(step):
            world.apply(step)
            rest = 0
            continue
        world.turn()
        rest += 4 if isinstance(step, Settled) else 1  # a settled cluster changes no more by itself
        if rest > idle:
            return step
    raise AssertionError(f"never comes to rest; at last {labels(world.history[-6:])}")


def claim_gone(ordinal: int) -> Wait:
    """The wait for the claim of this ordinal, which is being deleted."""
    name = f"data-c-{ordinal}"
    return Wait(
        f"claim {name} to be gone (if it stays, kubectl describe pvc {name} names the pod that "
        "uses it and its finalizers)"
    )


def guess_version(world: World, wrong: str) -> None:
    """Loses all that tells the version, but for a spec with one that no member can run."""
    world.lose_secret()
    world.delete_stateful_set()
    world.pods.clear()
    world.edit(version=wrong)
    world.failing = {wrong}
    drive(world)


def formed(size: int = 3, **spec: Any) -> World:
    """A settled cluster."""
    world = World(body(size, **spec))
    step = drive(world, idle=2)
    assert step == Settled(), step
    return world


def until(world: World, label: str) -> Step:
    """Continues until just before the first step with that label, and returns the step."""
    for _ in range(120):
        step = decide(world.observe())
        if labels([step]) == [label]:
            return step
        world.apply(step) if is_write(step) else world.turn()
    raise AssertionError(f"never came to {label}; at last {labels(world.history[-6:])}")
