"""The operator's release, with the commands of README.md and docs/operator.md.

Without a node its Deployment has no replicas.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from localkube.paths import BUILD
from localkube.shell import ClusterError, run

ROOT = Path(__file__).parents[2]
BIN = BUILD / "bin"
OPERATOR, CLUSTER = (str(ROOT / "charts" / name) for name in ("etcd-operator", "etcd-cluster"))
NAME = "etcd-operator"
THERE = f"--namespace={NAME}"
IDLE = ("--wait", "--set=image.repository=reg/op", "--set=replicas=0")

OWN = "OLDEST_KUBECONFIG"
"""By this variable `run.py` names the Kubernetes that it has started for these tests."""


def helm(*words: str) -> str:
    return run(os.environ.get("HELM") or BIN / "helm", _own(), *words)


def kubectl(*words: str, stdin: str | None = None) -> str:
    return run(BIN / "kubectl", _own(), *words, stdin=stdin)


def _own() -> str:
    """Raises ClusterError without a Kubernetes of our own. These tests upgrade and uninstall the
    release of README.md, so they must reach no other."""
    if not (kubeconfig := os.environ.get(OWN)):
        raise ClusterError("these tests need a Kubernetes of their own: python tests/oldest/run.py")
    return f"--kubeconfig={kubeconfig}"


def install() -> None:
    everywhere = "--set=watchNamespaces={*}"
    helm("install", NAME, OPERATOR, THERE, "--create-namespace", *IDLE, everywhere)


def environment() -> dict[str, Any]:
    deployment = json.loads(kubectl("get", "deployment", NAME, THERE, "--output=json"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one.get("value") for one in container["env"]}
    return found | {"image": container["image"]}


def served() -> list[str]:
    """The kinds that the API server serves to users."""
    group = "--api-group=etcd.database.coreos.com"
    names = kubectl("api-resources", group, "--output=name").split()
    return sorted(name.partition(".")[0] for name in names)
