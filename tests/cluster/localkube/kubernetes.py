"""Which Kubernetes the local cluster is made of: the newest, the oldest that is supported, or any
release by its version.

It is chosen once, when the cluster is made, as no API server reads what a newer one has stored.
"""

import os
import re
from pathlib import Path

from localkube import binaries
from localkube.paths import STATE
from localkube.shell import ClusterError
from localkube.versions import pinned

NEWEST, OLDEST = "newest", "oldest"
RELEASE = re.compile(r"v1\.\d+\.\d+")
CHOICE = STATE / "kubernetes"


def choose() -> None:
    """Keeps what KUBERNETES asks for, and builds it; raises ClusterError if it is another."""
    made = chosen()
    asked = os.environ.get("KUBERNETES") or made
    if asked not in (NEWEST, OLDEST) and not RELEASE.fullmatch(asked):
        raise ClusterError(
            f"KUBERNETES={asked}: must be {NEWEST}, {OLDEST} or a release, such as v1.33.13"
        )
    if asked != made and STATE.exists():
        raise ClusterError(
            f"KUBERNETES={asked}: the cluster that is there is made of {made}: make cluster-down"
        )
    STATE.mkdir(parents=True, exist_ok=True)
    CHOICE.write_text(asked)
    daemon("kubelet")


def chosen() -> str:
    return CHOICE.read_text() if CHOICE.exists() else NEWEST


def daemon(name: str) -> Path:
    """The program of that name, such as kubelet."""
    choice = chosen()
    if choice == NEWEST:
        return binaries.kubernetes() / name
    version = pinned("KUBERNETES_OLDEST") if choice == OLDEST else choice
    return binaries.released_kubernetes(version) / name
