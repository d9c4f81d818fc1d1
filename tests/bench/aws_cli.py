"""AWS's own command line client for S3, which most people have: by hand, files go by way of this.

Like the operator's Job it sends parts, several at once, with a checksum of each, which the server
verifies.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from localkube.cache import cached
from localkube.s3 import S3Server

PACKAGE = "awscli==1.46.2"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def copy(server: S3Server, source: str, target: str) -> None:
    """`aws s3 cp`. Raises CalledProcessError, and TimeoutExpired after ten minutes."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(installed()),
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.endpoint,
    }
    words = ("-m", "awscli", "s3", "cp", "--only-show-errors", source, target)
    command = [sys.executable, *words]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)


def installed() -> Path:
    """Where its packages are; brought there once, into the cache."""

    def make(out: Path) -> None:
        subprocess.run([sys.executable, *PIP, f"--target={out}", PACKAGE], check=True)

    return cached(PACKAGE.replace("==", "-"), [PACKAGE, sys.version], make)
