"""A recovery, driven until a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recovery_world import RecoveryWorld, lost
from worlds import is_write

from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ApplyChild, Hold, Step, Wait, WriteBootstrap
from etcd_stateful.records.member import MemberRecord


def hold(step: Step, reason: str, *words: str) -> Hold:
    assert isinstance(step, Hold), step
    assert step.reason == reason, step
    for word in words:
        assert word in step.message, step.message
    return step


def wait(step: Step, *words: str) -> Wait:
    assert isinstance(step, Wait), step
    for word in words:
        assert word in step.reason, step.reason
    return step


def drive_until(world: RecoveryWorld, kind: type, **fields: Any) -> Any:
    """Continues until just before a step of this kind."""
    for _ in range(100):
        step = decide(world.observe())
        if isinstance(step, kind) and all(
            getattr(step, key) == value for key, value in fields.items()
        ):
            return step
        world.apply(step) if is_write(step) else world.turn()
    raise AssertionError(f"never came to {kind}; at last {decide(world.observe())}")


def raised(**given: Any) -> RecoveryWorld:
    """A recovery that has just raised the epoch."""
    world = lost(**given)
    world.ask(1)
    world.apply(drive_until(world, WriteBootstrap))
    assert world.record.survivor == "c-1"
    while isinstance(step := decide(world.observe()), ApplyChild):
        world.apply(step)
    return world


def first_id(world: RecoveryWorld, ordinal: int) -> int:
    held = world.member_record(ordinal)
    assert held is not None
    return held.member_id


def with_claim(seen: Observation, ordinal: int, **change: Any) -> Observation:
    claims = tuple(
        replace(claim, **change) if claim.ordinal == ordinal else claim for claim in seen.claims
    )
    return replace(seen, claims=claims)


def other_record(seen: Observation, **change: Any) -> MemberRecord:
    claim = seen.claim(0)
    assert claim is not None
    assert claim.record is not None
    return replace(claim.record, **change)
