"""Installs the operator in the cluster with its chart."""

import os

from localkube import binaries, providers
from localkube.paths import CONFIG, REPOSITORY
from localkube.shell import run, step

RELEASE = "etcd-operator"
NAMESPACE = "etcd-operator-system"
CHART = REPOSITORY / "charts" / "etcd-operator"


def install(image: str) -> None:
    """Installs or upgrades. A new image has a new tag, so the Deployment replaces the pod."""
    repository, _, tag = image.rpartition(":")
    with step(f"install {image}"):
        _make_namespace()
        run(
            binaries.helm() / "helm",
            f"--kubeconfig={providers.kubeconfig()}",
            "upgrade",
            "--install",
            RELEASE,
            CHART,
            f"--namespace={NAMESPACE}",
            "--take-ownership",  # Of CRDs that were applied by hand.
            "--force-conflicts",  # And of their fields, which tests have applied.
            f"--set=image.repository={repository}",
            f"--set-string=image.tag={tag}",
            '--set-json=watchNamespaces=["*"]',
            *os.environ.get("HELM_FLAGS", "").split(),
            "--wait",
            "--timeout=2m",
        )


def _make_namespace() -> None:
    """Creates the namespace first, as its Pod Security label applies to later pods only."""
    run(
        binaries.kubernetes() / "kubectl",
        f"--kubeconfig={providers.kubeconfig()}",
        "apply",
        "--server-side",
        "--filename",
        CONFIG / "operator-namespace.yaml",
    )
