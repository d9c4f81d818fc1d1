"""The operator is killed before and after each of its calls, from a backup's first pass to its end.

Each time another one continues without any knowledge of the earlier one. The result is as if
nothing had happened: one Job of each kind, all of them observed, and no finalizer removed before
what was stored is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from fakes import FakeKube

from etcd_operator.backup_controllers.backup import Backups
from etcd_operator.kube.api import ETCD_BACKUPS, EVENTS, JOBS, PODS
from etcd_operator.kube.events import Events
from etcd_operator.kube.store import Store
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.backup import outcome
from etcd_stateful.backup.outcome import Removed
from unit.backup.test_trial import MADE, PROVEN, VERIFICATION
from unit.backup_controllers.test_backup import KEY, LABELS, World

CALLS = ("get", "list", "create", "merge_patch", "apply", "delete")
BACKUP, DELETION = "b-backup-g1", "b-backup-delete-g2"
MOST = 100

When = Literal["before", "after"]


class Killed(BaseException):
    """The operator was killed."""


class Mortal(World):
    """Its operator dies at the call with this number. The operators after it do not die."""

    def __init__(self, at: int, when: When) -> None:
        super().__init__()
        self.left, self.when = at, when
        self.made: list[str] = []
        for name in CALLS:
            setattr(self.kube, name, self._mortal(getattr(self.kube, name)))
        self.declare(verify="Restore", deletionPolicy="Delete")

    def _mortal(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and self.when == "before":
                raise Killed
            answer = await real(*arguments, **named)
            if real.__name__ == "create" and arguments[0] == JOBS:
                self.made.append(answer["metadata"]["name"])
            if self.left == 0:
                raise Killed
            return answer

        return call

    @property
    def died(self) -> bool:
        return self.left <= 0

    async def rest(self) -> None:
        try:
            await self.settle()
        except Killed:
            self.begin_anew()
            await self.settle()

    def begin_anew(self) -> None:
        store = self.kube.store = Store()
        for name in self.kube.objects:
            self.kube.publish(name)
        events = Events(self.kube, instance="another", clock=self.clock)
        self.backups = Backups(
            self.kube, store, events, Metrics(),
            operator_image="operator:1", ask=self._ask, wall_clock=self.clock,
        )  # fmt: skip

    def ends(self, job: str, message: str) -> None:
        """The Job's pod has finished, and reports it."""
        body = self.kube.live(JOBS, job)
        reference = {"kind": "Job", "uid": body["metadata"]["uid"], "controller": True}
        metadata = {
            "namespace": "default",
            "name": f"{job}-p",
            "labels": LABELS,
            "annotations": {naming.BACKUP: "b"},
            "ownerReferences": [reference],
        }
        ended = {"terminated": {"exitCode": 0, "message": message}}
        containers = [{"name": "backup", "state": ended}]
        status = {"phase": "Succeeded", "containerStatuses": containers}
        self.kube.put(PODS, {"metadata": metadata, "status": status})
        body["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        self.kube.put(JOBS, body)

    def finalizers(self) -> list[str]:
        return self.kube.live(ETCD_BACKUPS, "b")["metadata"].get("finalizers") or []

    async def life(self) -> None:
        await self.rest()
        self.ends(BACKUP, outcome.serialise(MADE))
        await self.rest()
        assert "succeeded" not in self.status
        self.ends(VERIFICATION, outcome.serialise(PROVEN))
        await self.rest()
        assert (self.status["succeeded"], self.status["verified"]) == (True, "Restore")

        body = self.kube.live(ETCD_BACKUPS, "b")
        body["metadata"]["deletionTimestamp"] = self.clock.rfc3339()
        body["metadata"]["generation"] += 1
        self.kube.put(ETCD_BACKUPS, body)
        await self.rest()
        assert self.finalizers()
        self.ends(DELETION, outcome.serialise(Removed(1)))
        await self.rest()
        assert not self.finalizers()


def told(kube: FakeKube) -> set[str]:
    return {one["reason"] for (kind, *_), one in kube.objects.items() if kind == EVENTS}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_backup_continues_after_its_operator_died_at_any_call(when: When) -> None:
    for at in range(1, MOST):
        world = Mortal(at, when)
        await world.life()

        assert world.made == [BACKUP, VERIFICATION, DELETION], at
        assert not world.kube.calls["delete Job"], at
        assert "Stored" in told(world.kube), at
        assert KEY in world.kube.store.keys(ETCD_BACKUPS)  # type: ignore[union-attr]
        if not world.died:
            break
    assert 15 < at < MOST - 1
