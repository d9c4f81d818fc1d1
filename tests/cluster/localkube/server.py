"""A store's server, as a child process of the test that needs it."""

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

from localkube.addresses import in_url
from localkube.paths import BUILD
from localkube.shell import ClusterError

PORTS = range(10_000, 30_000)
"""Lower than the ports of outgoing connections, of which a busy machine opens many while the server
starts, and lower than node ports."""

START_SECONDS = 90.0
"""Azurite took more than 20 on a busy machine."""


@dataclass
class Server:
    """A server whose data and log are below `folder`."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        return f"http://{in_url(self.host)}:{self.port}"

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
            raise ClusterError(f"{program} is not there: run `make test-tools` first")
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
    """A random free port, which nobody else is likely to take before the caller listens."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
