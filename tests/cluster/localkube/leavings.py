"""Finds what a stopped cluster has left on the host: by name, address range and mount.

The kernel removes most of it a moment after the last process has ended. On a busy machine, with the
networks of many pods, this may take more than ten seconds, so the check is repeated.
"""

import ipaddress
import json
import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from localkube import cgroups, network
from localkube.addresses import all_ranges
from localkube.paths import LINK, STATE
from localkube.shell import ClusterError, run

SECONDS = 60
ADDRESS = re.compile(r"(?:\d+\.\d+\.\d+\.\d+|fd[0-9a-f]{2}:[0-9a-f:]+)(?:/\d+)?")
MACHINE = re.compile(rf"/{STATE.name}/(?:control|node-\d)/(?:lib|log)(?:/|$)")
"""The folder of a machine. If it is on its own disk, only the end of the path is visible."""
SAVES = ("iptables-save", "ip6tables-save")
WRAPPERS = ("unshare", "nsenter")
"""What the processes of a machine are started with, out here."""


def check(seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while left := found():
        if time.monotonic() > deadline:
            raise ClusterError("\n  ".join(["the cluster is down, and has left behind:", *left]))
        time.sleep(0.1)


def found() -> list[str]:
    """One line for each thing that is left of a cluster."""
    return [
        *links(run("ip", "-json", "link", "show")),
        *(f"route {one}" for one in network.own_routes()),
        *(rule for program in SAVES if shutil.which(program) for rule in rules(run(program))),
        *(f"mount {one}" for one in mounts(Path("/proc/self/mountinfo").read_text())),
        *(f"control group {one}" for one in cgroups.left()),
        *_processes(),
        *(f"{one}" for one in (STATE, LINK) if os.path.lexists(one)),
    ]


def links(listing: str) -> list[str]:
    """The bridge and its veth devices among the host's links."""
    names = [one["ifname"] for one in json.loads(listing)]
    ours = (network.BRIDGE, f"{network.CABLE}control", f"{network.CABLE}node-")
    return [f"link {name}" for name in names if name.startswith(ours)]


def rules(saved: str) -> list[str]:
    """Packet filter rules with addresses of the cluster."""
    return [
        f"rule {line}"
        for line in saved.splitlines()
        if any(_is_ours(text) for text in ADDRESS.findall(line))
    ]


def mounts(mountinfo: str) -> list[str]:
    """Mounts of a machine's folder, and mounts on the cluster's state."""
    rows = [line.split() for line in mountinfo.splitlines()]
    return [
        place
        for *_, source, place in (row[:5] for row in rows)
        if MACHINE.search(source) or f"{place}/".startswith(f"{STATE}/")
    ]


def is_wrapper(command: Iterable[str]) -> bool:
    """Whether a command runs something in a machine; a shell that names the folder does not."""
    program, *words = [*command, ""]
    return Path(program).name in WRAPPERS and any(f"{STATE}/" in word for word in words)


def _is_ours(text: str) -> bool:
    address = ipaddress.ip_network(text, strict=False)
    return any(address.version == each.version and address.subnet_of(each) for each in all_ranges())


def _processes() -> list[str]:
    """Processes of machines. Any process in a machine keeps its namespaces and mounts alive."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has just ended.
            command = (folder / "cmdline").read_text(errors="replace").split("\0")
            inside = _namespace(folder) != _namespace(Path("/proc/self")) and mounts(
                (folder / "mountinfo").read_text()
            )
            if inside or is_wrapper(command):
                found.append(f"process {folder.name}: {' '.join(command)[:100]}")
    return found


def _namespace(process: Path) -> str:
    return str((process / "ns" / "mnt").readlink())
