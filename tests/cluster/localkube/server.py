"""A server of a store, as a process of the test that needs one."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from localkube.paths import BUILD
from localkube.shell import ClusterError

PORTS = range(10_000, 30_000)
"""Below those that are given to outgoing connections, of which a busy machine makes a lot while a
server is on its way, and to Services of Kubernetes."""

START_SECONDS = 90.0
"""Azurite took more than 20 on a full machine."""


@dataclass
class Server:
    """What it stores and says is below `folder`."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def command(self) -> tuple[str, ...]:
        """The first word is the name of a program in build/bin."""
        raise NotImplementedError

    @property
    def environment(self) -> dict[str, str]:
        return {}

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def start(self) -> Self:
        self.port = self.port or free_port()
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        name, *words = self.command
        program = BUILD / "bin" / name
        if not program.exists():
            raise ClusterError(f"{program} is not there: run `make cluster` first")
        own = {**os.environ, **self.environment}
        with (self.folder / "log").open("ab") as out:
            self._process = subprocess.Popen(
                [str(program), *words], env=own, stdout=out, stderr=out
            )
        try:
            self._await(name)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
            self._process = None

    def _await(self, name: str) -> None:
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise ClusterError(f"{name} does not come up:\n{(self.folder / 'log').read_text()}")


def free_port() -> int:
    """One at which nobody listens, and which is nobody's before whoever asked for it listens."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
