"""Edits of a cluster that call for a restart."""

from __future__ import annotations

from worlds import World, formed, until

from etcd_stateful.membership.planner import decide

EMPTY_DIR = {"emptyDir": {}}
LABEL = {"pod": {"labels": {"team": "a"}}}


def edited(size: int = 3, **spec: object) -> World:
    """A settled cluster whose spec was edited; its StatefulSet has the new template already."""
    world = formed(size)
    world.history.clear()
    world.edit(**(spec or LABEL))
    until(world, "StatefulSet c")
    world.apply(decide(world.observe()))
    world.turn()
    world.history.clear()
    return world
