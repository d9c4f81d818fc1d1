"""Backup and restore of databases of several sizes, compared with doing it by hand.

Both use the same etcd, the same S3 server and the same data, all in memory, so that no disk hides
our overhead. Ours runs the containers' own entry points as processes, without the time that the
kubelet takes to start a pod. By hand is `etcdctl snapshot save` with an upload by the AWS client,
and a download with `etcdutl snapshot restore`, as our Job runs it. A third way uses curl, which
sends one piece without a checksum, and shows the best that the machine can do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import aws_cli
from aetcd import rpc
from throughput_stage import GIB, Job, Stage

Json = dict[str, Any]
Way = Callable[[], Job]
Ways = tuple[Way, Way, Way]
"""One for each side."""

MEMORY = Path("/dev/shm")
ROOM = 3.7
"""How many times the size has to fit into memory: the database, and its copies."""

MIB = 2**20
SIDES = ("ours", "by hand", "curl")
IDLE_SECONDS = 3.0
LOG_SECONDS = 60.0
TARGET_RATIO, TARGET_MEMORY = 0.9, 128


class Throughput:
    def __init__(self, sizes: list[float], runs: int) -> None:
        self.sizes, self.runs = sizes, runs

    def measure(self) -> Json:
        return {
            "target_ratio": TARGET_RATIO,
            "target_memory_mib": TARGET_MEMORY,
            "aws_cli": aws_cli.version(),
            "sizes": [self._of(size) for size in self.sizes],
        }

    def _of(self, gib: float) -> Json:
        free, needed = available(), int(ROOM * gib * GIB)
        if free < needed:
            words = f"{needed // MIB} MiB of memory are needed, and {free // MIB} were left"
            print(f"  {gib} GiB: left out, {words}", flush=True)
            return {"gib": gib, "left_out": words}
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            stage = Stage(Path(folder))
            try:
                return measured(stage, gib, self.runs)
            finally:
                stage.stop()


def available() -> int:
    """Bytes that a folder in memory may take without starving other processes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return min(free * 1024, shutil.disk_usage(MEMORY).free)


def measured(stage: Stage, gib: float, runs: int) -> Json:
    size = asyncio.run(fill(stage, int(gib * GIB)))
    settle(stage)
    told: Json = {"gib": gib, "bytes": size}
    told["backup"] = compared(stage, size, backups(stage), runs, stored=True)
    _say(gib, "backup", told["backup"])
    told["write_ms"] = latencies(stage)
    print(f"  {gib} GiB, writes meanwhile: {told['write_ms']}", flush=True)
    stage.clean(stored=True)
    stage.back_up()
    stage.end_etcd()
    restores = (stage.restore, stage.download_and_restore, stage.curl_and_restore)
    told["restore"] = compared(stage, size, restores, runs, stored=False)
    _say(gib, "restore", told["restore"])
    return told


def backups(stage: Stage) -> Ways:
    return stage.back_up, stage.save_and_upload, stage.save_and_curl


def compared(stage: Stage, size: int, ways: Ways, runs: int, *, stored: bool) -> Json:
    """Measures the ways in turn, in alternating order."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    cpu: dict[str, list[Json]] = {side: [] for side in SIDES}
    parts: dict[str, list[Json]] = {side: [] for side in SIDES}
    peak = 0
    for number in range(runs):
        pairs = list(zip(SIDES, ways, strict=True))
        for side, way in pairs if number % 2 == 0 else reversed(pairs):
            stage.clean(stored=stored)
            before, began = stage.cpu(), time.monotonic()
            job = way()
            seconds[side].append(round(time.monotonic() - began, 3))
            after = stage.cpu()
            cpu[side].append({name: after[name] - before[name] for name in after})
            parts[side].append(job.seconds)
            peak = max(peak, job.mib)
    speed = {side: round(size / MIB / median(seconds[side]), 1) for side in SIDES}
    return {
        "seconds": seconds,
        "mib_per_second": speed,
        "ratio": round(speed["ours"] / speed["by hand"], 2),
        "ratio_to_curl": round(speed["ours"] / speed["curl"], 2),
        "job_mib": peak,
        "cpu_seconds": {side: _medians(cpu[side]) for side in SIDES},
        "part_seconds": {side: _medians(parts[side]) for side in SIDES},
    }


def _medians(found: list[Json]) -> Json:
    return {name: round(median(one[name] for one in found), 2) for name in found[0]}


def _say(gib: float, what: str, told: Json) -> None:
    speed, peak = told["mib_per_second"], told["job_mib"]
    ratios = f"ratio {told['ratio']}, to curl {told['ratio_to_curl']}"
    print(f"  {gib} GiB, {what}: {speed} MiB/s, {ratios}, Job {peak} MiB", flush=True)
    print(f"    seconds of the processor {told['cpu_seconds']}", flush=True)
    print(f"    parts {told['part_seconds']}", flush=True)


async def fill(stage: Stage, size: int) -> int:
    """Fills etcd with values of 1 MiB; returns the size of the database."""
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


def settle(stage: Stage) -> None:
    """Waits until etcd has deleted old WAL files, which it checks every 30 seconds."""
    ends = time.monotonic() + LOG_SECONDS
    while time.monotonic() < ends:
        logs = sum(path.stat().st_size for path in (stage.data / "member" / "wal").glob("*.wal"))
        if logs < GIB // 2:
            return
        time.sleep(1)


def latencies(stage: Stage) -> Json:
    """Latencies of small writes, one after the other: at rest, and during a backup."""
    told: Json = {}
    with writing(stage) as found:
        time.sleep(IDLE_SECONDS)
    told["at rest"] = percentiles(found)
    for side, way in zip(SIDES, backups(stage), strict=True):
        stage.clean(stored=True)
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
