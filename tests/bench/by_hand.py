"""The same operations on the bare StatefulSet, as an expert's script would do them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import bare
from harness.api import CLAIMS, PODS, SERVICES, STATEFUL_SETS, Kube
from harness.clusters import is_ready, state_of
from harness.etcd import Etcd, EtcdError
from harness.waiting import eventually
from measure import NAME, Bench, Watched

Json = dict[str, Any]

LARGEST = 7
HEALTH_SECONDS = 6.0
"""etcd accepts a new member once all members have been connected for 5 seconds."""


@contextmanager
def running(bench: Bench, size: int, **spec: Any) -> Iterator[ByHand]:
    with bench.namespace() as namespace:
        bench.kube.create(SERVICES, bare.service(NAME), namespace)
        bench.kube.create(STATEFUL_SETS, bare.bare(NAME, namespace, size, **spec), namespace)
        hand = ByHand(bench, namespace, bench.timeline(namespace), size)
        hand.all_ready(time.monotonic())
        yield hand


class ByHand:
    """A bare StatefulSet, and what the script does to it."""

    def __init__(self, bench: Bench, namespace: str, timeline: Watched, size: int) -> None:
        self.bench = bench
        self.kube = bench.kube
        self.namespace = namespace
        self.timeline = timeline
        self.size = size

    def settle(self, size: int) -> None:
        """Waits until the cluster has that size, and deletes the claims of removed members."""
        if size != self.size:
            time.sleep(HEALTH_SECONDS)
            self.scale(size)
        self.all_ready(time.monotonic())
        for ordinal in range(size, LARGEST):
            if self.timeline.get(CLAIMS, f"data-{NAME}-{ordinal}"):
                self.kube.delete(CLAIMS, self.namespace, f"data-{NAME}-{ordinal}")
        eventually(
            "claims and pods of removed members are gone",
            lambda: len(self.kube.list(CLAIMS, self.namespace)) == size,
            seconds=60,
        )

    def scale(self, to: int) -> float:
        start = time.monotonic()
        for ordinal in range(self.size, to):
            self._add(ordinal, replicas=ordinal + 1)
        for ordinal in reversed(range(to, self.size)):
            self._remove(ordinal)
            self._patch({"spec": {"replicas": ordinal}})
        shrunk, self.size = to < self.size, to
        return time.monotonic() - start if shrunk else self.all_ready(start)

    def replace(self, ordinal: int) -> float:
        name = f"{NAME}-{ordinal}"
        old = self.timeline.get(PODS, name)["metadata"]["uid"]
        start = time.monotonic()
        self.kube.delete(CLAIMS, self.namespace, f"data-{name}")
        self._remove(ordinal)
        self._add(ordinal, self.size, lambda: self.kube.delete(PODS, self.namespace, name))
        self.timeline.until(
            "the pod is new",
            lambda seen: seen.get(PODS, name).get("metadata", {}).get("uid", old) != old,
            start,
        )
        return self.all_ready(start)

    def back(self) -> float:
        """How long the StatefulSet alone takes to recreate a pod whose volume is lost.

        The member is then replaced, because what the pod has written belongs to a lost member.
        """
        took = lose(self.kube, self.timeline, self.namespace, 1, has_begun)
        self.replace(1)
        return took

    def leader(self) -> int:
        return next(one for one in range(self.size) if self._member(one).status()["leads"])

    def roll(self, image: str = "") -> float:
        """`kubectl rollout restart` or `kubectl set image`: the StatefulSet's own rolling update,
        one pod at a time."""
        old = {pod["metadata"]["uid"] for pod in self.timeline.pods()}
        start = time.monotonic()
        again: Json = {"metadata": {"annotations": {"restarted": secrets.token_hex(3)}}}
        if image:
            again["spec"] = {"containers": [{**self._container(), "image": image}]}
        self._patch({"spec": {"updateStrategy": {"type": "RollingUpdate"}, "template": again}})
        self.timeline.until(
            "all are new",
            lambda seen: not old & {pod["metadata"]["uid"] for pod in seen.pods()},
            start,
        )
        return self.all_ready(start)

    def all_ready(self, start: float) -> float:
        """Waits until all pods are Ready and serve, as `etcdctl endpoint health` would check. The
        readiness probe uses the metrics port, which may answer before the client port."""
        self.timeline.until(
            f"{self.size} bare members are Ready",
            lambda seen: (
                len(seen.pods()) == self.size and all(is_ready(pod) for pod in seen.pods())
            ),
            start,
        )
        for ordinal in range(self.size):
            eventually("it serves", lambda one=ordinal: _done(self._member(one).status), every=0.05)
        return time.monotonic() - start

    def _add(self, ordinal: int, replicas: int, restart: Callable[[], None] | None = None) -> None:
        """Adds a learner first. The template tells the new pod which members to join; with OnDelete
        the other pods do not restart."""
        asked = self._any_member(but=ordinal)
        url = f"http://{self._host(ordinal)}:2380"
        eventually(
            "etcd takes the learner",
            lambda: _done(lambda: asked.add_learner(url)),
            seconds=30,
            every=0.05,
        )
        self._patch(self._joining(asked.members().hosts, replicas))
        if restart is not None:
            restart()
        found = next(one for one in asked.members().members if one.learner)
        eventually(
            "the learner may vote",
            lambda: _done(lambda: asked.promote(found.member_id)),
            seconds=60,
            every=0.05,
        )

    def _joining(self, hosts: list[str], replicas: int) -> Json:
        container = self._container()
        initial = ",".join(
            f"{host}=http://{host}.{NAME}.{self.namespace}.svc:2380" for host in hosts
        )
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

    def _container(self) -> Json:
        """etcd's in the template, whole: a merge patch replaces lists."""
        found = self.kube.get(STATEFUL_SETS, self.namespace, NAME)
        assert found is not None
        container: Json = found["spec"]["template"]["spec"]["containers"][0]
        return container

    def _remove(self, ordinal: int) -> None:
        asked = self._any_member(but=ordinal)
        name = f"{NAME}-{ordinal}"
        found = next(one for one in asked.members().members if _leads_to(one.peer_urls, name))
        eventually(
            "etcd lets it go", lambda: _done(lambda: asked.remove(found.member_id)), every=0.05
        )

    def _any_member(self, but: int) -> Etcd:
        return self._member(0 if but else 1)

    def _member(self, ordinal: int) -> Etcd:
        return Etcd(lambda: self.bench.reach.pod(self.namespace, f"{NAME}-{ordinal}", 2379), 5)

    def _host(self, ordinal: int) -> str:
        return f"{NAME}-{ordinal}.{NAME}.{self.namespace}.svc"

    def _patch(self, patch: Json) -> None:
        self.kube.patch(STATEFUL_SETS, self.namespace, NAME, patch)


def lose(
    kube: Kube, timeline: Watched, namespace: str, ordinal: int, good: Callable[[Json], bool]
) -> float:
    """Deletes a claim with its pod, and waits until the pod is back and `good` and all others are
    Ready."""
    name = f"{NAME}-{ordinal}"
    old = timeline.get(PODS, name)["metadata"]["uid"]
    start = time.monotonic()
    kube.delete(CLAIMS, namespace, f"data-{name}")
    kube.delete(PODS, namespace, name)
    return timeline.until(
        f"{name} is back",
        lambda seen: (
            bool(pod := seen.get(PODS, name))
            and pod["metadata"]["uid"] != old
            and good(pod)
            and all(is_ready(one) for one in seen.pods() if one["metadata"]["name"] != name)
        ),
        start,
    )


def _leads_to(peer_urls: tuple[str, ...], name: str) -> bool:
    return peer_urls[0].startswith(f"http://{name}.")


def has_begun(pod: Json) -> bool:
    """Whether its container runs or has run. On a new claim the bare StatefulSet's etcd fails."""
    return state_of(pod, "etcd") in ("running", "terminated")


def _done(change: Callable[[], object]) -> bool:
    try:
        change()
    except EtcdError:
        return False
    return True
