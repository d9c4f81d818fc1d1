"""An EtcdCluster in a test: declare it, observe it, and connect to it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import grpc

from harness.address import Address, target
from harness.api import (
    BUDGETS,
    CLAIMS,
    CLUSTERS,
    EVENTS,
    PODS,
    POLICIES,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    ApiError,
    Json,
    Kind,
    Kube,
)
from harness.conditions import condition
from harness.credentials import Credentials
from harness.etcd import Etcd
from harness.reach import Reach
from harness.waiting import eventually

PREFIX = "etcd.database.coreos.com"
NAME = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
COMES_UP_SECONDS = 60
PATIENCE = 15
"""Seconds for which a client tries again, where each try has a deadline of its own."""

SHUT_OUT_PATIENCE = 5
"""The same for clients that are expected to be refused."""

SETTLED = "nothing to do"
KNOWN_SECONDS = 2.0
"""How long a client uses its credentials before it reads them again."""


class Cluster:
    """One EtcdCluster, and clients of it."""

    def __init__(
        self,
        kube: Kube,
        reach: Reach,
        namespace: str,
        name: str,
        own: Credentials | None = None,
    ) -> None:
        self.kube = kube
        self.reach = reach
        self.namespace = namespace
        self.name = name
        self.own = own
        self.plaintext: bool | None = None
        """Whether its clients use plaintext; None: as recorded by the operator."""
        self._looked = float("-inf")
        self._found: Credentials | None = None
        self.client = self.client_with(self.credentials)

    def client_with(
        self, credentials: Callable[[], Credentials | None], patience: float = PATIENCE
    ) -> Etcd:
        return Etcd(self._service, patience, credentials)

    def _service(self) -> Address:
        return self.reach.service(self.namespace, f"{self.name}-client", 2379)

    def member(self, ordinal: int) -> Etcd:
        name = f"{self.name}-{ordinal}"
        return Etcd(
            lambda: self.reach.pod(self.namespace, name, 2379), credentials=self.credentials
        )

    def credentials(self) -> Credentials | None:
        """Credentials from the Secret for applications; None for a cluster in plaintext."""
        if self.plaintext or self.own is not None:
            return None if self.plaintext else self.own
        if time.monotonic() - self._looked > KNOWN_SECONDS:
            link = self.record().get("links", {}).get("client", {"mode": "Plaintext"})
            bare = self.plaintext is None and link["mode"] == "Plaintext"
            secret = None if bare else self.get(SECRETS, f"{self.name}-client-tls")
            host = f"{self.name}-client.{self.namespace}.svc"
            self._found = Credentials.of(secret, host) if secret else None
            self._looked = time.monotonic()
        return self._found

    def channel(self, where: Address, options: tuple[tuple[str, Any], ...]) -> Any:
        """A gRPC channel to a member, as this cluster's clients open it."""
        mine = self.credentials()
        if mine is None:
            return grpc.insecure_channel(target(where), options=options)
        return mine.channel(target(where), options)

    # Declare and change it.

    def declare(self, size: int = 3, **spec: Any) -> Cluster:
        manifest = {"metadata": {"name": self.name}, "spec": {"size": size, **spec}}
        self.kube.create(CLUSTERS, manifest, self.namespace)
        return self

    def change(self, **spec: Any) -> None:
        self.kube.patch(CLUSTERS, self.namespace, self.name, {"spec": spec})

    def scale(self, size: int) -> None:
        """Scales it with `kubectl scale`, as users do."""
        self.kube.kubectl("-n", self.namespace, "scale", "etcd", self.name, f"--replicas={size}")

    def delete(self) -> None:
        """Deletes it, and waits until it and its pods are gone. Its claims stay."""
        self.kube.delete(CLUSTERS, self.namespace, self.name, propagationPolicy="Background")
        eventually(f"{self.name} is gone", self.body, lambda body: body is None)
        eventually("its StatefulSet is gone", self.stateful_set, lambda found: found is None)
        eventually("its pods are gone", self.pods, lambda pods: not pods, seconds=60)

    # Read its objects.

    def get(self, kind: Kind, name: str) -> Json | None:
        return self.kube.get(kind, self.namespace, name)

    def body(self) -> Json | None:
        return self.get(CLUSTERS, self.name)

    @property
    def uid(self) -> str:
        return str(self._there()["metadata"]["uid"])

    def status(self) -> Json:
        return dict(self._there().get("status") or {})

    def condition(self, kind: str) -> Json:
        """The condition of that type; empty if there is none."""
        return condition(self._there(), kind)

    def stateful_set(self) -> Json | None:
        return self.get(STATEFUL_SETS, self.name)

    def pods(self) -> dict[str, Json]:
        """Pods of its members by name, including those that are terminating; not pods of Jobs."""
        members = f"{NAME}=etcd,{INSTANCE}={self.name}"
        found = self.kube.list(PODS, self.namespace, members)
        return {pod["metadata"]["name"]: pod for pod in found}

    def pod(self, ordinal: int) -> Json | None:
        return self.get(PODS, f"{self.name}-{ordinal}")

    def pod_uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def claims(self) -> dict[str, Json]:
        """Its claims by name, regardless of labels."""
        found = self.kube.list(CLAIMS, self.namespace)
        mine = {claim["metadata"]["name"]: claim for claim in found}
        return {name: one for name, one in mine.items() if name.startswith(f"data-{self.name}-")}

    def claim_uids(self) -> dict[str, str]:
        return {name: claim["metadata"]["uid"] for name, claim in self.claims().items()}

    def children(self) -> dict[str, Json]:
        """All objects that the EtcdCluster owns, by kind and name."""
        uid = self.uid
        kinds = (STATEFUL_SETS, SERVICES, SECRETS, BUDGETS, POLICIES)
        found = [(kind, one) for kind in kinds for one in self.kube.list(kind, self.namespace)]
        return {
            f"{kind.kind}/{one['metadata']['name']}": one
            for kind, one in found
            if uid in [owner["uid"] for owner in one["metadata"].get("ownerReferences", ())]
        }

    def record(self) -> Json:
        """The bootstrap record in the Secret; empty if there is none."""
        secret = self.get(SECRETS, f"{self.name}-start")
        if secret is None:
            return {}
        return dict(json.loads(base64.b64decode(secret["data"]["bootstrap"])))

    def events(self) -> list[Json]:
        """Events of this EtcdCluster. Its StatefulSet and an earlier cluster have the same name."""
        uid = self.uid
        found = self.kube.list(EVENTS, self.namespace)
        return [one for one in found if one["involvedObject"].get("uid") == uid]

    # Wait for it.

    def comes_up(self, seconds: float = COMES_UP_SECONDS) -> Cluster:
        """Waits until its status says that the cluster is as declared.

        The status is a moment behind the pods, so the pods are checked first.
        """
        place = f"{self.namespace}/{self.name}"
        eventually(f"the pods of {place} are ready", self._unready, lambda left: left == 0, seconds)
        eventually(f"{place} is up", self._there, is_up, seconds, every=0.25)
        # kube-proxy may be a second late to program a new Service.
        eventually(f"clients of {place} are served", self.client.members, seconds=10)
        return self

    def leader(self) -> int:
        """Ordinal of the member that reports itself as leader."""
        found = eventually("a leader", self._leaders, lambda found: len(found) == 1, seconds=15)
        return found[0]

    def is_led_by(self, ordinal: int) -> None:
        """Makes this member the leader, as the leader of a new cluster is random."""
        if (leads := self.leader()) != ordinal:
            self.member(leads).hand_over(self.client.members().ids[f"{self.name}-{ordinal}"])
        what = f"{self.name}-{ordinal} leads"
        eventually(what, self.leader, lambda leads: leads == ordinal, seconds=10)

    def _leaders(self) -> list[int]:
        leaders = []
        for name, pod in self.pods().items():
            ordinal = int(name.rpartition("-")[2])
            if is_ready(pod) and self.member(ordinal).status()["leads"]:
                leaders.append(ordinal)
        return leaders

    def holds(self, reason: str, *words: str, kind: str = "Blocked", seconds: float = 30) -> Json:
        """Waits for a condition of that reason whose message has all the words."""
        return eventually(
            f"{self.namespace}/{self.name} says {reason} with {words} in {kind}",
            lambda: self.condition(kind),
            lambda found: (
                found.get("reason") == reason
                and all(word in found.get("message", "") for word in words)
            ),
            seconds,
        )

    def _unready(self) -> int:
        pods = [pod for pod in self.pods().values() if "deletionTimestamp" not in pod["metadata"]]
        return int(self._there()["spec"]["size"]) - sum(is_ready(pod) for pod in pods)

    def _there(self) -> Json:
        body = self.body()
        if body is None:
            raise ApiError(404, f"there is no EtcdCluster {self.namespace}/{self.name}")
        return body


def is_up(body: Json) -> bool:
    status, size = body.get("status") or {}, body["spec"]["size"]
    return (
        status.get("observedGeneration") == body["metadata"]["generation"]
        and status.get("phase") == "Running"
        and status.get("readyMembers") == size
        and len(status.get("members", {}).get("ready", ())) == size
        and status.get("plan") == SETTLED
    )


def is_ready(pod: Json | None) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def restarts(pod: Json) -> int:
    status = pod.get("status") or {}
    both = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return sum(int(one["restartCount"]) for one in both)


def state_of(pod: Json | None, container: str) -> str:
    """`running`, `waiting` or `terminated`; empty if there is no status of the container yet."""
    status = (pod or {}).get("status") or {}
    both = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    found = next((one.get("state") or {} for one in both if one["name"] == container), {})
    return next(iter(found), "")


def is_waiting_in_start(pod: Json | None) -> bool:
    return state_of(pod, "start") == "running"


def start_image(pod: Json) -> str:
    """The image of `start`, which is that of the operator that rendered the pod or the template."""
    found = (one for one in pod["spec"]["initContainers"] if one["name"] == "start")
    return str(next(found)["image"])


def etcd_version(pod: Json) -> str:
    """The version in the tag of etcd's image, without the `v`."""
    found = (one for one in pod["spec"]["containers"] if one["name"] == "etcd")
    return str(next(found)["image"]).rpartition(":v")[2]
