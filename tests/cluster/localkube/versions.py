"""The pinned versions: versions.env, and go.mod for what is built from modules of our own."""

import re
from functools import cache

from localkube.paths import GO, HERE


@cache
def pinned(name: str) -> str:
    return _pinned()[name]


def etcd_versions() -> list[str]:
    return pinned("ETCD").split()


@cache
def module_version(module: str, path: str) -> str:
    """The version of the required module `path` in go/<module>/go.mod."""
    text = (GO / module / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(path)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise KeyError(path)
    return found[1]


def kubernetes_version() -> str:
    return module_version("kubernetes", "k8s.io/kubernetes")


@cache
def _pinned() -> dict[str, str]:
    lines = (HERE / "versions.env").read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, value in pairs}
