"""How soon an operator with many clusters makes its first correct decision after a restart.

The API server, its etcd and the operator's process are real. Pods and their members are simulated
(`fleet_pods`, `etcd_standin`), without TLS. While the operator is down, one cluster is changed. The
first correct decision is the write that responds to that change, as seen by a watch. The changed
cluster is always the last one by name, so that luck with the order does not matter.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bare import PLAINTEXT
from fleet_operator import OperatorProcess
from fleet_plane import Plane, control_plane, process
from harness.api import CLAIMS, CLUSTERS, PODS, SERVICES, STATEFUL_SETS
from harness.waiting import eventually
from measure import difference, quantile, step_delays
from timeline import Timeline

Json = dict[str, Any]

SIZE, LARGER = 3, 5
NAMESPACE = "default"
PLAY = Path(__file__).with_name("fleet_pods.py")
CREATION_SECONDS = 300
LONGEST_SECONDS = 60
AWAY_SECONDS = 2
SETTLE_SECONDS = 10
TARGET_SECONDS = 2


@dataclass(frozen=True)
class Change:
    """A change of a cluster while the operator is down, and how to recognise the response to it."""

    make: Callable[[str], None]
    answered: Callable[[Timeline, str], bool]
    undo: Callable[[str], None]


class Fleet:
    def __init__(self, clusters: int, runs: int) -> None:
        self._names = [f"etcd-{number:03}" for number in range(clusters)]
        self._runs = runs

    def measure(self) -> Json:
        with control_plane() as plane, self._played(plane):
            return _Restarts(plane, self._names, self._runs).measure()

    @contextmanager
    def _played(self, plane: Plane) -> Iterator[None]:
        log = plane.kubeconfig.with_name("pods.log")
        with process(log, sys.executable, PLAY, plane.kubeconfig) as child:
            try:
                yield
            finally:
                if child.poll() is not None:
                    print(f"fleet_pods ended: {log.read_text()[-2000:]}", flush=True)


class _Restarts:
    def __init__(self, plane: Plane, names: list[str], runs: int) -> None:
        self._plane = plane
        self._kube = plane.kube
        self._names = names
        self._runs = runs
        self._operator = OperatorProcess(plane.kubeconfig)

    def measure(self) -> Json:
        try:
            created = self._create()
            return {
                "clusters": len(self._names),
                "target_seconds": TARGET_SECONDS,
                "created_seconds": round(created, 1),
                "changes": {what: self._restarts(what, one) for what, one in self._changes()},
                "step_delay": self._put_back(),
            }
        finally:
            self._operator.kill()

    def _create(self) -> float:
        """Creates the clusters; returns the seconds until all are latched with all pods Ready."""
        for name in self._names:
            spec = {"size": SIZE, "version": "3.7.3", "TLS": PLAINTEXT}
            manifest = {"metadata": {"name": name}, "spec": spec}
            self._kube.create(CLUSTERS, manifest, NAMESPACE)
        eventually("all clusters are up", self._are_up, seconds=CREATION_SECONDS, every=0.5)
        return time.monotonic() - self._operator.began

    def _are_up(self) -> bool:
        found = [one.get("status") or {} for one in self._kube.list(CLUSTERS, NAMESPACE)]
        up = [one for one in found if one.get("phase") == "Running"]
        return len(up) == len(self._names) and all(
            len((one.get("members") or {}).get("ready") or ()) == SIZE for one in up
        )

    def _changes(self) -> list[tuple[str, Change]]:
        return [
            ("size 3 -> 5", Change(self._grow, is_grown, self._shrink)),
            ("client Service deleted", Change(self._take_service, has_service, lambda _: None)),
        ]

    def _restarts(self, what: str, change: Change) -> Json:
        runs = [self._restart(change) for _ in range(self._runs)]
        found = {name: [round(run[name], 2) for run in runs] for name in runs[0]}
        print(f"  {what}: {found}", flush=True)
        return {"seconds": found, "median": {one: median(found[one]) for one in found}}

    def _restart(self, change: Change) -> dict[str, float]:
        name = self._names[-1]
        self._operator.kill()
        change.make(name)
        timeline = Timeline(self._kube, NAMESPACE)
        time.sleep(AWAY_SECONDS)
        assert timeline.get(STATEFUL_SETS, name), "the watch tells nothing"
        assert not change.answered(timeline, name), "answered while the operator is away"
        self._operator = operator = OperatorProcess(self._plane.kubeconfig)
        decided = timeline.wait(
            f"{name} is answered",
            lambda seen: change.answered(seen, name),
            LONGEST_SECONDS,
            operator.began,
        )
        operator.until(
            "all clusters are looked at",
            lambda one: len(one.looked_at) == len(self._names),
            LONGEST_SECONDS,
        )
        change.undo(name)
        leading = (operator.leading or operator.began) - operator.began
        return {
            "Lease held": leading,
            "first correct decision": decided,
            "from the Lease to it": decided - leading,
            "all looked at": max(operator.looked_at.values()) - operator.began,
        }

    def _put_back(self) -> Json:
        """Deletes the client Service of each cluster in turn, and measures its recreation."""
        time.sleep(SETTLE_SECONDS)
        before = step_delays(self._operator.page())
        timeline = Timeline(self._kube, NAMESPACE)
        time.sleep(AWAY_SECONDS)
        seconds = [self._is_back(timeline, f"{name}-client") for name in self._names]
        delays = difference(step_delays(self._operator.page()), before)
        found = {"p50": quantile(delays, 0.5), "p99": quantile(delays, 0.99)}
        return found | {"steps": delays["+Inf"], "seen_seconds": round(median(seconds), 3)}

    def _is_back(self, timeline: Timeline, service: str) -> float:
        uid = timeline.get(SERVICES, service)["metadata"]["uid"]
        start = time.monotonic()
        self._kube.delete(SERVICES, NAMESPACE, service)

        def is_another(seen: Timeline) -> bool:
            body = seen.get(SERVICES, service)
            return bool(body) and body["metadata"]["uid"] != uid

        return timeline.wait(f"{service} is there again", is_another, LONGEST_SECONDS, start)

    def _grow(self, name: str) -> None:
        self._kube.patch(CLUSTERS, NAMESPACE, name, {"spec": {"size": LARGER}})

    def _shrink(self, name: str) -> None:
        """Edits the StatefulSet by hand, as the stand-in cannot add or remove members."""
        self._operator.kill()
        self._kube.patch(CLUSTERS, NAMESPACE, name, {"spec": {"size": SIZE}})
        self._kube.patch(STATEFUL_SETS, NAMESPACE, name, {"spec": {"replicas": SIZE}})
        for pod in (f"{name}-{ordinal}" for ordinal in range(SIZE, LARGER)):
            eventually(f"{pod} is gone", lambda pod=pod: not self._kube.get(PODS, NAMESPACE, pod))
            self._kube.delete(CLAIMS, NAMESPACE, f"data-{pod}")

    def _take_service(self, name: str) -> None:
        self._kube.delete(SERVICES, NAMESPACE, f"{name}-client")


def is_grown(seen: Timeline, name: str) -> bool:
    replicas = seen.get(STATEFUL_SETS, name).get("spec", {}).get("replicas")
    return bool(replicas == LARGER)


def has_service(seen: Timeline, name: str) -> bool:
    return bool(seen.get(SERVICES, f"{name}-client"))
