"""EtcdRestore is answered, once."""

from __future__ import annotations

import pytest
from fakes import FakeKube

from etcd_operator.answers import Answers
from etcd_operator.kube import ETCD_RESTORES, Rejected, Unavailable
from etcd_operator.store import Store

KEY = ("default", "b")


@pytest.fixture(params=[ETCD_RESTORES], ids=lambda it: it.kind)
def resource(request):
    return request.param


@pytest.fixture
def kube(resource):
    kube = FakeKube()
    kube.store = Store()
    body = {"metadata": {"name": "b", "namespace": "default", "generation": 1}, "spec": {}}
    made = kube.put(resource, body)
    kube.store.put(resource, made)
    return kube


@pytest.fixture
def answers(kube, resource):
    return Answers(kube, kube.store, resource, kube.clock)


async def test_says_that_it_cannot_be_had_yet(kube, answers, resource):
    assert await answers.reconcile(KEY) is None
    condition = kube.live(resource, "b")["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("Available", "False")
    assert condition["reason"] == "NotAvailableYet"
    assert resource.kind in condition["message"]


async def test_says_it_once(kube, answers):
    for _ in range(5):
        await answers.reconcile(KEY)
    assert kube.writes().total() == 1


async def test_says_it_again_of_another_spec(kube, answers, resource):
    await answers.reconcile(KEY)
    body = kube.live(resource, "b")
    body["metadata"]["generation"] = 2
    kube.store.put(resource, kube.put(resource, body))
    await answers.reconcile(KEY)
    assert kube.live(resource, "b")["status"]["observedGeneration"] == 2


async def test_leaves_alone_what_is_gone_or_going(kube, answers, resource):
    assert await answers.reconcile(("default", "other")) is None
    body = kube.live(resource, "b")
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kube.store.put(resource, kube.put(resource, body))
    await answers.reconcile(KEY)
    assert not kube.writes()


async def test_one_that_went_in_between_is_no_error(kube, answers, resource):
    kube.failures[f"apply {resource.kind}/status"] = [Rejected("not found", status=404)]
    await answers.reconcile(KEY)


@pytest.mark.parametrize("error", [Unavailable("late"), Rejected("no", status=403)])
async def test_other_errors_go_to_the_queue(kube, answers, resource, error):
    kube.failures[f"apply {resource.kind}/status"] = [error]
    with pytest.raises(type(error)):
        await answers.reconcile(KEY)
