"""Objects that were read by name, while the watch delivers events."""

from __future__ import annotations

import asyncio

import pytest
from fakes import FakeClock, FakeKube, cluster_body

from etcd_operator.kube.api import (
    DISRUPTION_BUDGETS,
    ETCD_CLUSTERS,
    REJECTED_SECONDS,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.finder import Finder
from etcd_operator.kube.store import Store

NAME = (ETCD_CLUSTERS, "default", "a")


class Late(FakeKube):
    """Answers a read with the state at its beginning. Something happens before the answer."""

    meanwhile = staticmethod(lambda: None)

    async def get(self, resource, namespace, name):
        found = await super().get(resource, namespace, name)
        self.meanwhile()
        return found


def begin() -> tuple[Late, Finder]:
    kube = Late(FakeClock())
    kube.store = Store()
    return kube, Finder(kube, kube.store, kube.clock)


async def test_a_cluster_recreated_during_a_read_was_forgotten_and_never_reconciled():
    kube, finder = begin()
    kube.put(ETCD_CLUSTERS, cluster_body())
    kube.watching = False
    kube.remove(*NAME)
    kube.watching = True
    kube.meanwhile = lambda: kube.put(ETCD_CLUSTERS, cluster_body())

    assert await finder.read(*NAME) is None

    known = kube.store.get(*NAME)
    assert known is not None
    assert known["metadata"]["uid"] == "uid-2"


async def test_an_object_created_while_its_name_is_looked_up_is_not_forgotten():
    kube, finder = begin()
    kube.meanwhile = lambda: kube.put(ETCD_CLUSTERS, cluster_body())

    assert await finder.find(*NAME) is None
    assert await finder.find(*NAME) is not None


async def test_a_deleted_object_is_forgotten_however_new_it_was():
    kube, finder = begin()
    kube.put(ETCD_CLUSTERS, cluster_body())
    kube.watching = False
    kube.remove(*NAME)

    assert await finder.read(*NAME) is None
    assert kube.store.get(*NAME) is None


async def test_forbidden_names_were_remembered_after_their_clusters_were_gone():
    kube, finder = begin()
    for number in range(100):
        kube.failures["get PodDisruptionBudget"] = [Rejected("no", status=403)]
        assert await finder.find_if_allowed(DISRUPTION_BUDGETS, "default", f"a{number}") is None
        kube.clock.now += REJECTED_SECONDS

    assert len(finder._refused) <= 1


async def test_reads_of_a_pass_that_had_failed_went_on_and_kept_others_from_their_turn():
    kube, finder = begin()
    kube.failures["get EtcdCluster"] = [Unavailable("no answer")]
    asked = asyncio.all_tasks()
    before = kube.get

    async def get(resource, namespace, name):
        if name == "slow":
            await asyncio.Event().wait()
        return await before(resource, namespace, name)

    kube.get = get
    with pytest.raises(Unavailable):
        await finder.find_all(ETCD_CLUSTERS, "default", ["slow", "a"])

    assert asyncio.all_tasks() == asked
