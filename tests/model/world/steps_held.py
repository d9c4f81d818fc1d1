"""Held steps: an operator has decided on them and not applied them yet. They are part of the state.

The preconditions of a step (UID, resourceVersion, challenge) refer to objects. Once the object has
changed, the precondition can never hold again, and the step is dropped (`World.touch`).
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, Final

from etcd_stateful.membership.steps import (
    ApplyChild,
    CreateJob,
    DeleteClaim,
    DeleteJob,
    DeletePod,
    PushTicket,
    RecordMember,
    Step,
    WriteBootstrap,
)
from model.world import orders, tables
from model.world.state import NONE

Guard = tuple[object, ...]

_steps: Final[tables.Table[Step]] = tables.Table()


def hold(step: Step) -> int:
    return _steps.number(repr(step), step)


def step(number: int) -> Step:
    return _steps[number]


@functools.cache
def guards(number: int) -> frozenset[Guard]:
    """The objects whose change makes the step invalid."""
    held = _steps[number]
    match held:
        case ApplyChild(manifest=manifest, kind=kind, name=name):
            metadata: Any = manifest["metadata"]
            return frozenset({(kind, name)} if "resourceVersion" in metadata else ())
        case WriteBootstrap() | DeleteJob():
            return frozenset({("job",) if isinstance(held, DeleteJob) else ("secret",)})
        case RecordMember(kind="Pod", name=name) | DeletePod(name=name):
            return frozenset({("pod", tables.ordinal_of(name))})
        case RecordMember(name=name) | DeleteClaim(name=name):
            return frozenset({("claim", tables.ordinal_of(name.removeprefix("data-")))})
        case PushTicket(pod=pod):
            return frozenset({("pod uid", tables.ordinal_of(pod))})
        case _:
            return frozenset()


def without_run(number: int, run: str) -> int:
    held = _steps[number]
    if isinstance(held, PushTicket) and held.ticket.challenge == run:
        return NONE
    if isinstance(held, WriteBootstrap) and any(one == run for _, one in held.record.issued):
        issued = tuple(
            sorted(
                (member, tables.GONE if one == run else one) for member, one in held.record.issued
            )
        )
        return hold(replace(held, record=replace(held.record, issued=issued)))
    return number


@functools.cache
def members(number: int) -> tuple[int, ...]:
    """IDs that the step names."""
    held: Any = _steps[number]
    found = []
    if hasattr(held, "leader"):
        found.append(held.leader.member_id)
    if hasattr(held, "member_id"):
        found.append(held.member_id)
    if isinstance(held, RecordMember):
        found.append(held.record.member_id)
    if isinstance(held, PushTicket):
        found.append(held.ticket.member_id)
    if isinstance(held, CreateJob):
        found.append(orders.ordered(held.manifest).member)
    if isinstance(held, WriteBootstrap):
        found.extend(member for member, _ in held.record.issued)
    return tuple(found)


def renamed(number: int, names: tuple[tuple[int, int], ...]) -> int:
    held: Any = _steps[number]
    new = {old: name for old, name in names if name}

    def of(member: int) -> int:
        return new.get(member, member)

    changed: dict[str, Any] = {}
    if hasattr(held, "leader"):
        changed["leader"] = replace(held.leader, member_id=of(held.leader.member_id))
    if hasattr(held, "member_id"):
        changed["member_id"] = of(held.member_id)
    if isinstance(held, RecordMember):
        changed["record"] = replace(held.record, member_id=of(held.record.member_id))
    if isinstance(held, PushTicket):
        changed["ticket"] = replace(held.ticket, member_id=of(held.ticket.member_id))
    if isinstance(held, CreateJob):
        member = orders.ordered(held.manifest).member
        changed["manifest"] = orders.renamed(held.manifest, member, of(member))
    if isinstance(held, WriteBootstrap):
        issued = tuple(sorted((of(member), run) for member, run in held.record.issued))
        changed["record"] = replace(held.record, issued=issued)
    return hold(replace(held, **changed)) if changed else number
