"""The measurements. Each returns plain numbers; `run.py` puts them together."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import bare
from harness.api import (
    CLAIMS,
    CLUSTERS,
    KUBECONFIG,
    NAMESPACES,
    ROOT,
    SERVICES,
    STATEFUL_SETS,
    Kind,
    Kube,
)
from harness.audit import Audit, in_words
from harness.clusters import Cluster, is_ready
from harness.operator import Operator
from harness.place import RESTRICTED
from harness.reach import Reach
from harness.waiting import eventually
from timeline import Timeline, phases

Json = dict[str, Any]

SIZE = 3
NAME = "etcd"
SIDES = ("ours", "bare")
"""Both sides without TLS."""

TLS = "tls"
"""Our cluster with the default TLS."""
GATED = "gated"
"""The bare StatefulSet with an init container that ends at once."""
MOUNTED = "mounted"
"""The bare StatefulSet with a step before etcd in its own container, from an image volume."""
LONGEST_SECONDS = 120
CACHED_SECONDS = 30
"""The default of CoreDNS' plugin."""
REST_SECONDS = 7
"""Pause before each repair. The client Service is altered three times a round, and the operator's
rate limit allows one more write of it every ten seconds: shorter pauses would slow repairs down."""


class Bench:
    def __init__(self, kube: Kube, reach: Reach, operator: Operator) -> None:
        self.kube = kube
        self.reach = reach
        self.operator = operator

    # From apply to three Ready.

    def creation(self, runs: int) -> Json:
        """Creates clusters with new names in new namespaces. The sides take turns, so that load of
        the machine affects both."""
        before = step_delays(self.operator_page())
        sides = (*SIDES, TLS, GATED, MOUNTED)
        found: dict[str, list[float]] = {side: [] for side in sides}
        when: dict[str, list[Json]] = {side: [] for side in sides}
        for run in range(runs):
            for side in turns(sides, run):
                with self.namespace() as namespace:
                    timeline = self.timeline(namespace)
                    found[side].append(self._create(side, namespace, timeline))
                    when[side].append(timeline.phases)
                say(f"  {run + 1}/{runs} {side}: {found[side][-1]:.2f} s")
        delays = difference(step_delays(self.operator_page()), before)
        return {
            **compare(found),
            "target_ratio": 1.1,
            "target_seconds": 6,
            "tls_seconds": median(found[TLS]) - median(found["ours"]),
            "target_tls_seconds": 0.5,
            "phases": {side: medians(when[side]) for side in sides},
            "step_delay": {
                "p50": quantile(delays, 0.5),
                "p99": quantile(delays, 0.99),
                "steps": delays.get("+Inf", 0),
                "target_p50": 0.05,
                "target_p99": 0.25,
            },
        }

    def again(self, runs: int) -> Json:
        """Deletes a cluster with its claims, waits as `kubectl delete` does, and recreates it."""
        found: dict[str, list[float]] = {side: [] for side in SIDES}
        when: dict[str, list[Json]] = {side: [] for side in SIDES}
        for run in range(runs):
            for side in turns(SIDES, run):
                with self.namespace() as namespace:
                    self._create(side, namespace, self.timeline(namespace))
                    self._delete(side, namespace)
                    timeline = self.timeline(namespace)
                    found[side].append(self._create(side, namespace, timeline))
                    when[side].append(timeline.phases)
                say(f"  {run + 1}/{runs} {side}: {found[side][-1]:.2f} s")
        return {
            **compare(found),
            "target_ratio": 0.4,
            "phases": {side: medians(when[side]) for side in SIDES},
        }

    def again_cached(self, runs: int) -> Json:
        """The same while DNS remembers each answer, also that there is no such name."""
        remember(CACHED_SECONDS)
        try:
            return {**self.again(runs), "cached_seconds": CACHED_SECONDS}
        finally:
            remember(0)

    def _create(self, side: str, namespace: str, timeline: Watched) -> float:
        start = time.monotonic()
        if side in ("bare", GATED, MOUNTED):
            self.kube.create(SERVICES, bare.service(NAME), namespace)
            image = self.operator.image if side == MOUNTED else ""
            by_hand = bare.bare(NAME, namespace, SIZE, gated=side == GATED, mounted=image)
            self.kube.create(STATEFUL_SETS, by_hand, namespace)
        else:
            self.kube.create(CLUSTERS, bare.ours(NAME, SIZE, tls=side == TLS), namespace)
        took = timeline.until("all are ready", all_ready, start)
        timeline.phases = phases(timeline.since(start))
        return took

    def _delete(self, side: str, namespace: str) -> None:
        kinds = (CLUSTERS,) if side == "ours" else (STATEFUL_SETS, SERVICES)
        for kind in kinds:
            self.kube.delete(kind, namespace, NAME, propagationPolicy="Background")
        for claim in self.kube.list(CLAIMS, namespace):
            self.kube.delete(CLAIMS, namespace, claim["metadata"]["name"])
        eventually("the claims are gone", lambda: not self.kube.list(CLAIMS, namespace), seconds=90)

    # Put back.

    def put_back(self, runs: int) -> Json:
        """Measures repairs: from the event of a deletion, or from the answer to an alteration, to
        the event of the repair."""
        with self.namespace() as namespace:
            self.cluster(namespace, 1)
            timeline = self.timeline(namespace)
            repairs: dict[str, Callable[[], float]] = {
                "deleted client Service": lambda: self._deleted(namespace, timeline, "etcd-client"),
                "deleted headless Service": lambda: self._deleted(namespace, timeline, "etcd"),
                "altered StatefulSet template": lambda: self._altered(
                    namespace, timeline, STATEFUL_SETS, NAME, *TEMPLATE
                ),
                "altered Service selector": lambda: self._altered(
                    namespace, timeline, SERVICES, "etcd-client", *SELECTOR
                ),
                "removed Service label": lambda: self._altered(
                    namespace, timeline, SERVICES, "etcd-client", *LABEL
                ),
            }
            found: dict[str, list[float]] = {what: [] for what in repairs}
            for run in range(runs):
                for what, repair in repairs.items():
                    # The operator slows down repairs of what is altered again and again.
                    time.sleep(REST_SECONDS)
                    found[what].append(repair())
                say(f"  {run + 1}/{runs}: worst {max(one[-1] for one in found.values()):.2f} s")
        return {
            "target_seconds": 2,
            "worst_seconds": max(max(times) for times in found.values()),
            "seconds": found,
        }

    def _deleted(self, namespace: str, timeline: Watched, name: str) -> float:
        old = timeline.objects[SERVICES.kind, name]["metadata"]["uid"]
        start = time.monotonic()
        self.kube.delete(SERVICES, namespace, name)
        return timeline.until(
            f"{name} is there again",
            lambda seen: seen.get(SERVICES, name).get("metadata", {}).get("uid", old) != old,
            start,
        )

    def _altered(
        self,
        namespace: str,
        timeline: Watched,
        kind: Kind,
        name: str,
        patch: Json,
        good: Callable[[Json], bool],
    ) -> float:
        """Measures from the answer to the alteration, before which no repair can come."""
        altered = self.kube.patch(kind, namespace, name, patch)
        start = time.monotonic()
        assert not good(altered), "nothing was altered"
        version = int(altered["metadata"]["resourceVersion"])
        return timeline.until(
            f"{name} is as it was",
            lambda seen: newer(seen.get(kind, name), version) and good(seen.get(kind, name)),
            start,
        )

    # Settled.

    def settled(self, seconds: float) -> Json:
        with self.namespace() as namespace:
            cluster = self.cluster(namespace, SIZE)
            time.sleep(20)
            audit = Audit(KUBECONFIG.resolve().parent / "logs" / "audit.log")
            calls, start = self.etcd_calls(cluster), time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - start
            made = self.etcd_calls(cluster) - calls
            asked = [one for one in audit.entries(self.operator.user) if one["verb"] != "watch"]
        words = [in_words(one) for one in asked]
        lease = sum(word.endswith(" leases") for word in words)
        resync = sum(is_resync(one) for one in asked)
        reads = sum(word.split()[0] in ("get", "list") for word in words) - resync
        writes = len(words) - sum(word.split()[0] in ("get", "list") for word in words)
        lease_writes = sum(word == "patch leases" for word in words)
        lease_reads = lease - lease_writes
        return {
            "seconds": round(took),
            "writes": writes - lease_writes,
            "reads": reads - lease_reads,
            "lease_requests": lease,
            "resync_lists": resync,
            "by_verb": {word: words.count(word) for word in sorted(set(words))},
            "etcd_calls_per_second": made / took,
            "target": "0 writes, 0 reads beside watches, Lease and resync; 0.1 etcd calls/s",
        }

    def etcd_calls(self, cluster: Cluster) -> float:
        """gRPC calls that all members have answered, by etcd's own metrics."""
        total = 0.0
        for ordinal in range(SIZE):
            text = self.page(cluster.namespace, f"{cluster.name}-{ordinal}", 2381)
            total += sum(
                float(line.rpartition(" ")[2])
                for line in text.splitlines()
                if line.startswith("grpc_server_handled_total")
            )
        return total

    # Memory.

    def memory(self, fleet: int) -> Json:
        """The memory of a restarted process, so that earlier work does not count."""
        self.operator.scale(0)
        self.operator.scale(1)
        found = {"0": self.resident()}
        with self.namespace() as namespace:
            self.cluster(namespace, SIZE)
            time.sleep(5)
            found["1"] = self.resident()
            if fleet > 1:
                many = [
                    Cluster(self.kube, self.reach, namespace, f"etcd-{number}").declare(1)
                    for number in range(fleet - 1)
                ]
                for one in many:
                    one.comes_up(seconds=300)
                time.sleep(5)
                found[str(fleet)] = self.resident()
        return {
            "target_mib": 96,
            "resident_mib_by_clusters": found,
            "resident_mib_after_imports": self.imports(),
        }

    def resident(self) -> float:
        for line in self.operator_page().splitlines():
            if line.startswith("process_resident_memory_bytes"):
                return round(float(line.split()[1]) / 2**20, 1)
        raise LookupError("the operator does not tell its memory")

    def imports(self) -> dict[str, float]:
        """How much memory each import adds, in a new interpreter of the same image."""
        pod = self.operator.pods()[0]["metadata"]["name"]
        said = self.kube.kubectl(
            "-n", self.operator.namespace, "exec", pod, "--", "python3", "-c", IMPORTS
        )
        return dict(json.loads(said))

    # Tools.

    @contextmanager
    def namespace(self) -> Iterator[str]:
        name = f"bench-{secrets.token_hex(3)}"
        self.kube.create(NAMESPACES, {"metadata": {"name": name, "labels": RESTRICTED}})
        try:
            yield name
        finally:
            self.kube.delete(NAMESPACES, None, name)
            eventually(
                "the namespace is gone",
                lambda: self.kube.get(NAMESPACES, None, name) is None,
                seconds=180,
                every=0.3,
            )

    def cluster(self, namespace: str, size: int) -> Cluster:
        return Cluster(self.kube, self.reach, namespace, NAME).declare(size).comes_up()

    def timeline(self, namespace: str) -> Watched:
        timeline = Watched(self.kube, namespace)
        timeline.begin()
        return timeline

    def operator_page(self) -> str:
        pod = self.operator.leader()
        return self.page(self.operator.namespace, pod, 8080)

    def page(self, namespace: str, pod: str, port: int) -> str:
        host, port = self.reach.pod(namespace, pod, port)
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as page:
            return str(page.read().decode())


class Watched(Timeline):
    """A timeline that has seen all existing objects before a measurement begins."""

    phases: Json

    def begin(self) -> None:
        time.sleep(0.5)
        self.reset()

    def until(self, what: str, good: Callable[[Timeline], bool], start: float) -> float:
        return self.wait(what, good, LONGEST_SECONDS, start)


def all_ready(seen: Timeline) -> bool:
    return sum(is_ready(pod) for pod in seen.pods()) == SIZE


def remember(seconds: int) -> None:
    """Makes the DNS of the cluster keep its answers for so long."""
    command = ["make", "--no-print-directory", "cluster"]
    environment = os.environ | {"DNS_CACHE": str(seconds)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)


def newer(body: Json, version: int) -> bool:
    return bool(body) and int(body["metadata"]["resourceVersion"]) > version


TEMPLATE = (
    {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}},
    lambda body: body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] != 1,
)
SELECTOR = (
    {"spec": {"selector": {"app.kubernetes.io/instance": "other"}}},
    lambda body: body["spec"]["selector"]["app.kubernetes.io/instance"] == NAME,
)
LABEL = (
    {"metadata": {"labels": {"app.kubernetes.io/instance": None}}},
    lambda body: body["metadata"]["labels"].get("app.kubernetes.io/instance") == NAME,
)

IMPORTS = """
import json, re
def resident():
    with open('/proc/self/status') as status:
        return round(int(re.search(r'VmRSS:\\s+(\\d+)', status.read())[1]) / 1024, 1)
told = {'python': resident()}
from etcd_operator import lean_imports; lean_imports.skip_unused_packages()
import asyncio, json, logging, ssl; told['+ asyncio, ssl'] = resident()
import aiohttp; told['+ aiohttp'] = resident()
import kopf; told['+ kopf'] = resident()
import kubernetes.aio.client.rest, kubernetes.aio.config.incluster_config
told['+ kubernetes.aio'] = resident()
import aetcd.rpc; told['+ aetcd, grpc'] = resident()
import etcd_operator.run; told['+ the operator'] = resident()
print(json.dumps(told))
"""


def is_resync(entry: Json) -> bool:
    """Whether it is a LIST of all namespaces. One of a single namespace is for one cluster."""
    return entry["verb"] == "list" and "namespace" not in (entry.get("objectRef") or {})


def turns(sides: tuple[str, ...], run: int) -> tuple[str, ...]:
    """The order of the sides in a run, so that each begins equally often."""
    first = run % len(sides)
    return sides[first:] + sides[:first]


def compare(found: dict[str, list[float]]) -> Json:
    middle = {side: median(times) for side, times in found.items()}
    return {
        "seconds": found,
        "median": middle,
        "worst": {side: max(times) for side, times in found.items()},
        "ratio": middle["ours"] / middle["bare"],
    }


def medians(runs: list[Json]) -> dict[str, float]:
    names = {name: None for run in runs for name in run}
    middle = {name: median([run[name] for run in runs if name in run]) for name in names}
    return dict(sorted(middle.items(), key=lambda item: item[1]))


def step_delays(page: str) -> dict[str, float]:
    """Cumulative counts by upper bound over all steps, from the operator's metrics."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        match = re.match(r'etcd_operator_step_delay_seconds_bucket{.*le="([^"]+)".*} (\S+)', line)
        if match:
            found[match[1]] = found.get(match[1], 0.0) + float(match[2])
    return found


def difference(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {bound: count - before.get(bound, 0.0) for bound, count in now.items()}


def quantile(buckets: dict[str, float], share: float) -> float | None:
    """As Prometheus computes it: linear within the bucket."""
    bounds = sorted(buckets.items(), key=lambda item: float(item[0]))
    total = bounds[-1][1] if bounds else 0
    if not total:
        return None
    low, below = 0.0, 0.0
    for bound, count in bounds:
        if count >= share * total:
            if bound == "+Inf" or count == below:
                return low
            return low + (float(bound) - low) * (share * total - below) / (count - below)
        low, below = float(bound), count
    return low


def say(text: str) -> None:
    print(text, flush=True)
