"""How long the operations on a running cluster take: by the operator, and by hand.

By hand is what an expert's script does with `kubectl` and `etcdctl` on the bare StatefulSet: the
same calls in the same order, without a pause to think, and with every answer at once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import by_hand
from harness.api import CLAIMS, CLUSTERS, PODS, STATEFUL_SETS
from harness.clusters import Cluster, is_ready, state_of
from harness.history import longest_gap
from harness.load import Load, under_load
from harness.waiting import eventually
from measure import NAME, Bench, Watched, say
from timeline import Timeline

Json = dict[str, Any]

SIZE = 3
OLDER, NEWER = "3.6.16", "3.7.3"


class Operations:
    def __init__(self, bench: Bench, runs: int) -> None:
        self.bench = bench
        self.kube = bench.kube
        self.runs = runs

    def measure(self) -> Json:
        cycle = self._median("one pod deleted, until it is Ready again", self._pod_cycle)
        back = self._median("bare: claim and pod deleted, until the pod runs", self._bare_back)
        parts: dict[str, tuple[Callable[[], float], Callable[[], float] | None, float]] = {
            "3 -> 5": (lambda: self._scale(3, 5), lambda: by_hand.scale(self.bench, 3, 5), 4.5),
            "5 -> 3": (lambda: self._scale(5, 3), lambda: by_hand.scale(self.bench, 5, 3), 1.5),
            "3 -> 7": (lambda: self._scale(3, 7), lambda: by_hand.scale(self.bench, 3, 7), 13),
            "lost volume of ordinal 1": (
                lambda: self._replace(1),
                lambda: by_hand.replace(self.bench, 1),
                back["median"] + 2,
            ),
            "lost volume of the leader": (lambda: self._replace(None), None, back["median"] + 2),
            "rolling restart of 3": (
                self._roll,
                lambda: by_hand.roll(self.bench),
                3 * cycle["median"] + 3,
            ),
        }
        found: Json = {"pod_cycle": cycle, "bare_pod_back": back}
        for what, (ours, hand, target) in parts.items():
            found[what] = {
                "target_seconds": round(target, 1),
                "ours": self._median(what, ours),
                "by_hand": self._median(f"{what}, by hand", hand) if hand else None,
            }
        found["under load"] = self._under_load(cycle["median"])
        return found

    def _median(self, what: str, once: Callable[[], float]) -> Json:
        seconds = []
        for run in range(self.runs):
            seconds.append(round(once(), 2))
            say(f"  {what} {run + 1}/{self.runs}: {seconds[-1]:.2f} s")
        return {"seconds": seconds, "median": round(median(seconds), 2)}

    # Ours.

    def _scale(self, size: int, to: int) -> float:
        """Grown: until all are Ready. Shrunk: until list and replicas say so."""
        with self._settled(size) as (cluster, timeline):
            start = time.monotonic()
            self.kube.patch(CLUSTERS, cluster.namespace, NAME, {"spec": {"size": to}})
            took = timeline.until(f"{to} members", lambda seen: is_sized(seen, to), start)
            names = cluster.client.members().names
            assert len(names) == to, f"{to} are declared, etcd lists {names}"
            return took

    def _replace(self, ordinal: int | None) -> float:
        with self._settled(SIZE) as (cluster, timeline):
            gone = cluster.leader() if ordinal is None else ordinal
            return self._lose(cluster.namespace, timeline, gone, is_ready)

    def _roll(self) -> float:
        with self._settled(SIZE) as (cluster, timeline):
            return self._restart(cluster, timeline)

    def _restart(self, cluster: Cluster, timeline: Watched) -> float:
        old = set(cluster.pod_uids().values())
        start = time.monotonic()
        again = {"spec": {"pod": {"annotations": {"restarted": secrets.token_hex(3)}}}}
        self.kube.patch(CLUSTERS, cluster.namespace, NAME, again)
        return timeline.until("all are new and Ready", lambda seen: are_new(seen, old), start)

    # What they are held against.

    def _pod_cycle(self) -> float:
        with self._settled(SIZE) as (cluster, timeline):
            old = set(cluster.pod_uids().values())
            start = time.monotonic()
            self.kube.delete(PODS, cluster.namespace, f"{NAME}-1")
            return timeline.until(
                "it is Ready again",
                lambda seen: is_new(seen.get(PODS, f"{NAME}-1"), old),
                start,
            )

    def _bare_back(self) -> float:
        with by_hand.settled(self.bench, SIZE) as (namespace, timeline):
            return self._lose(namespace, timeline, 1, has_begun)

    def _lose(
        self, namespace: str, timeline: Watched, ordinal: int, good: Callable[[Json], bool]
    ) -> float:
        name = f"{NAME}-{ordinal}"
        old = timeline.get(PODS, name)["metadata"]["uid"]
        start = time.monotonic()
        self.kube.delete(CLAIMS, namespace, f"data-{name}")
        self.kube.delete(PODS, namespace, name)
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

    # Under load.

    def _under_load(self, cycle: float) -> Json:
        """Restart and minor upgrade while clients write: gaps, and leaders moved by us."""
        found: Json = {}
        changes: dict[str, Callable[[Cluster, Watched], float]] = {
            "rolling restart of 3": self._restart,
            f"upgrade {OLDER} -> {NEWER}": self._upgrade,
        }
        for what, change in changes.items():
            times, gaps, moved = [], [], []
            for run in range(self.runs):
                with self._settled(SIZE, version=OLDER) as (cluster, timeline):
                    with under_load(cluster) as load:
                        time.sleep(1)
                        times.append(round(change(cluster, timeline), 2))
                    gaps.append(round(gap_of(load), 2))
                    said = [one for one in cluster.events() if one["reason"] == "LeaderMoved"]
                    moved.append(sum(int(one.get("count") or 1) for one in said))
                say(f"  {what} under load {run + 1}/{self.runs}: {times[-1]} s, gap {gaps[-1]} s")
            found[what] = {
                "seconds": times,
                "median": median(times),
                "target_seconds": round(3 * cycle + 3, 1),
                "longest_gap_seconds": gaps,
                "target_gap_seconds": 1,
                "leaders_moved": moved,
                "target_leaders_moved": 1,
            }
        return found

    def _upgrade(self, cluster: Cluster, timeline: Watched) -> float:
        old = set(cluster.pod_uids().values())
        start = time.monotonic()
        self.kube.patch(CLUSTERS, cluster.namespace, NAME, {"spec": {"version": NEWER}})
        return timeline.until("all are new and Ready", lambda seen: are_new(seen, old), start)

    @contextmanager
    def _settled(self, size: int, **spec: Any) -> Iterator[tuple[Cluster, Watched]]:
        """A cluster whose members have known each other for etcd's health interval."""
        with self.bench.namespace() as namespace:
            cluster = Cluster(self.kube, self.bench.reach, namespace, NAME)
            cluster.declare(size, **spec).comes_up()
            time.sleep(by_hand.HEALTH_SECONDS)
            timeline = self.bench.timeline(namespace)
            eventually("the timeline has every pod", lambda: len(timeline.pods()) == size)
            yield cluster, timeline


def is_sized(seen: Timeline, size: int) -> bool:
    replicas = seen.get(STATEFUL_SETS, NAME).get("spec", {}).get("replicas")
    ready = sum(is_ready(pod) for pod in seen.pods())
    return replicas == size and ready >= size


def are_new(seen: Timeline, old: set[str]) -> bool:
    pods = seen.pods()
    return len(pods) == SIZE and all(is_new(pod, old) for pod in pods)


def gap_of(load: Load) -> float:
    return longest_gap(load.history, load.began, load.ended).seconds


def has_begun(pod: Json) -> bool:
    """Its container runs or has run; on a new claim the bare one only fails from then on."""
    return state_of(pod, "etcd") in ("running", "terminated")


def is_new(pod: Json, old: set[str]) -> bool:
    return bool(pod) and pod["metadata"]["uid"] not in old and is_ready(pod)
