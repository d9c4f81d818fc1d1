"""Which Kubernetes the local cluster is made of: the newest, or the oldest that is supported.

It is chosen once, when the cluster is made, as no API server reads what a newer one has stored.
"""

import os
from pathlib import Path

from localkube import binaries
from localkube.paths import STATE
from localkube.shell import ClusterError

NEWEST, OLDEST = "newest", "oldest"
CHOICE = STATE / "kubernetes"


def choose() -> None:
    """Keeps what KUBERNETES asks for, and builds it; raises ClusterError if it is another."""
    made = chosen()
    asked = os.environ.get("KUBERNETES") or made
    if asked not in (NEWEST, OLDEST):
        raise ClusterError(f"KUBERNETES={asked}: must be {NEWEST} or {OLDEST}")
    if asked != made and STATE.exists():
        raise ClusterError(
            f"KUBERNETES={asked}: the cluster that is there is of the {made}: make cluster-down"
        )
    STATE.mkdir(parents=True, exist_ok=True)
    CHOICE.write_text(asked)
    daemon("kubelet")


def chosen() -> str:
    return CHOICE.read_text() if CHOICE.exists() else NEWEST


def daemon(name: str) -> Path:
    """The program of that name, such as kubelet."""
    builds = {NEWEST: binaries.kubernetes, OLDEST: binaries.oldest_kubernetes}
    return builds[chosen()]() / name
