"""Pods that test which addresses they can connect to, by their labels and namespace."""

from __future__ import annotations

import json
from collections.abc import Iterable

from harness.api import PODS, Json, Kube
from harness.clusters import is_ready
from harness.waiting import eventually

TRIES = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def reaches(target):
    # A dropped packet is sent again after 1 s and 3 s. The first one may have been dropped because
    # the policy engine did not know of this pod yet.
    try:
        socket.create_connection(target, timeout=4).close()
    except ConnectionRefusedError:  # The packet got there, and nothing listens.
        return True
    except TimeoutError:
        return False
    return True

targets = [tuple(one) for one in json.loads(sys.argv[1])]
with ThreadPoolExecutor(len(targets)) as threads:
    print(json.dumps(list(threads.map(reaches, targets))))
"""

CONNECTS = """
import socket, sys

def repeated():
    lines = [line.split() for line in open("/proc/net/netstat")]
    names, values = (words for words in lines if words[0] == "TcpExt:")
    return int(dict(zip(names, values))["TCPSynRetrans"])

def connect(target):
    try:
        socket.create_connection(target).close()
    except ConnectionRefusedError:  # The packet got there, and nothing listens.
        pass

before = repeated()
for _ in range(int(sys.argv[3])):
    connect((sys.argv[1], int(sys.argv[2])))
print(repeated() - before)
"""

CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str, image: str, *command: str) -> Json:
    """A container that the restricted Pod Security Standard admits."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "securityContext": CONFINED,
    }


class Probe:
    def __init__(self, kube: Kube, namespace: str, name: str, image: str, labels: Json) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name
        sleeps = container("probe", image, "sleep", "infinity")
        spec = {"containers": [sleeps], "terminationGracePeriodSeconds": 0}
        kube.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, namespace)

    def is_up(self) -> None:
        eventually(f"{self._name} is up", lambda: is_ready(self._get()), seconds=60)

    def reaches(self, targets: Iterable[tuple[str, int]]) -> list[bool]:
        """For each address and port, whether packets get there."""
        return [bool(one) for one in json.loads(self._python(TRIES, json.dumps(list(targets))))]

    def lost(self, address: str, port: int, connections: int) -> int:
        """How many first packets had to be sent again, as the kernel of the pod counts them."""
        return int(self._python(CONNECTS, address, str(port), str(connections)))

    def address(self) -> str:
        return str(self._get()["status"]["podIP"])

    def change(self, turn: int) -> None:
        """Changes the pod in a way that the policy engine hears of."""
        body = {"metadata": {"annotations": {"turn": str(turn)}}}
        self._kube.patch(PODS, self._namespace, self._name, body)

    def leave(self) -> None:
        self._kube.delete(PODS, self._namespace, self._name)

    def _python(self, *words: str) -> str:
        into = ("exec", f"--namespace={self._namespace}", self._name, "--")
        return self._kube.kubectl(*into, "python3", "-c", *words)

    def _get(self) -> Json:
        return self._kube.get(PODS, self._namespace, self._name) or {}
