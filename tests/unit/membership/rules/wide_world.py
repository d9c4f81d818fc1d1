"""What the tests of the safety rules share."""

from __future__ import annotations

from worlds import World, until

from etcd_stateful.membership.steps import PushTicket

EMPTY_DIR = {"pod": {"emptyDir": {}}}


def before(world: World, label: str) -> World:
    """The world just before the step of that label."""
    until(world, label)
    return world


def pushes(world: World) -> list[PushTicket]:
    return [step for step in world.history if isinstance(step, PushTicket)]
