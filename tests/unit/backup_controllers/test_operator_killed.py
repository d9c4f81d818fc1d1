"""The operator is killed before and after each of its calls, from a backup's first pass to its end.

Each time another one continues without any knowledge of the earlier one. The result is as if
nothing had happened: one Job of each kind, all of them observed, and no finalizer removed before
what was stored is deleted.
"""

from __future__ import annotations

import pytest

from etcd_operator.backup_controllers.backup import Backups
from etcd_operator.kube.api import ETCD_BACKUPS, JOBS, PODS
from etcd_operator.kube.events import Events
from etcd_operator.telemetry.metrics import Metrics
from etcd_stateful import naming
from etcd_stateful.backup import outcome
from etcd_stateful.backup.outcome import Removed
from unit.backup.test_trial import MADE, PROVEN, VERIFICATION
from unit.backup_controllers.backup.one_backup import KEY, LABELS, World
from unit.backup_controllers.mortal import MOST, Death, When, told

BACKUP, DELETION = "b-backup-g1", "b-backup-delete-g2"


class Mortal(World):
    """Its operator dies at the call with this number."""

    def __init__(self, at: int, when: When) -> None:
        super().__init__()
        self.death = Death(self.kube, at, when)
        self.declare(verify="Restore", deletionPolicy="Delete")

    async def rest(self) -> None:
        await self.death.survived(self.settle, self.begin_anew)

    def begin_anew(self) -> None:
        store = self.death.all_read_again()
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


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_backup_continues_after_its_operator_died_at_any_call(when: When) -> None:
    for at in range(1, MOST):
        world = Mortal(at, when)
        await world.life()

        assert world.death.made == [BACKUP, VERIFICATION, DELETION], at
        assert not world.kube.calls["delete Job"], at
        assert "Stored" in told(world.kube), at
        assert KEY in world.kube.store.keys(ETCD_BACKUPS)  # type: ignore[union-attr]
        if not world.death.came:
            break
    assert 15 < at < MOST - 1
