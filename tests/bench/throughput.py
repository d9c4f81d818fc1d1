"""Backup and restore of a database of some size, beside etcdctl, curl and etcdutl by hand.

The same etcd, the same S3 server, the same data, all in memory, so that no disk hides what we cost.
Ours are the containers' own entry points as processes, from their start to their end; without what
the kubelet takes to start a pod. By hand: `etcdctl snapshot save` and curl's upload of the file;
curl's download and `etcdutl snapshot restore`, as our Job has it run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from aetcd import rpc
from throughput_job import SECRET

from etcd_stateful import naming, restore
from etcd_stateful.api.stores import Store
from etcd_stateful.backup import order as orders
from etcd_stateful.backup.order import Order
from etcd_stateful.membership import identity
from localkube.s3 import S3Server, free_port
from localkube.versions import etcd_versions

Json = dict[str, Any]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BINARIES = ROOT / "build" / "bin"
MEMORY = Path("/dev/shm")
MIB, GIB = 2**20, 2**30
SIDES = ("ours", "by hand")
TOKEN = "bench"
BUCKET = "bench"
IDLE_SECONDS = 3.0
TARGET_RATIO, TARGET_MEMORY = 0.9, 128


class Throughput:
    def __init__(self, sizes: list[float], runs: int) -> None:
        self.sizes, self.runs = sizes, runs

    def measure(self) -> Json:
        return {
            "target_ratio": TARGET_RATIO,
            "target_memory_mib": TARGET_MEMORY,
            "sizes": [self._of(size) for size in self.sizes],
        }

    def _of(self, gib: float) -> Json:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            stage = Stage(Path(folder))
            try:
                return measured(stage, gib, self.runs)
            finally:
                stage.stop()


@dataclass
class Stage:
    """One etcd, one S3 server, and a folder that a restore goes to."""

    folder: Path
    client_port: int = field(default_factory=free_port)
    peer_port: int = field(default_factory=free_port)
    counted: float = 0.0
    """Seconds of the last backup by its own clock, without the start of its program."""

    def __post_init__(self) -> None:
        (self.folder / "s3").mkdir()
        self.s3 = S3Server(self.folder / "s3").start()
        self.s3.bucket(BUCKET)
        self.secret = self.folder / "secret"
        self.secret.mkdir()
        for name, content in self.s3.secret.items():
            (self.secret / name).write_text(content)
        flags = {
            "name": "etcd",
            "data-dir": self.folder / "data",
            "listen-client-urls": self.endpoint,
            "advertise-client-urls": self.endpoint,
            "listen-peer-urls": self.peer_url,
            "initial-advertise-peer-urls": self.peer_url,
            "initial-cluster": f"etcd={self.peer_url}",
            "quota-backend-bytes": 8 * GIB,
            "log-level": "error",
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
    def target(self) -> Path:
        return self.folder / "restored"

    def stop(self) -> None:
        self.etcd.kill()
        self.etcd.wait()
        self.s3.stop()

    def clean(self) -> None:
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir()

    # Ours.

    def back_up(self) -> int:
        """Peak of the Job's memory, in MiB."""
        store = self._store()
        told = Order("ns/b", "uid-b", (self.endpoint,), "spec", store, timeout=600)
        return self._job("backup", {orders.VARIABLE: orders.serialise(told)})

    def restore(self) -> int:
        member = identity.member_id([self.peer_url], TOKEN)
        cluster = identity.cluster_id([member])
        version = etcd_versions()[-1]
        told = {
            "POD_NAME": "etcd-0",
            "POD_UID": "uid",
            "POD_IP": "127.0.0.1",
            "START_SETTINGS": json.dumps(
                {"clusterUID": "uid", "epoch": 1, "domain": "etcd.ns.svc", "clientScheme": "http",
                 "peerScheme": "http", "dnsTimeoutSeconds": 0, "etcd": {}}
            ),
            "RESTORE": restore.serialise(member, cluster, self._store(), version),
        }  # fmt: skip
        peak = self._job("fetch", told)
        words = restore.etcdutl("etcd-0", self.peer_url, TOKEN)
        here = [word.replace(naming.VOLUME_PATH, str(self.target)) for word in words[1:]]
        run("etcdutl", *here)
        return max(peak, self._job("finish", told))

    def _store(self) -> Store:
        return Store("S3", BUCKET, "ours", "aws", self.s3.endpoint, path_style=True)

    def _job(self, what: str, told: dict[str, str]) -> int:
        environment = {**os.environ, **told, SECRET: str(self.secret)}
        command = [sys.executable, str(HERE / "throughput_job.py"), what, str(self.target)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{what}: {done.stdout}{done.stderr}")
        peak, seconds = done.stdout.split()[-2:]
        self.counted = float(seconds)
        return int(peak)

    # By hand.

    def save_and_upload(self) -> int:
        file = self.folder / "snapshot.db"
        run("etcdctl", f"--endpoints={self.endpoint}", "snapshot", "save", str(file))
        self._curl("--upload-file", str(file))
        file.unlink()
        return 0

    def download_and_restore(self) -> int:
        file = self.target / "snapshot.db"
        self._curl("--output", str(file))
        words = restore.etcdutl("etcd-0", self.peer_url, TOKEN)
        here = [word.replace(naming.VOLUME_PATH, str(self.target)) for word in words[1:]]
        at = next(number for number, word in enumerate(here) if word.endswith(restore.SNAPSHOT))
        run("etcdutl", *here[:at], str(file), *here[at + 1 :])
        return 0

    def _curl(self, *words: str) -> None:
        keys = f"{self.s3.access_key}:{self.s3.secret_key}"
        signed = ("--aws-sigv4", "aws:amz:us-east-1:s3", "--user", keys)
        url = f"{self.s3.endpoint}/{BUCKET}/by-hand"
        header = ("--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD")
        command = ["curl", "--silent", "--show-error", "--fail", *signed, *header, *words, url]
        subprocess.run(command, check=True, capture_output=True)


def run(tool: str, *words: str) -> None:
    subprocess.run([str(BINARIES / tool), *words], check=True, capture_output=True)


def measured(stage: Stage, gib: float, runs: int) -> Json:
    size = asyncio.run(fill(stage, int(gib * GIB)))
    ways: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
        "backup": (stage.back_up, stage.save_and_upload),
        "restore": (stage.restore, stage.download_and_restore),
    }
    told: Json = {"gib": gib, "bytes": size}
    for what, sides in ways.items():
        seconds: dict[str, list[float]] = {side: [] for side in SIDES}
        peaks, counted = list[int](), list[float]()
        for number in range(runs):
            pairs = list(zip(SIDES, sides, strict=True))
            for side, way in pairs if number % 2 == 0 else reversed(pairs):
                stage.clean()
                began = time.monotonic()
                peaks.append(way())
                seconds[side].append(round(time.monotonic() - began, 3))
            counted.append(stage.counted)
        both = {side: round(size / MIB / median(seconds[side]), 1) for side in SIDES}
        ratio = round(both["ours"] / both["by hand"], 2)
        told[what] = {
            "seconds": seconds, "mib_per_second": both, "ratio": ratio, "job_mib": max(peaks)
        }  # fmt: skip
        if what == "backup":
            told[what]["once_started_seconds"] = counted
        print(f"  {gib} GiB, {what}: {both} MiB/s, ratio {ratio}, Job {max(peaks)} MiB", flush=True)
    told["write_ms"] = latencies(stage)
    print(f"  {gib} GiB, writes meanwhile: {told['write_ms']}", flush=True)
    return told


async def fill(stage: Stage, size: int) -> int:
    """Values of 1 MiB; how large the database is."""
    value, numbers = os.urandom(MIB), iter(range(size // MIB))
    async with rpc.insecure_channel(f"127.0.0.1:{stage.client_port}") as channel:
        kv = rpc.KVStub(channel)
        while not await answers(kv):
            await asyncio.sleep(0.1)

        async def writer() -> None:
            for number in numbers:
                key = b"key-%06d" % number
                await kv.Put(rpc.PutRequest(key=key, value=key + value[len(key) :]), timeout=60)

        await asyncio.gather(*(writer() for _ in range(4)))
        status = await rpc.MaintenanceStub(channel).Status(rpc.StatusRequest(), timeout=10)
    return int(status.dbSize)


async def answers(kv: Any) -> bool:
    try:
        await kv.Range(rpc.RangeRequest(key=b"x"), timeout=1)
    except rpc.AioRpcError:
        return False
    return True


def latencies(stage: Stage) -> Json:
    """Of small writes, one after the other: at rest, and while a backup is made."""
    told: Json = {}
    with writing(stage) as found:
        time.sleep(IDLE_SECONDS)
    told["at rest"] = percentiles(found)
    for side, way in zip(SIDES, (stage.back_up, stage.save_and_upload), strict=True):
        with writing(stage) as found:
            way()
        told[side] = percentiles(found)
    return told


@contextlib.contextmanager
def writing(stage: Stage) -> Iterator[list[float]]:
    found: list[float] = []
    over = threading.Event()

    async def write() -> None:
        async with rpc.insecure_channel(f"127.0.0.1:{stage.client_port}") as channel:
            kv = rpc.KVStub(channel)
            while not over.is_set():
                began = time.monotonic()
                await kv.Put(rpc.PutRequest(key=b"small", value=b"v" * 100), timeout=30)
                found.append(time.monotonic() - began)
                await asyncio.sleep(0.005)

    thread = threading.Thread(target=lambda: asyncio.run(write()))
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def percentiles(found: list[float]) -> Json:
    ordered = sorted(found)
    at = {f"p{share}": ordered[len(ordered) * share // 100] for share in (50, 99)}
    return {name: round(value * 1000, 2) for name, value in at.items()} | {"writes": len(ordered)}
