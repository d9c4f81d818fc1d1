"""PROVIDER=existing: the cluster in KUBECONFIG, used as it is."""

import os

from localkube import binaries
from localkube.shell import ClusterError, run, say


def up(nodes: int | None) -> None:
    if nodes is not None:
        raise ClusterError("NODES is for clusters made here")
    binaries.link_tools()
    status()


def down() -> None:
    say("the cluster of KUBECONFIG is not ours to take down")


def status() -> None:
    say(run(binaries.kubernetes() / "kubectl", "get", "nodes", "--output=wide"))


def load_operator() -> str:
    """The image cannot be imported from here, so its nodes must be able to pull it."""
    name = os.environ.get("OPERATOR_IMAGE")
    if not name:
        raise ClusterError("push the image (docker build) and say OPERATOR_IMAGE=<name>:<tag>")
    return name
