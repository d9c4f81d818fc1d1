"""PROVIDER=local: the cluster that this package builds."""

import os
import shutil

from localkube import (
    binaries,
    cgroups,
    control,
    debian,
    kubernetes,
    leavings,
    network,
    operator_image,
    processes,
)
from localkube.addresses import FAMILY
from localkube.choice import keep
from localkube.images import Image, cluster_images
from localkube.nodes import PORTS, Node
from localkube.paths import KUBECONFIG, LINK, STATE
from localkube.shell import ClusterError, say, step


def up(nodes: int | None) -> None:
    """Starts whatever is not running, with the existing data."""
    _require_root()
    debian.install_packages()
    network.check_free()
    binaries.build_all()
    binaries.link_tools()
    images = cluster_images()
    keep(FAMILY, kubernetes.KUBERNETES)
    kubernetes.daemon("kubelet")
    members = _nodes(nodes)
    binaries.replace_link(LINK, STATE)
    with step("network and control plane"):
        network.bridge_up()
        names = control.up(len(members))
        network.connect(len(members))
    for node in members:
        names += _join(node, images)
    with step("nodes are ready"):
        processes.wait("the nodes are ready", lambda: _are_ready(members), names)
    say(f"kubeconfig: {LINK / KUBECONFIG.name}")


def down() -> None:
    """Removes the cluster completely, and checks that; the caches stay."""
    _require_root()
    with step("take the cluster down"):
        for node in _nodes(None):
            node.down()
        control.machine(1).down()
        for name in processes.recorded():
            processes.stop(name)
        network.bridge_down()
        cgroups.remove(f"/{cgroups.PARENT}")
        shutil.rmtree(STATE, ignore_errors=True)
        LINK.unlink(missing_ok=True)
        leavings.check()


def status() -> None:
    for name in processes.recorded():
        number = processes.pid(name)
        say(f"{name:32} {f'runs, pid {number}' if number else 'DEAD'}")
    if control.answers(control.READY):
        say(control.kubectl("get", "nodes", "--output=wide"))
    else:
        say("no API server answers")


def load_operator() -> str:
    """Builds the operator's image, and imports it into every node; returns its name."""
    image = operator_image.assemble()
    for node in _nodes(None):
        with step(f"{node.name}: import {image.names[0]}"):
            node.import_images([image])
    return image.names[0]


def _join(node: Node, images: list[Image]) -> list[str]:
    with step(f"{node.name}: containerd and images"):
        node.up_containers()
        node.import_images(images)
    return node.up_kubelet()


def _nodes(wanted: int | None) -> list[Node]:
    """The wanted number of nodes or, without one, the existing nodes. Nodes are never removed."""
    there = len(list(STATE.glob("node-*")))
    count = max(wanted or 1, there)
    return [Node(index, count) for index in range(1, count + 1)]


def _are_ready(nodes: list[Node]) -> bool:
    """Whether the API server says so, which may be stale, and each node's processes answer."""
    serving = control.machine(len(nodes)).listens(*control.PORTS) and all(
        node.machine.listens(*PORTS) for node in nodes
    )
    template = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}'
    answer = control.kubectl("get", "nodes", f"--output=jsonpath={template}")
    return serving and answer.split() == ["True"] * len(nodes)


def _require_root() -> None:
    if os.geteuid() != 0:
        raise ClusterError("the local cluster needs root")
