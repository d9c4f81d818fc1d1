"""Access to the processes and volumes of a node from outside, which only the local cluster has."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.api import CLAIMS, VOLUMES, Json, Kube


def kill_container(pod: Json, container: str) -> None:
    """Sends SIGKILL to every process of the container, as the OOM killer does."""
    for number in _processes_of(pod, container):
        os.kill(number, signal.SIGKILL)


@contextmanager
def dying_container(pod: Json, container: str) -> Iterator[None]:
    """Stops every process of the container, and kills it at the end. Meanwhile it notices nothing:
    etcd may crash by itself as soon as its files are damaged."""
    found = _processes_of(pod, container)
    for number in found:
        os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in found:
            os.kill(number, signal.SIGKILL)


def freeze_container(pod: Json, container: str, seconds: float) -> None:
    """Stops the processes of the container for a while, as on a node that swaps."""
    frozen = _processes_of(pod, container)
    for number in frozen:
        os.kill(number, signal.SIGSTOP)
    time.sleep(seconds)
    for number in frozen:
        with suppress(ProcessLookupError):  # The kubelet may have killed it meanwhile.
            os.kill(number, signal.SIGCONT)


def root_of(pod: Json, container: str) -> Path:
    """The root of the container's file system. Its image may have no shell to look at it."""
    return Path(f"/proc/{_processes_of(pod, container)[0]}/root")


def is_on_a_node(pod: Json, container: str) -> bool:
    return bool(_processes(_identity(pod, container)))


def _processes_of(pod: Json, container: str) -> list[int]:
    identity = _identity(pod, container)
    found = _processes(identity)
    assert found, f"no process of container {identity} is on this machine"
    return found


def _identity(pod: Json, container: str) -> str:
    status = next(one for one in pod["status"]["containerStatuses"] if one["name"] == container)
    return str(status["containerID"].rpartition("/")[2])


def _processes(container: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                groups = (entry / "cgroup").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if container in groups:
                found.append(int(entry.name))
    return found


def volume_path(kube: Kube, namespace: str, claim: str) -> Path:
    found = kube.get(CLAIMS, namespace, claim)
    assert found is not None, f"there is no claim {claim}"
    volume = kube.get(VOLUMES, None, found["spec"]["volumeName"])
    assert volume is not None
    source = volume["spec"].get("local") or volume["spec"].get("hostPath")
    path = Path(source["path"])
    assert path.is_dir(), f"{path} is not on this machine"
    return path


def empty(folder: Path) -> None:
    """Removes everything in the folder, but not the folder."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
