"""How long operations on a running cluster take: by the operator, and by hand.

Side by side neither cluster has TLS. Under load the operator's cluster has the default TLS.

"By hand" is what an expert's script does with `kubectl` and `etcdctl` on the bare StatefulSet: the
same calls in the same order, without pauses to think, and with every answer at once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import by_hand
from bare import PLAINTEXT, bare
from by_hand import ByHand, lose
from harness.api import PODS, STATEFUL_SETS
from harness.clusters import Cluster, is_ready
from harness.history import longest_gap
from harness.load import Load, under_load
from harness.waiting import eventually
from measure import NAME, Bench, Watched, say
from timeline import Timeline

Json = dict[str, Any]

SIZE = 3
OLDER, NEWER = "3.6.16", "3.7.3"
CYCLE = "one pod deleted, until it is Ready again"
BACK = "bare: claim and pod deleted, until the pod runs"

Operation = Callable[[], float]
"""Performs an operation, and returns the seconds that it took."""


class Operations:
    """One cluster on each side goes through all operations, and the sides take turns.

    Members are replaced last. If a replacement is the leader, it lacks the beginning of the log, so
    a member that joins it begins with a snapshot, and may be silent for etcd's seven seconds.
    """

    def __init__(self, bench: Bench, runs: int) -> None:
        self.bench = bench
        self.kube = bench.kube
        self.runs = runs

    def measure(self) -> Json:
        with self._ours(TLS=PLAINTEXT) as ours, by_hand.running(self.bench, SIZE) as hand:
            found = self._side_by_side(ours, hand)
        loaded = self._under_load(3 * found["pod_cycle_seconds"] + 3)
        return found | {"under load": loaded, "upgrade by hand": self._upgrade_by_hand()}

    def _side_by_side(self, ours: Ours, hand: ByHand) -> Json:
        stages: list[dict[str, tuple[int, Operation, Operation | None]]] = [
            {
                "3 -> 5": (3, lambda: ours.scale(5), lambda: hand.scale(5)),
                "5 -> 3": (5, lambda: ours.scale(3), lambda: hand.scale(3)),
            },
            {"3 -> 7": (3, lambda: ours.scale(7), lambda: hand.scale(7))},
            {
                CYCLE: (SIZE, ours.cycle, None),
                "rolling restart of 3": (SIZE, ours.restart, hand.roll),
            },
            {
                BACK: (SIZE, hand.back, None),
                "lost volume of ordinal 1": (
                    SIZE,
                    lambda: ours.replace(1),
                    lambda: hand.replace(1),
                ),
            },
            {
                "lost volume of the leader": (
                    SIZE,
                    lambda: ours.replace(ours.leader()),
                    lambda: hand.replace(hand.leader()),
                )
            },
        ]
        took: dict[str, tuple[list[float], list[float]]] = {}
        for stage in stages:
            for run in range(self.runs):
                for what, (size, *sides) in stage.items():
                    ours.settle(size)
                    hand.settle(size)
                    time.sleep(by_hand.HEALTH_SECONDS)
                    times = took.setdefault(what, ([], []))
                    for seconds, side in zip(times, sides, strict=True):
                        if side is not None:
                            seconds.append(round(side(), 2))
                    last = " / ".join(f"{one[-1]:.2f} s" for one in times if one)
                    say(f"  {what} {run + 1}/{self.runs}: {last}")
        return self._held_against(took)

    def _held_against(self, took: dict[str, tuple[list[float], list[float]]]) -> Json:
        cycle, back = median(took.pop(CYCLE)[0]), median(took.pop(BACK)[0])
        target = {
            "3 -> 5": 4.5,
            "5 -> 3": 1.5,
            "3 -> 7": 13,
            "rolling restart of 3": 3 * cycle + 3,
        }
        return {
            "pod_cycle_seconds": cycle,
            "bare_pod_back_seconds": back,
            **{
                what: {
                    "target_seconds": round(target.get(what, back + 2), 1),
                    "ours": summary(ours),
                    "by_hand": summary(hand) if hand else None,
                }
                for what, (ours, hand) in took.items()
            },
        }

    @contextmanager
    def _ours(self, **spec: Any) -> Iterator[Ours]:
        with self.bench.namespace() as namespace:
            cluster = Cluster(self.kube, self.bench.reach, namespace, NAME)
            cluster.declare(SIZE, **spec).comes_up()
            yield Ours(cluster, self.bench.timeline(namespace))

    # Under load.

    def _under_load(self, target: float) -> Json:
        """Restarts and upgrades a minor while clients write; counts gaps and moved leaders."""
        found: Json = {}
        changes: dict[str, Callable[[Ours], float]] = {
            "rolling restart of 3": lambda ours: ours.restart(),
            f"upgrade {OLDER} -> {NEWER}": lambda ours: ours.upgrade(NEWER),
        }
        for what, change in changes.items():
            times, gaps, moved = [], [], []
            for run in range(self.runs):
                with self._ours(version=OLDER) as ours:
                    time.sleep(by_hand.HEALTH_SECONDS)
                    with under_load(ours.cluster) as load:
                        time.sleep(1)
                        times.append(round(change(ours), 2))
                    gaps.append(round(gap_of(load), 2))
                    moved.append(ours.leaders_moved())
                say(f"  {what} under load {run + 1}/{self.runs}: {times[-1]} s, gap {gaps[-1]} s")
            found[what] = {
                **summary(times),
                "target_seconds": round(target, 1),
                "longest_gap_seconds": gaps,
                "target_gap_seconds": 1,
                "leaders_moved": moved,
                "target_leaders_moved": 1,
            }
        return found

    def _upgrade_by_hand(self) -> Json:
        """Without load: the clients of the load know only clusters of the operator."""
        times = []
        for run in range(self.runs):
            with by_hand.running(self.bench, SIZE, version=OLDER) as hand:
                time.sleep(by_hand.HEALTH_SECONDS)
                times.append(round(hand.roll(image_of(NEWER)), 2))
            say(f"  upgrade {OLDER} -> {NEWER} by hand {run + 1}/{self.runs}: {times[-1]} s")
        return summary(times)


class Ours:
    """A cluster of the operator: operations of a user on it, and how long they take."""

    def __init__(self, cluster: Cluster, timeline: Watched) -> None:
        self.cluster = cluster
        self.timeline = timeline
        eventually("the timeline has every pod", lambda: len(timeline.pods()) == SIZE)

    def settle(self, size: int) -> None:
        self.cluster.scale(size)
        self.cluster.comes_up()
        eventually(
            "no pod or claim is left of members that were removed",
            lambda: len(self.cluster.pods()) == len(self.cluster.claims()) == size,
            seconds=60,
        )

    def leader(self) -> int:
        return self.cluster.leader()

    def scale(self, to: int) -> float:
        """Scales up until all pods are Ready, or down until member list and replicas agree."""
        start = self._changed({"size": to})
        took = self.timeline.until(f"{to} members", lambda seen: is_sized(seen, to), start)
        names = self.cluster.client.members().names
        assert len(names) == to, f"{to} are declared, etcd lists {names}"
        return took

    def replace(self, ordinal: int) -> float:
        return lose(self.cluster.kube, self.timeline, self.cluster.namespace, ordinal, is_ready)

    def cycle(self) -> float:
        """Deletes one pod, and waits until it is Ready again."""
        old = set(self.cluster.pod_uids().values())
        start = time.monotonic()
        self.cluster.kube.delete(PODS, self.cluster.namespace, f"{NAME}-1")
        again = lambda seen: is_new(seen.get(PODS, f"{NAME}-1"), old)  # noqa: E731
        return self.timeline.until("it is Ready again", again, start)

    def restart(self) -> float:
        return self._all_new({"pod": {"annotations": {"restarted": secrets.token_hex(3)}}})

    def upgrade(self, version: str) -> float:
        return self._all_new({"version": version})

    def leaders_moved(self) -> int:
        said = [one for one in self.cluster.events() if one["reason"] == "LeaderMoved"]
        return sum(int(one.get("count") or 1) for one in said)

    def _all_new(self, spec: Json) -> float:
        old = set(self.cluster.pod_uids().values())
        start = self._changed(spec)
        return self.timeline.until("all are new and Ready", lambda seen: are_new(seen, old), start)

    def _changed(self, spec: Json) -> float:
        start = time.monotonic()
        self.cluster.change(**spec)
        return start


def image_of(version: str) -> str:
    spec = bare(NAME, "any", version=version)["spec"]["template"]["spec"]
    return str(spec["containers"][0]["image"])


def summary(seconds: list[float]) -> Json:
    return {"seconds": seconds, "median": round(median(seconds), 2)}


def is_sized(seen: Timeline, size: int) -> bool:
    replicas = seen.get(STATEFUL_SETS, NAME).get("spec", {}).get("replicas")
    ready = sum(is_ready(pod) for pod in seen.pods())
    return replicas == size and ready >= size


def are_new(seen: Timeline, old: set[str]) -> bool:
    pods = seen.pods()
    return len(pods) == SIZE and all(is_new(pod, old) for pod in pods)


def gap_of(load: Load) -> float:
    return longest_gap(load.history, load.began, load.ended).seconds


def is_new(pod: Json, old: set[str]) -> bool:
    return bool(pod) and pod["metadata"]["uid"] not in old and is_ready(pod)
