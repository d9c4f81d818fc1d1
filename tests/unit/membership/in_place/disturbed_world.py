"""What may happen to volumes, the record and the StatefulSet during a restore in place."""

from __future__ import annotations

from collections.abc import Callable

from inplace_world import InPlaceWorld
from worlds import UID, body, is_write, labels

from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import Step
from etcd_stateful.observed.objects import Job

MOST = 600


def data_of(world: InPlaceWorld, cluster_id: int) -> list[int]:
    found = ((one, world.claims[one].data) for one in sorted(world.claims))
    return [ordinal for ordinal, data in found if data and data.cluster_id == cluster_id]


def deleted_and_adopted(world: InPlaceWorld) -> InPlaceWorld:
    """The cluster is deleted and declared again under its name, to adopt the old data."""
    following = InPlaceWorld(body(3, uid="uid-again", retainedClaims={"adopt": UID}))
    for left in ("claims", "etcds", "ticketed", "epochs", "filled", "replaced", "_count"):
        setattr(following, left, getattr(world, left))
    following.body.setdefault("status", {})
    return following


def go(world: InPlaceWorld, stop: Callable[[Step], bool], most: int = MOST) -> Step:
    """Continues until just before the first step of that kind."""
    for _ in range(most):
        step = decide(world.observe())
        if stop(step):
            return step
        world.apply(step) if is_write(step) else world.turn()
    raise AssertionError(labels(world.history[-8:]))


def is_stop(step: Step) -> bool:
    kind, manifest = getattr(step, "kind", ""), getattr(step, "manifest", {})
    return kind == "StatefulSet" and manifest["spec"]["replicas"] == 0


def until_job(world: InPlaceWorld) -> Job:
    go(world, lambda _: world.job is not None)
    assert world.job is not None
    return world.job
