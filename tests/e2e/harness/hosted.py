"""A Kubernetes API server in a pod that stores its objects in an EtcdCluster, and clients of it.

It is the most demanding client of etcd: it watches everything, relies on revisions that only grow,
and runs for months. It mounts the same Secret as any application.
"""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.address import target
from harness.api import NAMESPACES, PODS, SECRETS, ApiError, Json, Kind, Kube
from harness.authority import Authority
from harness.clusters import Cluster, restarts
from harness.place import Place
from harness.waiting import PASSING, eventually
from localkube import binaries
from localkube.pki import write_kubeconfig

NAME = "hosted"
PORT = 6443
NAMESPACE = "default"
CONFIG_MAPS = Kind("configmaps", "v1", "ConfigMap")
OBJECTS = 5
PAUSE = 0.05
"""Seconds between two writes."""

GONE = 410


class Hosted:
    kube: Kube
    """A client of the hosted API server."""

    def __init__(self, place: Place, cluster: Cluster, folder: Path) -> None:
        """The program is mounted from the node, which the restricted profile does not allow."""
        self.place, self.cluster = place, cluster
        self.begun = 0
        self._kubeconfig = folder / "kubeconfig"
        self._authority, self._token = Authority(), secrets.token_hex(16)
        privileged = {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}
        place.kube.patch(NAMESPACES, None, place.namespace, {"metadata": privileged})
        place.kube.create(SECRETS, _files(self._authority, self._token), place.namespace)
        self._begin()

    def begin_anew(self) -> None:
        """Restarts it, with the files that are in the Secrets now."""
        kube, where = self.place.kube, self.place.namespace
        kube.delete(PODS, where, NAME)
        eventually("it has ended", lambda: kube.get(PODS, where, NAME), lambda pod: pod is None)
        self._begin()

    def _begin(self) -> None:
        place = self.place
        place.kube.create(PODS, _pod(place.operator.image, self.cluster.name), place.namespace)
        address = eventually(
            "the API server has an address",
            lambda: place.reach.pod(place.namespace, NAME, PORT),
            seconds=60,
        )
        server = {
            "server": f"https://{target(address)}",
            "tls-server-name": NAME,
            "certificate-authority-data": base64.b64encode(self._authority.pem).decode(),
        }
        write_kubeconfig(self._kubeconfig, NAME, server, NAME, {"token": self._token})
        self.kube = Kube(self._kubeconfig)
        self.begun += 1
        eventually("the API server serves", self._namespace, bool, seconds=90)

    def _namespace(self) -> Json | None:
        return self.kube.get(NAMESPACES, None, NAMESPACE)

    def has_stayed_up(self) -> None:
        pod = self.place.kube.get(PODS, self.place.namespace, NAME)
        assert pod is not None
        assert restarts(pod) == 0, "the API server has ended in between"

    def write(self, name: str, turn: int) -> int:
        """Creates or changes an object; returns its resource version."""
        body = {"data": {"turn": str(turn)}}
        try:
            made = self.kube.patch(CONFIG_MAPS, NAMESPACE, name, body)
        except ApiError as error:
            if error.status != 404:
                raise
            made = self.kube.create(CONFIG_MAPS, {"metadata": {"name": name}} | body, NAMESPACE)
        return _version(made)

    def listed(self) -> tuple[dict[str, int], int]:
        """Turns by name, and the resource version of the list, from etcd and not from a cache."""
        found = self.kube.request("GET", CONFIG_MAPS.url(NAMESPACE))
        return {
            one["metadata"]["name"]: _turn(one) for one in found["items"] if _is_ours(one)
        }, _version(found)


@dataclass
class Follower:
    """A client that lists and watches, as controllers do. It resumes a watch where it ended, and
    lists again only after 410 Gone."""

    hosted: Hosted
    seen: dict[str, int] = field(default_factory=dict)
    version: int = 0
    relists: int = -1
    """How often it had to list again."""

    went_back: list[str] = field(default_factory=list)
    """Describes each resource version that was not newer than the previous one."""

    _has_list: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._has_list:
                    self._list()
                self._watch()
            except PASSING as error:
                self._has_list &= getattr(error, "status", None) != GONE
                time.sleep(PAUSE)

    def stop(self) -> None:
        self._stop.set()

    def _list(self) -> None:
        self.seen, version = self.hosted.listed()
        self._reached(version, "a list")
        self.relists += 1
        self._has_list = True

    def _watch(self) -> None:
        since = str(self.version)
        for event in self.hosted.kube.watch(CONFIG_MAPS, NAMESPACE, since=since):
            if self._stop.is_set():
                return
            if event["type"] == "ERROR":
                self._has_list = event["object"]["code"] != GONE
                return
            self._take(event)

    def _take(self, event: Json) -> None:
        one = event["object"]
        if not _is_ours(one):
            return
        name = one["metadata"]["name"]
        self._reached(_version(one), f"{event['type']} of {name}")
        if event["type"] == "DELETED":
            self.seen.pop(name, None)
        else:
            self.seen[name] = _turn(one)

    def _reached(self, version: int, what: str) -> None:
        if version <= self.version:
            self.went_back.append(f"{what} has {version} after {self.version}")
        self.version = version


@dataclass
class Writer:
    """Changes a few objects in turn, and remembers what was acknowledged."""

    hosted: Hosted
    acknowledged: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    longest: float = 0.0
    """Seconds that the slowest write took, including its retries."""

    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        turn = 0
        while not self._stop.wait(PAUSE):
            turn += 1
            name = f"written-{turn % OBJECTS}"
            began = time.monotonic()
            if self._write(name, turn):
                self.acknowledged[name] = turn
                self.longest = max(self.longest, time.monotonic() - began)

    def stop(self) -> None:
        self._stop.set()

    def _write(self, name: str, turn: int) -> bool:
        while not self._stop.is_set():
            try:
                self.hosted.write(name, turn)
            except PASSING as error:
                self.refused.append(str(error))
                time.sleep(PAUSE)
            else:
                return True
        return False


@contextmanager
def in_use(hosted: Hosted) -> Iterator[Writer]:
    """Runs a writer and a follower. At the end nothing acknowledged may be lost, and no event."""
    writer, follower = Writer(hosted), Follower(hosted)
    threads = [threading.Thread(target=one.run, daemon=True) for one in (writer, follower)]
    for thread in threads:
        thread.start()
    eventually("the writer is served", lambda: len(writer.acknowledged), lambda n: n == OBJECTS)
    try:
        yield writer
    finally:
        writer.stop()
    threads[0].join(60)
    turns, _ = hosted.listed()
    behind = {name: told for name, told in writer.acknowledged.items() if turns[name] < told}
    assert not behind, f"acknowledged {behind}, but there is {turns}"
    eventually("the follower has seen it all", lambda: follower.seen, lambda seen: seen == turns)
    follower.stop()
    anew = hosted.begun - 1
    assert follower.relists <= anew, f"had to list anew {follower.relists} times, not {anew}"
    assert not follower.went_back, follower.went_back
    print(
        f"{sum(writer.acknowledged.values()) // OBJECTS} writes, {len(writer.refused)} tries in "
        f"vain, the longest wait {writer.longest:.2f} s; {set(writer.refused)}"
    )


def _is_ours(one: Json) -> bool:
    return "turn" in one.get("data", {})


def _turn(one: Json) -> int:
    return int(one["data"]["turn"])


def _version(one: Json) -> int:
    return int(one["metadata"]["resourceVersion"])


def _files(authority: Authority, token: str) -> Json:
    certificate, key = authority.sign(NAME, NAME)
    files = {
        "tls.crt": certificate,
        "tls.key": key,
        "tokens.csv": f"{token},{NAME},{NAME},system:masters\n".encode(),
    }
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    return {"metadata": {"name": NAME}, "data": data}


def _pod(image: str, cluster: str) -> Json:
    secrets_of = {"etcd": f"{cluster}-client-tls", "own": NAME}
    volumes = [
        {"name": name, "secret": {"secretName": secret}} for name, secret in secrets_of.items()
    ]
    program = {"path": str(binaries.kubernetes()), "type": "Directory"}
    mounts = {"etcd": "/etcd", "own": "/own", "program": "/program"}
    container = {
        "name": NAME,
        "image": image,
        "command": ["/program/kube-apiserver", *_flags(cluster)],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": name, "mountPath": path, "readOnly": True} for name, path in mounts.items()
        ],
    }
    spec = {
        "containers": [container],
        "volumes": [*volumes, {"name": "program", "hostPath": program}],
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532},
        "terminationGracePeriodSeconds": 1,
    }
    return {"metadata": {"name": NAME, "labels": {"app": NAME}}, "spec": spec}


def _flags(cluster: str) -> tuple[str, ...]:
    return (
        # As docs/operations.md has them.
        f"--etcd-servers=https://{cluster}-client:2379",
        "--etcd-cafile=/etcd/ca.crt",
        "--etcd-certfile=/etcd/tls.crt",
        "--etcd-keyfile=/etcd/tls.key",
        # An API server without nodes and controllers, with one user.
        f"--secure-port={PORT}",
        "--tls-cert-file=/own/tls.crt",
        "--tls-private-key-file=/own/tls.key",
        "--token-auth-file=/own/tokens.csv",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://hosted.invalid",
        "--service-account-key-file=/own/tls.crt",
        "--service-account-signing-key-file=/own/tls.key",
        "--service-cluster-ip-range=10.0.0.0/16",
    )
