"""The operator is killed before and after each of its calls, while an EtcdRestore is carried out.

Each time another one continues without any knowledge of the earlier one. The cluster is created
once, from the backup, and an existing one is replaced only as confirmed.
"""

from __future__ import annotations

import pytest

from etcd_operator.backup_controllers.restore import Restores
from etcd_operator.kube.api import ETCD_CLUSTERS, ETCD_RESTORES, JOBS, PODS
from etcd_operator.kube.events import Events
from etcd_stateful import naming
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.backup.outcome import Described
from unit.backup_controllers.mortal import MOST, Death, When
from unit.backup_controllers.restore.one_restore import OLD, SPEC, World

JOB = "c-backup-d1"
CLUSTER_ID = "00000000000000ab"


class Mortal(World):
    """Its operator dies at the call with this number."""

    def __init__(self, at: int, when: When) -> None:
        super().__init__()
        self.death = Death(self.kube, at, when)

    async def rest(self) -> None:
        await self.death.survived(self.settle, self.begin_anew)

    def begin_anew(self) -> None:
        store = self.death.all_read_again()
        events = Events(self.kube, instance="another", clock=self.clock)
        self.restores = Restores(
            self.kube, store, events, operator_image="operator:1", wall_clock=self.clock
        )

    async def recreation(self) -> None:
        """The first Job ends on a node that is drained, so that nobody sees what it found."""
        await self.rest()
        self.end(Described(OLD, "3.7.3", 42))
        self.kube.remove(PODS, "default", f"p-{JOB}")
        await self.rest()
        assert "succeeded" not in self.status
        self.end(Described(OLD, "3.7.3", 42))
        await self.rest()
        assert self.condition()["reason"] == "Restoring"
        self.serve()
        await self.rest()

    async def replacement(self) -> None:
        metadata = {"namespace": "default", "name": "c"}
        self.kube.put(ETCD_CLUSTERS, {"metadata": metadata, "spec": OLD})
        self.serve()
        await self.rest()
        assert self.condition()["reason"] == "ClusterExists"
        self.edit(SPEC | {"replace": {"clusterID": CLUSTER_ID}})
        await self.rest()
        for state in ("Working", "Done"):
            said = {"uid": "uid-r", "generation": 2, "state": state, "message": "words"}
            self.serve(restore=said)
            await self.rest()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cluster_is_recreated_once_if_the_operator_dies_at_any_call(when: When) -> None:
    for at in range(1, MOST):
        world = Mortal(at, when)
        await world.recreation()

        assert world.death.made == [JOB, JOB, "c"], at
        assert world.death.deleted[:1] == [JOB], at
        made = world.kube.live(ETCD_CLUSTERS, "c")
        assert made["metadata"]["annotations"] == {naming.RESTORED_BY: "uid-r"}, at
        restore = parse_cluster(made).restore
        assert restore is not None, at
        assert restore.key == "etcd.backup", at
        assert world.status["succeeded"] is True, at
        assert CLUSTER_ID in world.condition()["message"], at
        if not world.death.came:
            break
        # Once done it stays done, whoever looks at it next.
        world.kube.remove(ETCD_CLUSTERS, "default", "c")
        world.begin_anew()
        await world.settle()
        assert world.kube.find(ETCD_CLUSTERS, "c") is None, at
    assert 10 < at < MOST - 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_replacement_is_reported_if_the_operator_dies_at_any_call(when: When) -> None:
    for at in range(1, MOST):
        world = Mortal(at, when)
        await world.replacement()

        assert world.death.made == [], at
        assert world.death.deleted == [], at
        assert world.kube.live(ETCD_CLUSTERS, "c")["spec"] == OLD, at
        assert world.status["succeeded"] is True, at
        assert not any(kind == JOBS for kind, *_ in world.kube.objects), at
        assert world.kube.live(ETCD_RESTORES, "c")["spec"]["replace"] == {"clusterID": CLUSTER_ID}
        if not world.death.came:
            break
    assert 5 < at < MOST - 1
