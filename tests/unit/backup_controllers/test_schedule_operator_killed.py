"""The operator is killed before and after each of its calls, over some runs of a schedule.

Each time another one continues without any knowledge of the earlier one. Every run is made once,
at its time, and only what the retention no longer keeps is deleted.
"""

from __future__ import annotations

import pytest

from etcd_operator.backup_controllers.schedule import Schedules
from etcd_operator.kube.events import Events
from etcd_operator.telemetry.metrics import Metrics
from unit.backup_controllers.mortal import MOST, Death, When, told
from unit.backup_controllers.schedule.one_schedule import World

MINUTES = ("03:00", "03:01", "03:02")


class Mortal(World):
    """Its operator dies at the call with this number."""

    def __init__(self, at: int, when: When) -> None:
        super().__init__()
        self.death = Death(self.kube, at, when)
        self.declare(retention={"count": 1})

    async def settle(self) -> float | None:
        """As it is for tests without a death. The last pass says when the next one is due."""
        after: list[float | None] = []

        async def passes() -> None:
            after.append(await World.settle(self))

        await self.death.survived(passes, self.begin_anew)
        return after[-1]

    def begin_anew(self) -> None:
        store = self.death.all_read_again()
        events = Events(self.kube, instance="another", clock=self.clock)
        self.metrics = Metrics()
        self.schedules = Schedules(self.kube, store, events, self.metrics, wall_clock=self.clock)

    def deletions_end(self) -> None:
        """The passes over the EtcdBackups have removed their finalizers."""
        for kind, namespace, name in list(self.kube.objects):
            if "deletionTimestamp" in self.kube.live(kind, name, namespace)["metadata"]:
                self.kube.remove(kind, namespace, name)

    async def life(self) -> None:
        """The third run is not verified, so that the one before is kept as well. Then one is due
        while the fourth still runs."""
        await self.runs(*MINUTES[:2])
        self.deletions_end()
        await self.runs(MINUTES[2], verified=False)
        await self.until("03:03:00")
        await self.until("03:04:00")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_each_run_is_made_once_if_the_operator_dies_at_any_call(when: When) -> None:
    for at in range(1, MOST):
        world = Mortal(at, when)
        await world.life()

        made = world.death.made
        assert len(made) == len(set(made)) == len(MINUTES) + 1, at
        assert world.death.deleted == made[:1], at
        assert world.backups() == ["03:01", "03:02", "03:03"], at
        assert (world.status["missedRuns"], world.status["lastScheduleTime"]) == (
            1, "2026-11-21T03:03:00Z"
        ), at  # fmt: skip
        assert "StillRunning" in told(world.kube), at
        if not world.death.came:
            break
    assert 10 < at < MOST - 1
