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
    """PROVIDER, or else the first one that can work; prints which and why.

    Raises ClusterError where PROVIDER and KUBECONFIG contradict each other: helm and the tests go
    by KUBECONFIG, and would act on another cluster than the one that was asked for.
    """
    name, reason = _choice()
    if name not in PROVIDERS:
        raise ClusterError(f"PROVIDER={name}: must be one of {', '.join(PROVIDERS)}")
    given = os.environ.get("KUBECONFIG")
    if name != "existing" and given and _is_foreign(given):
        raise ClusterError(
            f"PROVIDER={name} is asked for, but KUBECONFIG names another cluster ({given}): unset "
            "KUBECONFIG, or set PROVIDER=existing to use that one"
        )
    say(f"provider: {name} ({reason})")
    return PROVIDERS[name]


def kubeconfig() -> Path:
    """KUBECONFIG, or that of the cluster built here."""
    given = os.environ.get("KUBECONFIG")
    return Path(given) if given and _is_foreign(given) else LINK / "kubeconfig"


def _choice() -> tuple[str, str]:
    forced, given = os.environ.get("PROVIDER"), os.environ.get("KUBECONFIG")
    if forced:
        return forced, "PROVIDER says so"
    if given and _is_foreign(given):
        return "existing", f"KUBECONFIG is {given}"
    if LINK.is_symlink():
        return "local", "it is up"
    if kind.usable():
        return "kind", "Docker runs here"
    return "local", "no Docker daemon with kind's node image"


def _is_foreign(given: str) -> bool:
    return Path(given).resolve() != (LINK / "kubeconfig").resolve()
