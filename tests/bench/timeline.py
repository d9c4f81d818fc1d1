"""When things happened, by the clock of this machine at the arrival of watch events.

Timestamps in Kubernetes objects are in whole seconds, and polling adds its interval. A watch event
arrives about a millisecond after the write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from harness.api import CLAIMS, CLUSTERS, PODS, SECRETS, SERVICES, STATEFUL_SETS, Kind, Kube
from harness.clusters import is_ready, state_of
from urllib3.exceptions import HTTPError

Json = dict[str, Any]

WATCHED = (PODS, CLAIMS, STATEFUL_SETS, SERVICES, SECRETS, CLUSTERS)


class Timeline:
    """Watches one namespace; `marks` holds the first time of everything worth a mark."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._changed = threading.Condition()
        self._uids: dict[str, str] = {}
        self.marks: dict[str, float] = {}
        self.objects: dict[tuple[str, str], Json] = {}
        for kind in WATCHED:
            threading.Thread(target=self._watch, args=(kind,), daemon=True).start()

    def reset(self) -> None:
        with self._changed:
            self.marks.clear()

    def wait(
        self, what: str, good: Callable[[Timeline], bool], seconds: float, start: float
    ) -> float:
        """Seconds from `start` until the condition held."""
        deadline = start + seconds
        with self._changed:
            while not good(self):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{what}: not so after {seconds:g} s; seen: {self.marks}")
                self._changed.wait(left)
        return time.monotonic() - start

    def since(self, start: float) -> dict[str, float]:
        with self._changed:
            return {name: at - start for name, at in self.marks.items()}

    def get(self, kind: Kind, name: str) -> Json:
        """The object as last seen; empty if it does not exist."""
        return self.objects.get((kind.kind, name), {})

    def pods(self) -> list[Json]:
        return [one for (kind, _), one in self.objects.items() if kind == PODS.kind]

    def _watch(self, kind: Kind) -> None:
        try:
            for event in self._kube.watch(kind, self._namespace):
                self._take(kind, event, time.monotonic())
        except (HTTPError, OSError, ValueError, KeyError):
            return  # The measurement in this namespace is over.

    def _take(self, kind: Kind, event: Json, now: float) -> None:
        body = event["object"]
        key = (kind.kind, body["metadata"]["name"])
        with self._changed:
            if event["type"] == "DELETED":
                self.objects.pop(key, None)
                self._mark(f"{key[0]} {key[1]} gone", now)
            else:
                self.objects[key] = body
                for name in marks_of(kind, body):
                    self._mark(name, now)
            self._changed.notify_all()

    def _mark(self, name: str, now: float) -> None:
        self.marks.setdefault(name, now)


def marks_of(kind: Kind, body: Json) -> list[str]:
    """The events that this state of an object proves."""
    name = body["metadata"]["name"]
    said = [f"{kind.kind} {name}"]
    if kind is CLAIMS and (body.get("status") or {}).get("phase") == "Bound":
        said.append(f"{kind.kind} {name} bound")
    if kind is CLUSTERS and (body.get("status") or {}).get("phase") == "Running":
        said.append("latched")
    if kind is PODS:
        if body["spec"].get("nodeName"):
            said.append(f"Pod {name} scheduled")
        start = state_of(body, "start")
        if start in ("running", "terminated"):
            said.append(f"Pod {name} in start")
        if start == "terminated":
            said.append(f"Pod {name} has its ticket")
        if state_of(body, "etcd") == "running":
            said.append(f"Pod {name} runs etcd")
        if is_ready(body):
            said.append(f"Pod {name} ready")
    return said


def phases(marks: dict[str, float]) -> dict[str, float]:
    """When the last pod reached each phase, with the objects in between, in order of time."""
    found: dict[str, float] = {}
    for name, at in marks.items():
        words = name.split(" ", 2)
        if words[0] == "Pod":
            phase = f"all pods {words[2]}" if len(words) == 3 else "all pods made"
        elif words[0] == CLAIMS.kind:
            phase = "all claims bound" if len(words) == 3 else "all claims made"
        elif words[0] == SERVICES.kind:
            phase = "client Service" if words[1].endswith("-client") else "headless Service"
        elif words[0] in (SECRETS.kind, STATEFUL_SETS.kind):
            phase = words[0]
        elif name == "latched":
            phase = "latched (status)"
        else:
            continue
        found[phase] = max(found.get(phase, 0.0), at)
    return dict(sorted(found.items(), key=lambda item: item[1]))
