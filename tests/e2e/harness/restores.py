"""Helpers of tests with an EtcdRestore of cluster `etcd`."""

from __future__ import annotations

from harness.api import RESTORES, Json
from harness.conditions import condition
from harness.place import Place
from harness.waiting import eventually

RESTORED_SECONDS = 150


def ask(place: Place, **spec: object) -> None:
    body = {"metadata": {"name": "etcd"}, "spec": {"etcdCluster": {"name": "etcd"}} | spec}
    place.kube.create(RESTORES, body, place.namespace)


def edit(place: Place, **spec: object) -> None:
    place.kube.patch(RESTORES, place.namespace, "etcd", {"spec": spec})


def status(place: Place) -> Json:
    body = place.kube.get(RESTORES, place.namespace, "etcd") or {}
    return dict(body.get("status") or {})


def complete(place: Place) -> Json:
    return condition(place.kube.get(RESTORES, place.namespace, "etcd"), "Complete")


def succeeds(place: Place) -> None:
    eventually(
        "the restore succeeds",
        lambda: (status(place).get("succeeded"), complete(place).get("message")),
        lambda said: said[0] is True,
        seconds=RESTORED_SECONDS,
    )
