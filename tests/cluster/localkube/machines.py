"""Simulated machines on this one, as Linux namespaces for network, mounts and processes.

When the first process of a machine ends, the kernel ends all others in it, and removes its mounts,
network and packet filter rules. Nothing has to be undone one by one.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from localkube import network, processes
from localkube.paths import STATE
from localkube.processes import Process
from localkube.shell import run
from localkube.templates import fill


@dataclass(frozen=True)
class Machine:
    name: str
    address: str
    nodes: int
    """How many the cluster has."""
    index: int = 0
    """Of the node that it is; 0 for the control plane."""

    @property
    def folder(self) -> Path:
        return STATE / self.name

    @property
    def record(self) -> str:
        return f"machine-{self.name}"

    def up(self) -> bool:
        """Boots it unless it is up, and updates what it reaches; returns whether it booted."""
        was = processes.pid(self.record)
        processes.ensure(Process(self.record, self._boot_command()))
        processes.wait(f"machine {self.name} is up", self._booted, [self.record])
        cable = f"{network.CABLE}{self.name}"
        if processes.pid(self.record) != was or not network.is_plugged(cable):
            network.plug_in(self.init(), cable, self.address)
        network.connect(self.nodes, self.index, self.init())
        return processes.pid(self.record) != was

    def down(self) -> None:
        processes.stop(self.record)
        shutil.rmtree(self.folder, ignore_errors=True)

    def init(self) -> int:
        """PID of its first process, in the namespace of the host."""
        return self._children()[0]

    def process(self, name: str, *command: str | Path, files: tuple[Path, ...] = ()) -> Process:
        return Process(name, self.enter(*command), files)

    def run(self, *command: str | Path) -> str:
        return run(*self.enter(*command))

    def listens(self, *ports: int) -> bool:
        """Whether all these TCP ports are open in the machine."""
        return set(ports) <= network.listening(self.init())

    def enter(self, *command: str | Path) -> tuple[str, ...]:
        enter = ("nsenter", f"--target={self.init()}", "--net", "--mount", "--pid")
        return (*enter, *(str(word) for word in command))

    def _boot_command(self) -> tuple[str, ...]:
        own = {name: self.folder / name for name in ("lib", "log")}
        for folder in own.values():
            folder.mkdir(parents=True, exist_ok=True)
        script = fill("machine.sh", self.folder / "machine.sh", **own)
        namespaces = ("--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
        return ("unshare", *namespaces, "sh", str(script))

    def _booted(self) -> bool:
        children = self._children()
        return bool(children) and Path(f"/proc/{children[0]}/comm").read_text() == "tini\n"

    def _children(self) -> list[int]:
        outer = processes.pid(self.record)
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text()
        return [int(child) for child in children.split()]
