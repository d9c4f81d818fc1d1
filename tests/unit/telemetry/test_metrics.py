"""Metrics on a registry of their own."""

import pytest
from prometheus_client import REGISTRY
from prometheus_client.exposition import generate_latest

from etcd_operator.kube.api import PODS
from etcd_operator.telemetry.metrics import Metrics

A, B = ("ns", "a"), ("ns", "b")


def value(metrics, name, /, **labels):
    return metrics.registry.get_sample_value(name, labels)


def test_two_operators_in_one_process_share_no_metrics():
    one, two = Metrics(), Metrics()
    one.queue("clusters").adds.inc()
    two.queue("clusters")

    assert value(one, "workqueue_adds_total", name="clusters") == 1
    assert value(two, "workqueue_adds_total", name="clusters") == 0
    assert REGISTRY.get_sample_value("workqueue_adds_total", {"name": "clusters"}) is None


def test_the_metrics_of_the_queue_have_the_names_of_client_go():
    metrics = Metrics()
    metrics.queue("clusters")
    page = generate_latest(metrics.registry).decode()

    for name in (
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds_bucket",
        "workqueue_work_duration_seconds_bucket",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "workqueue_retries_total",
    ):
        assert f'{name}{{name="clusters"' in page or f'{name}{{le="' in page, name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("etcd_cluster_size", 3),
        ("etcd_cluster_members", 2),
        ("etcd_cluster_members_ready", 1),
        ("etcd_cluster_available", 0),
    ],
)
def test_a_cluster_is_reported_until_it_is_gone(name, expected):
    metrics = Metrics()
    for key in (A, B):
        metrics.cluster(key, size=3, members=2, ready=1, available=False)
    assert value(metrics, name, namespace="ns", etcd_cluster="a") == expected

    metrics.forget(A)
    metrics.forget(A)
    assert value(metrics, name, namespace="ns", etcd_cluster="a") is None
    assert value(metrics, name, namespace="ns", etcd_cluster="b") == expected


def test_a_cluster_that_was_not_asked_yet_was_reported_as_one_without_members():
    """After a restart of the operator, for as long as the cluster was paused or no quorum
    answered."""
    metrics = Metrics()
    place = {"namespace": "ns", "etcd_cluster": "a"}
    metrics.cluster(A, size=3, members=None, ready=3, available=True)
    assert value(metrics, "etcd_cluster_members", **place) is None

    metrics.cluster(A, size=3, members=3, ready=3, available=True)
    metrics.cluster(A, size=3, members=None, ready=0, available=False)
    assert value(metrics, "etcd_cluster_members", **place) == 3


def test_a_schedule_is_reported_until_it_is_gone():
    metrics = Metrics()
    told = {"on": True, "last_run": True, "succeeded": 20.0, "verified": 10.0, "missed": 2}
    for key in (A, B):
        metrics.schedule(key, **told)
    place = {"namespace": "ns", "name": "a"}
    assert value(metrics, "etcd_backup_schedule_missed_runs", **place) == 2
    verified = "etcd_backup_schedule_last_verified_timestamp_seconds"
    assert value(metrics, verified, **place) == 10

    metrics.schedule(A, **told | {"verified": None})
    assert value(metrics, verified, **place) is None, "what is no longer there is not told of"
    metrics.forget_schedule(A)
    metrics.forget_schedule(A)

    page = generate_latest(metrics.registry).decode()
    assert 'name="a"' not in page
    assert page.count('namespace="ns",name="b"') + page.count('name="b",namespace="ns"') == 5


def test_requests_are_measured_by_verb_resource_and_status():
    metrics = Metrics()
    metrics.request("apply", PODS, 200, 0.02)

    name = "etcd_operator_kubernetes_request_seconds_sum"
    assert value(metrics, name, verb="apply", resource="pods", status="200") == 0.02


def test_metrics_of_the_process_are_exposed():
    assert value(Metrics(), "process_resident_memory_bytes") > 0
