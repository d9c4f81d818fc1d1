"""Clusters whose members' database files are larger than their data."""

from __future__ import annotations

from typing import Any

from worlds import World, formed

from etcd_stateful.membership.upkeep.space import MIB
from etcd_stateful.observed.members import Alarm

QUOTA = 2048 * MIB
"""etcd's default quota, for a spec that sets none."""


def sized(size: int, *files: tuple[int, int], **spec: Any) -> World:
    """A settled cluster. For each ordinal: the size of the database file, and how much of it is in
    use, in MiB."""
    world = formed(size, **spec)
    by_ordinal = {world.seat(one): one for one in world.etcd.members}
    for ordinal, (file, used) in enumerate(files):
        world.etcd.sizes[by_ordinal[ordinal]] = (file * MIB, used * MIB)
    world.history.clear()
    return world


def full(size: int, *files: tuple[int, int], **spec: Any) -> World:
    """A cluster that has reached its quota."""
    world = sized(size, *(files or ((2048, 500),) * size), **spec)
    world.etcd.alarms = [Alarm("NOSPACE", min(world.etcd.members))]
    return world
