"""A real S3 server, versitygw on a folder, for the tests that store backups."""

import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from localkube.paths import BUILD
from localkube.shell import ClusterError

BINARY = BUILD / "bin" / "versitygw"
START_SECONDS = 20.0


@dataclass
class S3Server:
    """Buckets are folders below `folder`. Listens on all addresses, so that pods reach it too."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    access_key: str = "TESTACCESSKEY"
    secret_key: str = "test-secret-key"
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def secret(self) -> dict[str, str]:
        """coreos's Secret for it."""
        lines = (
            f"aws_access_key_id = {self.access_key}",
            f"aws_secret_access_key = {self.secret_key}",
        )
        config = "[default]\nregion = us-east-1\n"
        return {"credentials": "\n".join(("[default]", *lines)) + "\n", "config": config}

    def start(self) -> "S3Server":
        if not BINARY.exists():
            raise ClusterError(f"{BINARY} is not there: run `make cluster` first")
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (self.folder / "meta").mkdir(exist_ok=True)
        self.port = self.port or free_port()
        own = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        # Attributes of files are kept beside them: not every file system has them.
        backend = ("posix", "--sidecar", str(self.folder / "meta"), str(data))
        command = (str(BINARY), "--quiet", "--port", f":{self.port}", *backend)
        with (self.folder / "log").open("ab") as out:
            self._process = subprocess.Popen(
                command, env={**os.environ, **own}, stdout=out, stderr=out
            )
        self._await()
        return self

    def bucket(self, name: str) -> Path:
        folder = self.folder / "data" / name
        folder.mkdir(exist_ok=True)
        return folder

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
            self._process = None

    def _await(self) -> None:
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise ClusterError(f"versitygw does not come up:\n{(self.folder / 'log').read_text()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
