"""The API server of the tiny world: clusters, claims and pods, with defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from copied import copied
from world_etcd import Data

from etcd_stateful.api.cluster import EtcdCluster, parse_cluster
from etcd_stateful.api.tls import AS_MADE, Levels, Trust
from etcd_stateful.records.errors import BadRecord
from etcd_stateful.records.member import MemberRecord, load_member

UID = "4be0f3a2-0b0e-4d8c-9a55-2f6f0a1c7d11"

Json = dict[str, Any]


def body(
    size: int = 3, *, name: str = "c", uid: str = UID, status: Json | None = None, **spec: Any
) -> Json:
    """An EtcdCluster as the API server stores it."""
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "generation": 1},
        "spec": {"size": size} | spec,
        "status": status or {},
    }


def cluster(size: int = 3, **given: Any) -> EtcdCluster:
    return parse_cluster(body(size, **given))


@dataclass(slots=True)
class Volume:
    """A claim, and the data on its volume."""

    uid: str
    resource_version: int
    annotations: dict[str, str]
    data: Data | None = None
    deleting: bool = False
    unreadable: str = ""
    damaged: str = ""
    """What `start` finds wrong with the log; empty if nothing."""
    phase: str = "Bound"


def record_in(annotations: dict[str, str]) -> tuple[MemberRecord | None, str]:
    """The member record, and why it cannot be read."""
    try:
        return load_member(annotations), ""
    except BadRecord as error:
        return None, str(error)


@dataclass(slots=True)
class PodState:
    """A pod. `where` is `pending`, `start`, `image` (waiting for an etcd image that cannot be
    pulled) or `etcd`. `data` is the content of an emptyDir."""

    uid: str
    resource_version: int
    where: str = "pending"
    challenge: str = ""
    deleting: bool = False
    trouble: str = ""
    silent: bool = False
    """Neither its `start` nor its etcd answers."""
    hangs: tuple[int, int] | None = None
    """Its disk hangs: the leader and the term that its etcd goes on naming from memory."""
    hidden: bool = False
    """Somebody has removed its labels, so that its StatefulSet has let go of it."""
    age: float = 0.0
    annotations: dict[str, str] = field(default_factory=dict)
    data: Data | None = None
    revision: str = ""
    spec_hash: str = ""
    image: str = ""
    start_image: str = ""
    crashing: bool = False
    damage: str = ""
    node_gone: bool = False
    had_data: bool = False
    """Its `start` found data and let etcd run on it."""
    overdue: bool = False
    trust: Trust = AS_MADE
    levels: Levels | None = None
    quota: int = 0
    epoch: int = 0
    """The epoch that its `start` expects of the data."""

    @property
    def version(self) -> str:
        return self.image.rpartition(":v")[2]


_POD_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS = {
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}


def with_defaults(manifest: Json) -> Json:
    """The object as an API server (1.36) stores it."""
    live = _without_empty(copied(manifest))
    live["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    if live["kind"] == "StatefulSet":
        _default_stateful_set(live)
    if live["kind"] == "Service":
        _default_service(live)
    return live


def _without_empty(value: Any) -> Any:
    """Drops empty text, lists and maps, which are not stored. Zero and false are kept, as where Go
    has a pointer, and so is an empty text in a map of texts."""
    if isinstance(value, dict):
        of_text = ("labels", "annotations", "nodeSelector", "matchLabels")
        kept = {key: one if key in of_text else _without_empty(one) for key, one in value.items()}
        meant = ("emptyDir", "labelSelector", "namespaceSelector", "podSelector")
        return {
            key: one for key, one in kept.items() if key in meant or one not in ("", [], {}, None)
        }
    return [_without_empty(one) for one in value] if isinstance(value, list) else value


def _default_stateful_set(live: Json) -> None:
    spec = live["spec"]
    spec["revisionHistoryLimit"] = 10
    pod = spec["template"]["spec"]
    spec["template"]["metadata"]["creationTimestamp"] = None
    spec["template"]["spec"] = _POD_DEFAULTS | pod
    for container in pod["initContainers"] + pod["containers"]:
        container.update(_CONTAINER_DEFAULTS | container)
        for port in container.get("ports", []):
            port["protocol"] = "TCP"
        for variable in container.get("env", []):
            if "fieldRef" in variable.get("valueFrom", {}):
                variable["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
        for probe in ("livenessProbe", "readinessProbe"):
            if probe in container:
                container[probe]["successThreshold"] = 1
    for claim in spec.get("volumeClaimTemplates", []):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim["metadata"]["creationTimestamp"] = None
        claim["spec"] = {"volumeMode": "Filesystem"} | claim["spec"]
        claim["status"] = {"phase": "Pending"}
    live["status"] = {"replicas": 0, "availableReplicas": 0}


def _default_service(live: Json) -> None:
    defaults = {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
    }
    live["spec"] = defaults | live["spec"]
    for port in live["spec"]["ports"]:
        port["protocol"] = "TCP"
    live["status"] = {"loadBalancer": {}}
