"""The AWS command line client, with which most people would copy files to S3 by hand.

Like the operator's Job it uploads several parts at once, each with a checksum that the server
verifies.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from localkube.cache import cached
from localkube.paths import REPOSITORY
from localkube.s3 import S3Server

LOCK = REPOSITORY / "requirements" / "bench.lock"
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")


def version() -> str:
    """The locked version, for example "1.46.2"."""
    lines = LOCK.read_text().splitlines()
    return next(line.split("==")[1].split()[0] for line in lines if line.startswith("awscli=="))


def copy(server: S3Server, source: str, target: str) -> None:
    """Runs `aws s3 cp`. Raises CalledProcessError, and TimeoutExpired after ten minutes."""
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.endpoint,
    }
    words = ("-m", "awscli", "s3", "cp", "--only-show-errors", source, target)
    command = [str(installed()), *words]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)


def installed() -> Path:
    """The Python of a virtual environment with the client, which is made once, in the cache."""

    def make(out: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(out)], check=True)
        subprocess.run([_python(out), *INSTALL, "-r", str(LOCK)], check=True)

    return _python(cached("aws-cli", [LOCK.read_bytes(), sys.version], make))


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"
