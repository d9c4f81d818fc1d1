"""The operator in the cluster, by its chart."""

import os

from localkube import binaries, providers
from localkube.paths import CONFIG, REPOSITORY
from localkube.shell import run, step

RELEASE = "etcd-operator"
NAMESPACE = "etcd-operator-system"
CHART = REPOSITORY / "charts" / "etcd-operator"


def install(image: str) -> None:
    """A new image has a new tag, which changes the Deployment, which replaces the pod."""
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
            "--take-ownership",  # of custom resource definitions applied by hand
            "--force-conflicts",  # and of their fields, which tests have applied
            f"--set=image.repository={repository}",
            f"--set-string=image.tag={tag}",
            '--set-json=watchNamespaces=["*"]',
            *os.environ.get("HELM_FLAGS", "").split(),
            "--wait",
            "--timeout=2m",
        )


def _make_namespace() -> None:
    """Before anything is in it: its label holds for pods that are made from then on."""
    run(
        binaries.kubernetes() / "kubectl",
        f"--kubeconfig={providers.kubeconfig()}",
        "apply",
        "--server-side",
        "--filename",
        CONFIG / "operator-namespace.yaml",
    )
