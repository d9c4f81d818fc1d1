"""PROVIDER=kind: the cluster in Docker containers, if there is a Docker daemon."""

import shutil

from localkube import binaries, operator_image
from localkube.images import etcd_images
from localkube.paths import CONFIG, LINK, REPOSITORY
from localkube.shell import ClusterError, run, say, step, succeeds
from localkube.templates import fill
from localkube.versions import pinned

CLUSTER = "etcd-operator"


def usable() -> bool:
    """Whether there is a Docker daemon that has the node image or can pull it."""
    image = pinned("KIND_NODE")
    return (
        shutil.which("docker") is not None
        and succeeds("docker", "info")
        and (succeeds("docker", "image", "inspect", image) or succeeds("docker", "pull", image))
    )


def up(nodes: int | None) -> None:
    binaries.link_tools()
    if CLUSTER not in _kind("get", "clusters").split():
        with step("kind creates the cluster"):
            _create(nodes or 1)
    _kind("export", "kubeconfig", *_named())
    for image in etcd_images():
        with step(f"load {image.names[0]}"):
            _kind("load", "image-archive", f"--name={CLUSTER}", str(image.archive))


def down() -> None:
    _kind("delete", "cluster", *_named())
    shutil.rmtree(LINK, ignore_errors=True)


def status() -> None:
    say(_kind("get", "nodes", f"--name={CLUSTER}"))


def load_operator() -> str:
    """Builds with Docker, which can pull the Dockerfile's own base image."""
    operator_image.prepare_context()
    build = ("docker", "build", "--quiet", f"--file={operator_image.DOCKERFILE}")
    with step("docker build, kind load"):
        digest = run(*build, REPOSITORY).strip().removeprefix("sha256:")
        name = f"{operator_image.NAME}:{digest[:12]}"
        run("docker", "tag", digest, name)
        _kind("load", "docker-image", f"--name={CLUSTER}", name)
    return name


def _create(nodes: int) -> None:
    if LINK.is_symlink():
        raise ClusterError("the local cluster is up: run `make cluster-down PROVIDER=local` first")
    logs = LINK / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    config = fill(
        "kind.yaml",
        LINK / "kind.yaml",
        policy=CONFIG / "audit-policy.yaml",
        logs=logs,
        workers="\n".join(["- role: worker"] * (nodes - 1)),
    )
    image = f"--image={pinned('KIND_NODE')}"
    _kind("create", "cluster", *_named(), f"--config={config}", image, "--wait=120s")


def _named() -> tuple[str, str]:
    """The cluster, and a kubeconfig of its own: without one kind would change that of the user."""
    return f"--name={CLUSTER}", f"--kubeconfig={LINK / 'kubeconfig'}"


def _kind(*arguments: str) -> str:
    return run(binaries.kind() / "kind", *arguments)
