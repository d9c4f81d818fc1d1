"""The order of reconciliation after a start: clusters first that seem to need something."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from etcd_operator.kube.api import (
    ETCD_BACKUPS,
    ETCD_CLUSTERS,
    ETCD_RESTORES,
    ETCD_SCHEDULES,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    Resource,
)
from etcd_operator.kube.store import Store
from etcd_operator.queue.order import by_need, everything

RESTING = ("a", "b", "d", "e")
ODD = "c"

versions = count(1)


def put(store: Store, resource: Resource, name: str, **body: Any) -> None:
    metadata = {"namespace": "ns", "name": name, "uid": name, "generation": 2}
    metadata |= {"resourceVersion": str(next(versions))} | body.pop("metadata", {})
    store.put(resource, {"metadata": metadata, **body})


def status(**other: Any) -> Json:
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "False", "reason": "AsDeclared"},
    ]
    return {"observedGeneration": 2, "size": 3, "conditions": conditions} | other


@pytest.fixture
def store() -> Store:
    """Five settled clusters."""
    store = Store()
    for name in (*RESTING, ODD):
        put(store, ETCD_CLUSTERS, name, status=status())
        put(store, STATEFUL_SETS, name, spec={"replicas": 3}, status={"readyReplicas": 3})
        put(store, SERVICES, name)
        put(store, SERVICES, f"{name}-client")
        put(store, SECRETS, f"{name}-start")
    return store


def names(store: Store) -> list[str]:
    return [name for _, name in by_need(store)]


def without(resource: Resource, name: str) -> Callable[[Store], object]:
    return lambda store: store.remove(resource, "ns", name, name)


def with_status(**other: Any) -> Callable[[Store], object]:
    return lambda store: put(store, ETCD_CLUSTERS, ODD, status=status(**other))


def with_set(replicas: int, **ready: int) -> Callable[[Store], object]:
    return lambda store: put(store, STATEFUL_SETS, ODD, spec={"replicas": replicas}, status=ready)


def test_all_objects_are_queued_and_those_that_need_work_come_first(store: Store) -> None:
    """A fleet must not come before the one cluster that somebody waits for."""
    put(store, ETCD_CLUSTERS, "z")
    for resource in (ETCD_BACKUPS, ETCD_RESTORES, ETCD_SCHEDULES):
        put(store, resource, resource.plural)

    asked = [(resource, name) for resource, (_, name) in everything(store)]

    assert asked[:2] == [(ETCD_CLUSTERS, "z"), (ETCD_CLUSTERS, "a")]
    assert {name for resource, name in asked if resource != ETCD_CLUSTERS} == {
        "etcdbackups",
        "etcdrestores",
        "etcdbackupschedules",
    }
    assert len(asked) == len({*asked}) == len((*RESTING, ODD)) + 4


def test_settled_clusters_are_ordered_by_name(store: Store) -> None:
    assert names(store) == sorted((*RESTING, ODD))


@pytest.mark.parametrize(
    "happened",
    [
        pytest.param(
            lambda store: put(
                store, ETCD_CLUSTERS, ODD, metadata={"generation": 3}, status=status()
            ),
            id="its spec was edited",
        ),
        pytest.param(lambda store: put(store, ETCD_CLUSTERS, ODD), id="it is new"),
        pytest.param(
            with_status(conditions=[{"type": "Progressing", "status": "True"}]),
            id="something was going on",
        ),
        pytest.param(with_status(conditions=None), id="its status says nothing"),
        pytest.param(without(STATEFUL_SETS, ODD), id="its StatefulSet is gone"),
        pytest.param(without(SERVICES, ODD), id="its headless Service is gone"),
        pytest.param(without(SERVICES, f"{ODD}-client"), id="its client Service is gone"),
        pytest.param(without(SECRETS, f"{ODD}-start"), id="its Secret is gone"),
        pytest.param(with_set(3, readyReplicas=2), id="a pod is not ready"),
        pytest.param(with_set(3), id="no pod is ready"),
        pytest.param(with_set(5, readyReplicas=5), id="it was scaled by hand"),
    ],
)
def test_a_cluster_that_needs_work_comes_first_and_none_is_left_out(
    store: Store, happened: Callable[[Store], object]
) -> None:
    happened(store)

    assert names(store) == [ODD, *RESTING]


@pytest.mark.parametrize("status", ["x", ["x"], {"conditions": "x"}, {"conditions": ["x"]}])
def test_a_status_from_before_the_crds_had_a_schema_kept_the_operator_from_all_clusters(
    store: Store, status: Any
) -> None:
    """The API server does not check what is stored already."""
    put(store, ETCD_CLUSTERS, ODD, status=status)

    assert names(store) == [ODD, *RESTING]
