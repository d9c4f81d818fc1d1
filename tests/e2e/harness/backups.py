"""Helpers of tests with EtcdBackups, and with an S3 server that pods can reach."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.api import BACKUPS, CLAIMS, SECRETS, ApiError, Json, Kube
from harness.conditions import condition
from harness.etcd import Etcd
from harness.history import acknowledged
from harness.load import Load
from harness.place import Place
from harness.slow import SLOW
from harness.waiting import eventually
from localkube.addresses import chosen
from localkube.s3 import S3Server, free_port

SAYS_SECONDS = 10
"""Within this time the operator reports a mistake that it can see itself."""

DONE_SECONDS = 60
"""How long a Job may take, including the start of its pod."""

KILLED = [False, pytest.param(True, marks=[pytest.mark.verify, pytest.mark.alone])]
"""Whether the operator is killed while a backup is downloaded."""

HOST = chosen().host
"""Address of this machine for the pods of the local cluster."""


@dataclass
class Backup:
    kube: Kube
    namespace: str
    name: str

    def status(self) -> Json:
        body = self.kube.get(BACKUPS, self.namespace, self.name)
        if body is None:
            raise ApiError(404, f"there is no EtcdBackup {self.name}")
        return dict(body.get("status") or {})

    def condition(self, kind: str = "Complete") -> Json:
        return condition({"status": self.status()}, kind)

    def succeeds(self, seconds: float = DONE_SECONDS) -> Json:
        return eventually(
            f"backup {self.name} is made",
            self.status,
            lambda status: status.get("succeeded") is True,
            seconds,
        )

    def says(self, *words: str, kind: str = "Complete", seconds: float = SAYS_SECONDS) -> Json:
        return eventually(
            f"backup {self.name} says {words}",
            lambda: self.condition(kind),
            lambda found: (
                found.get("status") == "False"
                and all(word in found.get("message", "") for word in words)
            ),
            seconds,
        )


def declare(place: Place, name: str, **spec: Any) -> Backup:
    place.kube.create(BACKUPS, {"metadata": {"name": name}, "spec": spec}, place.namespace)
    return Backup(place.kube, place.namespace, name)


def secret(place: Place, s3: S3Server, name: str = "aws", **changed: str) -> None:
    content = s3.secret | changed
    manifest = {"metadata": {"name": name}, "stringData": content}
    place.kube.create(SECRETS, manifest, place.namespace)


def claim(place: Place, name: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    place.kube.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, place.namespace)


def s3_place(s3: S3Server, path: str, name: str = "aws") -> Json:
    return {"path": path, "awsSecret": name, "endpoint": s3.endpoint, "forcePathStyle": True}


def kept_keys(load: Load, until: int | None = None) -> set[str]:
    """The keys of the load whose puts were acknowledged, with no later revision than that."""
    puts = (one for one in acknowledged(list(load.history)) if one.key.startswith(load.kept))
    return {one.key for one in puts if until is None or one.revision <= until}


def lost(client: Etcd, load: Load, keys: set[str]) -> list[str]:
    """Keys that are gone or have a wrong value. In a `Load` each key ends in its value."""
    return [key for key in sorted(keys) if client.get(key) != key.removeprefix(load.kept)]


def restored(file: Path, folder: Path, version: str, prefix: str) -> tuple[int, set[str]]:
    """Revision and keys of a backup that is restored, started and read with etcd's own programs."""
    data, host = folder / "data", "http://127.0.0.1"
    _run(f"etcdutl-{version}", "snapshot", "restore", str(file), f"--data-dir={data}")
    status = _run(f"etcdutl-{version}", "snapshot", "status", str(file), "-w", "json")
    client, peer = (f"{host}:{free_port()}" for _ in range(2))
    urls = [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    words = [f"etcd-{version}", f"--data-dir={data}", *urls, f"--listen-peer-urls={peer}"]
    with (folder / "log").open("wb") as log:
        etcd = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        found = _run(
            f"etcdctl-{version}", f"--endpoints={client}", "--command-timeout=30s",
            "--dial-timeout=10s", "get", prefix, "--prefix", "--keys-only",
        )  # fmt: skip
    finally:
        etcd.terminate()
        etcd.wait(SLOW * 10)
    return int(json.loads(status)["revision"]), set(found.split())


def _run(*words: str) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=SLOW * 60)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout
