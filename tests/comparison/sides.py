"""The two ways behind one face: declared, edited, looked at, always by the same eyes.

What a side says of itself counts for nothing here: a cluster is as declared when its pods are
ready and its members say so.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from typing import Any

import grpc
from harness.api import CLUSTERS, PODS, ApiError, Json, Kind, Kube
from harness.clusters import is_ready
from harness.etcd import Address, Etcd, EtcdError, Members
from harness.reach import Reach
from random_names.controller import Controller
from random_names.decide import Spec
from random_names.manifests import Home
from random_names.voters import Voters

OWNERS = Kind("configmaps", "v1", "ConfigMap")
ETCD = {"snapshotCount": 2000}
"""On both sides: fewer puts until the log no longer begins at the beginning, as that of any cluster
that has run for a while. The 5000 entries that etcd keeps for those who lag stay as they are."""

PLAINTEXT = {"peer": "Plaintext", "client": "Plaintext"}
"""On both sides: the other has no TLS, and what is compared is not what encryption costs."""

TOLERATIONS = [
    {"key": f"node.kubernetes.io/{what}", "effect": "NoExecute", "tolerationSeconds": 10}
    for what in ("unreachable", "not-ready")
]
"""On both sides: pods of a node that has gone dark are given up after 10 seconds, not 300."""

ANSWER_SECONDS = 2


class Side:
    """A cluster of one side in a namespace of its own."""

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
        """Whatever of it runs in this process."""

    def pods(self) -> dict[str, Json]:
        """By name, without those that are being deleted. Both sides carry coreos's labels."""
        found = self.kube.list(PODS, self.namespace, f"app=etcd,etcd_cluster={self.name}")
        alive = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
        return {pod["metadata"]["name"]: pod for pod in alive}

    def channel(self, where: Address, options: tuple[tuple[str, Any], ...]) -> Any:
        """A gRPC channel to a member, for the load."""
        return grpc.insecure_channel(f"{where[0]}:{where[1]}", options=options)

    def member(self, pod: str) -> Etcd:
        return Etcd(lambda: self.reach.pod(self.namespace, pod, 2379))

    def is_as_declared(self, size: int, version: str, without: Iterable[str] = ()) -> bool:
        """Ready, of that version, none of the pods (by UID) that had to go, and all are members."""
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
        """Name of the pod that leads; empty where nobody says."""
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
    """An EtcdCluster, with volumes or without."""

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
    """The stand-in's controller, in this process; a ConfigMap owns what it makes."""

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
    """A member that has not started yet has no name, so it matches no pod."""
    return {"a learner" if one.learner else one.name for one in listed.members}
