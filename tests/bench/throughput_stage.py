"""One etcd, one S3 server and a folder, all in memory, and the ways to back up and restore."""

from __future__ import annotations

import compileall
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aws_cli
from throughput_job import SECRET

from etcd_stateful import identity, naming
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.order import Order
from etcd_stateful.jobs import restore
from etcd_stateful.manifests.backup_job import GRPC_ENVIRONMENT
from etcd_stateful.manifests.jobs import MALLOC_ENVIRONMENT
from localkube.s3 import S3Server, free_port
from localkube.versions import etcd_versions

HERE = Path(__file__).parent
BINARIES = HERE.parents[1] / "build" / "bin"
OURS = [HERE.parents[1] / one for one in ("operator/etcd_operator", "stateful/etcd_stateful")]
GIB = 2**30
BUCKET, KEY = "bench", "etcd.db"
QUOTA = {"quota-backend-bytes": 8 * GIB}
TOKEN = "bench"
TICKS = os.sysconf("SC_CLK_TCK")
TOLD = {
    "backup": (*MALLOC_ENVIRONMENT, *GRPC_ENVIRONMENT),
    "fetch": MALLOC_ENVIRONMENT,
    "finish": (),
}


@dataclass
class Stage:
    """All ways store to, and restore from, the same key. A restore goes to a folder."""

    folder: Path
    client_port: int = field(default_factory=free_port)
    peer_port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        # As in the image. Where Python may not write bytecode, each program would compile them.
        for package in OURS:
            compileall.compile_dir(package, quiet=1)
        aws_cli.installed()
        (self.folder / "s3").mkdir()
        self.s3 = S3Server(self.folder / "s3").start()
        self.bucket = self.s3.bucket(BUCKET)
        self.secret = self.folder / "secret"
        self.secret.mkdir()
        for name, content in self.s3.secret.items():
            (self.secret / name).write_text(content)
        flags = {
            "name": "etcd",
            "data-dir": self.data,
            "listen-client-urls": self.endpoint,
            "advertise-client-urls": self.endpoint,
            "listen-peer-urls": self.peer_url,
            "initial-advertise-peer-urls": self.peer_url,
            "initial-cluster": f"etcd={self.peer_url}",
            **QUOTA,
            "log-level": "error",
            # What is written is to be in the database, and not in the log and in memory as well.
            "snapshot-count": 100,
            "snapshot-catchup-entries": 10,
            "max-wals": 1,
        }
        told = [f"--{name}={value}" for name, value in flags.items()]
        self.etcd = subprocess.Popen([str(BINARIES / "etcd"), *told])

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.client_port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/{KEY}"

    @property
    def target(self) -> Path:
        return self.folder / "restored"

    @property
    def saved(self) -> Path:
        """The file that etcdctl saves."""
        return self.folder / "snapshot.db"

    def stop(self) -> None:
        self.end_etcd()
        self.s3.stop()

    def end_etcd(self) -> None:
        """Stops etcd: a restore does not need it, but needs the memory of its data."""
        self.etcd.kill()
        self.etcd.wait()
        shutil.rmtree(self.data, ignore_errors=True)

    def clean(self, *, stored: bool) -> None:
        """Before each run: deletes what was restored and, if backups are measured, stored."""
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir()
        self.saved.unlink(missing_ok=True)
        for path in self.bucket.glob(f"{KEY}*") if stored else ():
            path.unlink()

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, of the two servers and of all programs that have ended."""
        programs = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "programs": programs.ru_utime + programs.ru_stime,
            "etcd": _seconds(self.etcd.pid),
            "S3 server": _seconds(self.s3.pid),
        }

    # Ours.

    def back_up(self) -> Job:
        told = Order("ns/b", "uid-b", (self.endpoint,), "spec", self._store(), timeout=600)
        return self._job("backup", {orders.VARIABLE: orders.serialise(told)})

    def restore(self) -> Job:
        member = identity.member_id([self.peer_url], TOKEN)
        cluster = identity.cluster_id([member])
        version = etcd_versions()[-1]
        told = {
            "POD_NAME": "etcd-0",
            "POD_UID": "uid",
            "POD_IP": "127.0.0.1",
            "START_SETTINGS": json.dumps(
                {"clusterUID": "uid", "epoch": 1, "domain": "etcd.ns.svc", "clientScheme": "http",
                 "peerScheme": "http", "dnsTimeoutSeconds": 0, "etcd": QUOTA}
            ),
            "RESTORE": restore.serialise(member, cluster, self._store(), version),
        }  # fmt: skip
        parts = {"fetch": 0.0, "etcdutl": 0.0, "finish": 0.0}
        peak = 0
        for part in parts:
            began = time.monotonic()
            if part == "etcdutl":
                self._etcdutl(self.target / restore.SNAPSHOT)
            else:
                peak = max(peak, self._job(part, told).mib)
            parts[part] = time.monotonic() - began
        return Job(peak, parts)

    def _store(self) -> Store:
        return Store("S3", BUCKET, KEY, "aws", self.s3.endpoint, path_style=True)

    def _job(self, what: str, told: dict[str, str]) -> Job:
        as_the_pod = {one["name"]: one["value"] for one in TOLD[what]}
        environment = {**os.environ, **told, **as_the_pod, SECRET: str(self.secret)}
        command = [sys.executable, str(HERE / "throughput_job.py"), what, str(self.target)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{what}: {done.stdout}{done.stderr}")
        peak, seconds = done.stdout.split()[-2:]
        return Job(int(peak), {"once started": float(seconds)})

    # By hand, with AWS's client or with curl.

    def save_and_upload(self) -> Job:
        return self._saved_and("aws", lambda: aws_cli.copy(self.s3, str(self.saved), self.url))

    def save_and_curl(self) -> Job:
        return self._saved_and("curl", lambda: self._curl("--upload-file", str(self.saved)))

    def _saved_and(self, client: str, upload: Callable[[], None]) -> Job:
        began = time.monotonic()
        run("etcdctl", f"--endpoints={self.endpoint}", "snapshot", "save", str(self.saved))
        there = time.monotonic()
        upload()
        return Job(0, {"etcdctl": there - began, client: time.monotonic() - there})

    def download_and_restore(self) -> Job:
        return self._restored_by("aws", lambda file: aws_cli.copy(self.s3, self.url, file))

    def curl_and_restore(self) -> Job:
        return self._restored_by("curl", lambda file: self._curl("--output", file))

    def _restored_by(self, client: str, download: Callable[[str], None]) -> Job:
        file = self.target / "snapshot.db"
        began = time.monotonic()
        download(str(file))
        there = time.monotonic()
        self._etcdutl(file)
        return Job(0, {client: there - began, "etcdutl": time.monotonic() - there})

    def _etcdutl(self, file: Path) -> None:
        """Runs etcdutl as our Job does."""
        words = restore.etcdutl("etcd-0", self.peer_url, TOKEN)
        here = [word.replace(naming.VOLUME_PATH, str(self.target)) for word in words[1:]]
        at = next(number for number, word in enumerate(here) if word.endswith(restore.SNAPSHOT))
        run("etcdutl", *here[:at], str(file), *here[at + 1 :])

    def _curl(self, *words: str) -> None:
        keys = f"{self.s3.access_key}:{self.s3.secret_key}"
        signed = ("--aws-sigv4", "aws:amz:us-east-1:s3", "--user", keys)
        url = f"{self.s3.endpoint}/{BUCKET}/{KEY}"
        header = ("--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD")
        command = ["curl", "--silent", "--show-error", "--fail", *signed, *header, *words, url]
        subprocess.run(command, check=True, capture_output=True)


@dataclass(frozen=True)
class Job:
    """One run, of ours or by hand."""

    mib: int
    """Peak memory of our containers; not measured for the ways by hand."""
    seconds: dict[str, float]
    """Seconds by part."""


def run(tool: str, *words: str) -> None:
    subprocess.run([str(BINARIES / tool), *words], check=True, capture_output=True)


def _seconds(process: int) -> float:
    """CPU seconds of a running process; 0 if it does not run."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / TICKS
