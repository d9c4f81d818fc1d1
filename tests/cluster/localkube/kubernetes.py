"""Which Kubernetes the local cluster is made of: the newest, the oldest that is supported, or any
release by its version. No API server reads what a newer one has stored."""

import re
from pathlib import Path

from localkube import binaries
from localkube.choice import Choice
from localkube.versions import pinned

NEWEST, OLDEST = "newest", "oldest"
KUBERNETES = Choice(
    "KUBERNETES",
    NEWEST,
    re.compile(rf"{NEWEST}|{OLDEST}|v1\.\d+\.\d+"),
    f"{NEWEST}, {OLDEST} or a release, such as v1.33.13",
)


def daemon(name: str) -> Path:
    """The program of that name, such as kubelet."""
    made = KUBERNETES.made()
    if made == NEWEST:
        return binaries.kubernetes() / name
    version = pinned("KUBERNETES_OLDEST") if made == OLDEST else made
    return binaries.released_kubernetes(version) / name
