"""Chooses the cluster: one built here, one in Docker, or an existing one."""

import os
from pathlib import Path
from typing import Protocol

from localkube import cluster, existing, kind
from localkube.paths import LINK
from localkube.shell import ClusterError, say


class Provider(Protocol):
    """The interface of the modules `cluster`, `kind` and `existing`."""

    def up(self, nodes: int | None) -> None: ...
    def down(self) -> None: ...
    def status(self) -> None: ...
    def load_operator(self) -> str: ...


PROVIDERS: dict[str, Provider] = {"local": cluster, "kind": kind, "existing": existing}


def choose() -> Provider:
    """PROVIDER, or else the first one that can work; prints which and why."""
    name, reason = _choice()
    if name not in PROVIDERS:
        raise ClusterError(f"PROVIDER={name}: must be one of {', '.join(PROVIDERS)}")
    say(f"provider: {name} ({reason}), kubeconfig: {kubeconfig()}")
    return PROVIDERS[name]


def kubeconfig() -> Path:
    """The kubeconfig of everything that make, the tests and the benchmarks do.

    What KUBECONFIG names is left alone, because in many a shell that is a cluster that others
    depend on, and tests replace CRDs and uninstall operators. Only PROVIDER=existing is to use it.
    """
    if os.environ.get("PROVIDER") != "existing":
        return LINK / "kubeconfig"
    given = os.environ.get("KUBECONFIG")
    if not given:
        raise ClusterError("PROVIDER=existing: set KUBECONFIG to the kubeconfig of that cluster")
    return Path(given)


def _choice() -> tuple[str, str]:
    if forced := os.environ.get("PROVIDER"):
        return forced, "PROVIDER says so"
    if LINK.is_symlink():
        return "local", "it is up"
    if kind.usable():
        return "kind", "Docker runs here"
    return "local", "no Docker daemon with kind's node image"
