"""The parent cgroups of a node's pods, in every hierarchy of the host."""

from pathlib import Path

PARENT = "etcd-operator"


def path(node: str) -> str:
    return f"/{PARENT}/{node}"


def make(group: str) -> None:
    for root in _hierarchies():
        _delegate(root)
        (root / PARENT).mkdir(exist_ok=True)
        _delegate(root / PARENT)
        (root / group.lstrip("/")).mkdir(exist_ok=True)


def remove(group: str) -> None:
    """Removes the group with everything below it, once its processes are gone."""
    for root in _hierarchies():
        top = root / group.lstrip("/")
        folders = [folder for folder in top.rglob("*") if folder.is_dir()] if top.exists() else []
        for folder in sorted(folders, reverse=True):
            folder.rmdir()
        if top.exists():
            top.rmdir()


def left() -> list[Path]:
    return [root / PARENT for root in _hierarchies() if (root / PARENT).exists()]


def _hierarchies() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] in ("cgroup", "cgroup2")]


def _delegate(folder: Path) -> None:
    """Turns on all controllers, which cgroup v2 needs on each level; v1 has no such file."""
    switches = folder / "cgroup.subtree_control"
    if switches.exists():
        for controller in (folder / "cgroup.controllers").read_text().split():
            switches.write_text(f"+{controller}")
