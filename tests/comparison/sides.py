"""One interface to both sides: create, edit and observe a cluster in the same way.

What a side reports about itself is not used: a cluster is as declared if its pods are ready and its
members say so.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from typing import Any

import grpc
from harness.address import Address
from harness.api import CLUSTERS, PODS, ApiError, Json, Kind, Kube
from harness.clusters import is_ready
from harness.etcd import Etcd, EtcdError, Members
from harness.reach import Reach
from random_names.controller import Controller
from random_names.decide import Spec
from random_names.manifests import Home
from random_names.voters import Voters

OWNERS = Kind("configmaps", "v1", "ConfigMap")
ETCD = {"snapshotCount": 2000}
"""On both sides: etcd truncates its log after fewer puts, as in any cluster that has run for a
while. It still keeps the default of 5000 entries for slow followers."""

PLAINTEXT = {"peer": "Plaintext", "client": "Plaintext"}
"""On both sides: the other approach has no TLS here, and the cost of encryption is not compared."""

TOLERATIONS = [
    {"key": f"node.kubernetes.io/{what}", "effect": "NoExecute", "tolerationSeconds": 10}
    for what in ("unreachable", "not-ready")
]
"""On both sides: pods of a node without power are evicted after 10 seconds, not 300."""

ANSWER_SECONDS = 2


class Side:
    """A cluster of one side in its own namespace."""

    def __init__(self, kube: Kube, reach: Reach, namespace: str, name: str) -> None:
        self.kube = kube
        self.reach = reach
        self.namespace = namespace
        self.name = name

    def create(self, size: int, version: str) -> None:
        raise NotImplementedError

    def edit(self, **spec: Any) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Stops what runs in this process."""

    def pods(self) -> dict[str, Json]:
        """Pods by name, without those that are terminating. Both sides have coreos's labels."""
        found = self.kube.list(PODS, self.namespace, f"app=etcd,etcd_cluster={self.name}")
        alive = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
        return {pod["metadata"]["name"]: pod for pod in alive}

    def channel(self, where: Address, options: tuple[tuple[str, Any], ...]) -> Any:
        """A gRPC channel to a member, for the load."""
        return grpc.insecure_channel(f"{where[0]}:{where[1]}", options=options)

    def member(self, pod: str) -> Etcd:
        return Etcd(lambda: self.reach.pod(self.namespace, pod, 2379))

    def is_as_declared(self, size: int, version: str, without: Iterable[str] = ()) -> bool:
        """Whether the cluster has that size and version, all its pods are Ready and members, and
        none of the pods `without` (by UID) is left."""
        pods = self.pods()
        uids = {pod["metadata"]["uid"] for pod in pods.values()}
        if len(pods) != size or uids & set(without):
            return False
        if not all(is_ready(pod) for pod in pods.values()):
            return False
        try:
            listed = self.member(next(iter(pods))).members()
            versions = {self._version(pod) for pod in pods}
        except (EtcdError, ApiError, OSError):
            return False
        return _voters(listed) == set(pods) and versions == {version}

    def leader(self) -> str:
        """Name of the leader's pod; empty if no member says that it leads."""
        ids: dict[str, str] = {}
        leading = ""
        for name in self.pods():
            status = self.member(name).status()
            ids[status["member_id"]] = name
            leading = f"{int(status['leader']):016x}"
        return ids.get(leading, "")

    def _version(self, pod: str) -> str:
        host, port = self.reach.pod(self.namespace, pod, 2379)
        where = f"http://{host}:{port}/version"
        with urllib.request.urlopen(where, timeout=ANSWER_SECONDS) as answer:
            return str(json.load(answer)["etcdserver"])


class Ours(Side):
    """An EtcdCluster, with claims or with an emptyDir."""

    def __init__(self, *where: Any, pod: Json) -> None:
        super().__init__(*where)
        self._pod = pod

    def create(self, size: int, version: str) -> None:
        pod = {"tolerations": TOLERATIONS, **self._pod}
        spec = {"size": size, "version": version, "etcd": ETCD, "pod": pod, "TLS": PLAINTEXT}
        manifest = {"metadata": {"name": self.name}, "spec": spec}
        self.kube.create(CLUSTERS, manifest, self.namespace)

    def edit(self, **spec: Any) -> None:
        self.kube.patch(CLUSTERS, self.namespace, self.name, {"spec": spec})


class RandomNames(Side):
    """The stand-in for the other approach: its controller runs in this process, and a ConfigMap
    owns its objects."""

    def __init__(self, *where: Any, helper_image: str, interval: float) -> None:
        super().__init__(*where)
        self._helper_image = helper_image
        self._interval = interval
        self._controller: Controller | None = None

    def create(self, size: int, version: str) -> None:
        made = self.kube.create(OWNERS, {"metadata": {"name": self.name}}, self.namespace)
        owner = {
            "apiVersion": OWNERS.api_version,
            "kind": OWNERS.kind,
            "name": self.name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        home = Home(self.namespace, self.name, owner, self._helper_image, ETCD, TOLERATIONS)
        spec = Spec(size, version)
        self._controller = Controller(self.kube, Voters(), home, spec, self._interval)
        self._controller.start()

    def edit(self, **spec: Any) -> None:
        assert self._controller is not None
        self._controller.edit(**spec)

    def close(self) -> None:
        if self._controller is not None:
            self._controller.stop()

    def log(self) -> list[str]:
        return [line.words for line in self._controller.log] if self._controller else []


def _voters(listed: Members) -> set[str]:
    """Names of the voters. A member that has not started has no name, and so matches no pod."""
    return {"a learner" if one.learner else one.name for one in listed.members}
