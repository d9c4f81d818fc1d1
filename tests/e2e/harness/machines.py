"""The machines of the local cluster's nodes: their power and their images; cordon and drain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from harness.api import NODES, PODS, ROOT, Json, Kube
from harness.clusters import Cluster
from harness.conditions import condition
from harness.place import Place
from harness.slow import SLOW
from harness.waiting import eventually
from localkube import binaries, processes
from localkube.nodes import Node
from localkube.paths import STATE

GATEWAY = "node-1"
"""This machine reaches Services by way of it, so it stays up."""

UP_SECONDS = 180


def machines() -> list[Node]:
    count = len(list(STATE.glob("node-*")))
    return [Node(index, count) for index in range(1, count + 1)]


def power_off(node: str) -> None:
    """Pulls the plug: all processes of the machine end at once, and its disk stays."""
    number = processes.pid(f"machine-{node}")
    assert number, f"{node} is off already"
    os.kill(number, signal.SIGKILL)


def power_on(kube: Kube) -> None:
    """Boots every machine that is off, and waits until its node is Ready."""
    where = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "cluster")}
    done = subprocess.run(
        [sys.executable, "-m", "localkube", "up"],
        cwd=ROOT,
        env=where,
        capture_output=True,
        text=True,
        timeout=SLOW * UP_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    eventually("the nodes are ready", lambda: nodes_ready(kube), seconds=60)


def all_on() -> bool:
    """Whether all machines run. The API server notices only after 40 s that one is off."""
    return all(processes.pid(f"machine-{node.name}") for node in machines())


def nodes_ready(kube: Kube) -> bool:
    found = kube.list(NODES)
    return len(found) == len(machines()) and all(_is_ready(node) for node in found)


def name_image(image: str, other: str) -> None:
    """Gives an image a second name, on every node."""
    program = binaries.containerd() / "ctr"
    for node in machines():
        words = ("--namespace=k8s.io", "images", "tag", "--force", image, other)
        node.machine.run(program, *words)


def forget_image(name: str) -> None:
    program = binaries.containerd() / "ctr"
    for node in machines():
        node.machine.run(program, "--namespace=k8s.io", "images", "remove", name)


def cordon(kube: Kube, node: str, *, on: bool) -> None:
    kube.patch(NODES, None, node, {"spec": {"unschedulable": on or None}})


def drain(kube: Kube, node: str, seconds: float = SLOW * 120, pods: str = "") -> None:
    """Drains a node with kubectl, whose evictions respect PodDisruptionBudgets.

    Args:
        pods: selector of the pods to evict; empty for all.
    """
    kube.kubectl(
        "drain",
        node,
        f"--pod-selector={pods}",
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        f"--timeout={seconds:.0f}s",
        seconds=seconds + SLOW * 10,
    )


def node_of(pod: Json | None) -> str:
    return str((pod or {}).get("spec", {}).get("nodeName", ""))


def nodes(cluster: Cluster) -> dict[str, str]:
    """The node of each pod."""
    return {name: node_of(pod) for name, pod in cluster.pods().items()}


def expendable(place: Place, cluster: Cluster) -> tuple[int, str]:
    """A member on a node that neither the operator nor this machine's traffic needs."""
    taken = {GATEWAY, *(node_of(pod) for pod in place.operator.pods())}
    found = next((name, node) for name, node in nodes(cluster).items() if node not in taken)
    return int(found[0].rpartition("-")[2]), found[1]


def pods_on(kube: Kube, node: str) -> list[Json]:
    return [pod for pod in kube.list(PODS) if node_of(pod) == node]


def _is_ready(node: Json) -> bool:
    return condition(node, "Ready").get("status") == "True"
