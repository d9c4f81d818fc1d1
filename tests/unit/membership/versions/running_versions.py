"""Clusters that run one version, or are on the way to another."""

from __future__ import annotations

from worlds import World, formed

from etcd_stateful.membership.steps import DeletePod

EMPTY_DIR = {"pod": {"emptyDir": {}}}
OLD, MIDDLE, NEW = "3.5.33", "3.6.14", "3.7.3"


def running(version: str, size: int = 3, **spec: object) -> World:
    world = formed(size, version=version, **spec)
    world.turn()
    world.history.clear()
    return world


def changing(before: str, after: str, size: int = 3, **spec: object) -> World:
    world = running(before, size, **spec)
    world.edit(version=after)
    return world


def versions(world: World) -> list[str]:
    return [world.pods[ordinal].version for ordinal in sorted(world.pods)]


def restarts(world: World) -> list[str]:
    return [one.name for one in world.history if isinstance(one, DeletePod)]
