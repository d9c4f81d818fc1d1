"""The installed operator: its Deployment, its pods, its log and its Lease."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from urllib3.exceptions import HTTPError

from harness.api import DEPLOYMENTS, LEASES, PODS, ApiError, Json, Kube
from harness.clusters import is_ready
from harness.waiting import PASSING, eventually

LABEL = "app.kubernetes.io/name=etcd-operator"
LOST = re.compile(r"the Lease \S+ is lost")


@dataclass
class Line:
    at: float
    pod: str
    text: str


@dataclass
class Log:
    """The logs of all operator pods since the tests began, including pods that are gone."""

    kube: Kube
    namespace: str
    lines: list[Line] = field(default_factory=list)
    _followed: set[str] = field(default_factory=set)

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def since(self, moment: float) -> list[Line]:
        return [line for line in list(self.lines) if line.at >= moment]

    def holding(self, texts: Iterable[str], moment: float) -> list[str]:
        """Lines that contain any of these texts."""
        words = tuple(texts)
        return [
            f"{line.pod}: {line.text}"
            for line in self.since(moment)
            if any(one in line.text for one in words)
        ]

    def _watch(self) -> None:
        while True:
            try:
                for event in self.kube.watch(PODS, self.namespace):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._follow(event["object"])
            except (ApiError, HTTPError, OSError, ValueError):
                time.sleep(1)

    def _follow(self, pod: Json) -> None:
        labels = pod["metadata"].get("labels") or {}
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        run = f"{pod['metadata']['uid']}/{sum(one['restartCount'] for one in statuses)}"
        running = any("running" in one["state"] for one in statuses)
        if labels.get("app.kubernetes.io/name") != "etcd-operator" or not running:
            return
        if run not in self._followed:
            self._followed.add(run)
            name = pod["metadata"]["name"]
            threading.Thread(target=self._read, args=(name,), daemon=True).start()

    def _read(self, pod: str) -> None:
        try:
            for text in self.kube.log_lines(self.namespace, pod, follow="true"):
                self.lines.append(Line(time.time(), pod, text))
        except (ApiError, HTTPError, OSError) as error:
            self.lines.append(Line(time.time(), pod, f"(the log ends: {error!r})"))


class Operator:
    """The operator's Deployment, found by its label in any namespace."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        found = kube.list(DEPLOYMENTS, None, LABEL)
        assert found, "no operator is installed: run `make install` first"
        metadata = found[0]["metadata"]
        self.namespace, self.name = metadata["namespace"], metadata["name"]
        self.release = metadata["annotations"]["meta.helm.sh/release-name"]
        self.log = Log(kube, self.namespace)
        self.log.start()

    def deployment(self) -> Json:
        found = self.kube.get(DEPLOYMENTS, self.namespace, self.name)
        if found is None:
            raise ApiError(404, "the operator's Deployment does not exist")
        return found

    @property
    def user(self) -> str:
        account = self.deployment()["spec"]["template"]["spec"]["serviceAccountName"]
        return f"system:serviceaccount:{self.namespace}:{account}"

    @property
    def image(self) -> str:
        return str(self.deployment()["spec"]["template"]["spec"]["containers"][0]["image"])

    def pods(self) -> list[Json]:
        found = self.kube.list(PODS, self.namespace, LABEL)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def runs(self) -> dict[str, int]:
        """Container restarts by pod. Another pod or another count means another process."""
        return {
            pod["metadata"]["name"]: sum(
                one["restartCount"] for one in pod["status"].get("containerStatuses", ())
            )
            for pod in self.pods()
        }

    def restarted(self, before: dict[str, int]) -> list[str]:
        """Pods that have restarted or changed, except one that restarted once for its lost Lease.

        Such a pod has to exit: it could not renew its Lease in time, so another may have it.
        """
        now = self.runs()
        changed = {pod for pod in (*before, *now) if now.get(pod) != before.get(pod)}
        once = {pod for pod in changed if pod in before and now.get(pod) == before[pod] + 1}
        return sorted(pod for pod in changed if not (pod in once and self._lost_its_lease(pod)))

    def _lost_its_lease(self, pod: str) -> bool:
        """Whether it exited because of its Lease, by the log of its last container."""
        try:
            return self._last_exit_code(pod) == 1 and any(
                LOST.search(line)
                for line in self.kube.log_lines(self.namespace, pod, previous="true")
            )
        except PASSING:
            return False  # Without a log the restart is not excused.

    def _last_exit_code(self, pod: str) -> int | None:
        found = self.kube.get(PODS, self.namespace, pod) or {}
        statuses = found.get("status", {}).get("containerStatuses", ())
        ended = [one["lastState"]["terminated"] for one in statuses if one.get("lastState")]
        return ended[0]["exitCode"] if len(ended) == 1 else None

    def scale(self, replicas: int) -> None:
        self.kube.patch(
            DEPLOYMENTS, self.namespace, self.name, {"spec": {"replicas": replicas}}, "scale"
        )
        eventually(
            f"{replicas} operator pods are ready",
            lambda: self.kube.list(PODS, self.namespace, LABEL),
            lambda pods: len(pods) == replicas and all(is_ready(pod) for pod in pods),
            seconds=60,
        )

    def kill(self, *, grace_seconds: int = 0) -> None:
        """Deletes every operator pod and does not wait."""
        for pod in self.pods():
            name = pod["metadata"]["name"]
            self.kube.delete(PODS, self.namespace, name, gracePeriodSeconds=grace_seconds)

    def leader(self) -> str:
        """Name of the pod that holds the Lease; empty if none does."""
        for lease in self.kube.list(LEASES, self.namespace):
            holder = str(lease["spec"].get("holderIdentity") or "")
            for pod in self.pods():
                if holder.startswith(pod["metadata"]["name"]):
                    return str(pod["metadata"]["name"])
        return ""

    def tracebacks(self, moment: float) -> list[str]:
        return self.log.holding(("Traceback", "Task exception was never retrieved"), moment)
