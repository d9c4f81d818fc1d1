"""The same operations on the bare StatefulSet, as an expert's script does them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import bare
from harness.api import CLAIMS, PODS, SERVICES, STATEFUL_SETS
from harness.clusters import is_ready
from harness.etcd import Etcd, EtcdError
from harness.waiting import eventually
from measure import NAME, Bench, Watched

Json = dict[str, Any]

SIZE = 3
HEALTH_SECONDS = 6.0
"""etcd lets members be added once all have been connected for 5 seconds."""


def scale(bench: Bench, size: int, to: int) -> float:
    with settled(bench, size) as (namespace, timeline):
        start = time.monotonic()
        for ordinal in range(size, to):
            _add(bench, namespace, ordinal, replicas=ordinal + 1)
        for ordinal in reversed(range(to, size)):
            _remove(bench, namespace, ordinal)
            _patch(bench, namespace, {"spec": {"replicas": ordinal}})
        wanted = {f"{NAME}-{ordinal}" for ordinal in range(to)}
        if to < size:
            return time.monotonic() - start
        return timeline.until(
            f"{to} are Ready",
            lambda seen: sum(is_ready(pod) for pod in seen.pods()) == len(wanted),
            start,
        )


def replace(bench: Bench, ordinal: int) -> float:
    with settled(bench, SIZE) as (namespace, timeline):
        name = f"{NAME}-{ordinal}"
        old = timeline.get(PODS, name)["metadata"]["uid"]
        start = time.monotonic()
        bench.kube.delete(CLAIMS, namespace, f"data-{name}")
        _remove(bench, namespace, ordinal)
        _add(
            bench,
            namespace,
            ordinal,
            replicas=SIZE,
            restart=lambda: bench.kube.delete(PODS, namespace, name),
        )
        return timeline.until(
            "all are Ready",
            lambda seen: (
                seen.get(PODS, name).get("metadata", {}).get("uid", old) != old
                and sum(is_ready(pod) for pod in seen.pods()) == SIZE
            ),
            start,
        )


def roll(bench: Bench) -> float:
    """`kubectl rollout restart`: the StatefulSet's own rolling update, one pod after the other."""
    with settled(bench, SIZE) as (namespace, timeline):
        old = {pod["metadata"]["uid"] for pod in timeline.pods()}
        start = time.monotonic()
        again = {"metadata": {"annotations": {"restarted": "now"}}}
        _patch(bench, namespace, {"spec": {"template": again}})
        return timeline.until(
            "all are new and Ready",
            lambda seen: (
                len(seen.pods()) == SIZE
                and all(is_ready(pod) and pod["metadata"]["uid"] not in old for pod in seen.pods())
            ),
            start,
        )


@contextmanager
def settled(bench: Bench, size: int) -> Iterator[tuple[str, Watched]]:
    with bench.namespace() as namespace:
        bench.kube.create(SERVICES, bare.service(NAME), namespace)
        bench.kube.create(STATEFUL_SETS, bare.bare(NAME, namespace, size), namespace)
        timeline = bench.timeline(namespace)
        timeline.until(
            "the bare members are Ready",
            lambda seen: sum(is_ready(pod) for pod in seen.pods()) == size,
            time.monotonic(),
        )
        time.sleep(HEALTH_SECONDS)
        yield namespace, timeline


def _add(
    bench: Bench,
    namespace: str,
    ordinal: int,
    replicas: int,
    restart: Callable[[], None] = lambda: None,
) -> None:
    """Learner first; the template tells the new pod whom to join, OnDelete spares the others."""
    asked = _any_member(bench, namespace, but=ordinal)
    url = f"http://{_host(namespace, ordinal)}:2380"
    eventually("etcd takes the learner", lambda: _done(lambda: asked.add_learner(url)), every=0.05)
    hosts = asked.members().hosts
    _patch(bench, namespace, _joining(bench, namespace, hosts, replicas))
    restart()
    found = next(one for one in asked.members().members if one.learner)
    eventually(
        "the learner may vote", lambda: _done(lambda: asked.promote(found.member_id)), every=0.05
    )


def _joining(bench: Bench, namespace: str, hosts: list[str], replicas: int) -> Json:
    found = bench.kube.get(STATEFUL_SETS, namespace, NAME)
    assert found is not None
    container = found["spec"]["template"]["spec"]["containers"][0]
    initial = ",".join(f"{host}=http://{host}.{NAME}.{namespace}.svc:2380" for host in hosts)
    kept = [
        word
        for word in container["args"]
        if not word.startswith(("--initial-cluster=", "--initial-cluster-state="))
    ]
    told = [*kept, f"--initial-cluster={initial}", "--initial-cluster-state=existing"]
    template = {"spec": {"containers": [{**container, "args": told}]}}
    return {
        "spec": {
            "replicas": replicas,
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
            "template": template,
        }
    }


def _remove(bench: Bench, namespace: str, ordinal: int) -> None:
    asked = _any_member(bench, namespace, but=ordinal)
    name = f"{NAME}-{ordinal}"
    found = next(one for one in asked.members().members if one.name == name)
    eventually("etcd lets it go", lambda: _done(lambda: asked.remove(found.member_id)), every=0.05)


def _any_member(bench: Bench, namespace: str, but: int) -> Etcd:
    ordinal = 0 if but else 1
    return Etcd(lambda: bench.reach.pod(namespace, f"{NAME}-{ordinal}", 2379), 5)


def _host(namespace: str, ordinal: int) -> str:
    return f"{NAME}-{ordinal}.{NAME}.{namespace}.svc"


def _patch(bench: Bench, namespace: str, patch: Json) -> None:
    bench.kube.patch(STATEFUL_SETS, namespace, NAME, patch)


def _done(change: Callable[[], None]) -> bool:
    try:
        change()
    except EtcdError:
        return False
    return True
