"""`make bench`: measures speed, idle load and memory on this machine. It is not a test.

It writes build/bench/report.json. With --keep the measured parts also replace those in
tests/bench/report.json, and docs/benchmarks.md with its plots is written from that report alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTS = (HERE, HERE.parent / "e2e", HERE.parent / "cluster")
sys.path[:0] = [str(each) for each in (*TESTS, ROOT / "operator", ROOT / "stateful")]

import document  # noqa: E402
from fleet import Fleet  # noqa: E402
from harness.api import Kube  # noqa: E402
from harness.operator import Operator  # noqa: E402
from harness.reach import Reach  # noqa: E402
from harness.verdicts import commit  # noqa: E402
from measure import Bench, say  # noqa: E402
from operations import Operations  # noqa: E402
from throughput import Throughput  # noqa: E402

OUTPUT = ROOT / "build" / "bench" / "report.json"
KEPT = HERE / "report.json"
QUIET_LOAD = 1.0
QUIET_SECONDS = 180


def main() -> int:
    options = parse()
    kube = Kube()
    reach = Reach(kube)
    bench = Bench(kube, reach, Operator(kube))
    parts = {
        "creation": lambda: bench.creation(options.runs),
        "again": lambda: bench.again(options.again),
        "again_cached": lambda: bench.again_cached(options.again),
        "put_back": lambda: bench.put_back(options.put_back),
        "settled": lambda: bench.settled(options.settled),
        "memory": lambda: bench.memory(options.fleet),
        "operations": lambda: Operations(bench, options.operations).measure(),
        "fleet": lambda: Fleet(options.fleet_size, options.fleet_runs).measure(),
        "throughput": lambda: Throughput(options.gib, options.throughput).measure(),
    }
    report: dict[str, Any] = {"machine": machine(kube)}
    for name in options.only or parts:
        report[name] = measured(kube, name, parts[name], options.wait)
        put_down(report, keep=options.keep)
    reach.close()
    say(f"\n{document.summary(report)}\n\nreport: {OUTPUT.relative_to(ROOT)}")
    return 0


def measured(
    kube: Kube, name: str, part: Callable[[], dict[str, Any]], wait: int
) -> dict[str, Any]:
    """The figures of a part, with when and how they were measured."""
    before = quiet(wait)
    say(f"== {name}")
    began, asked = time.monotonic(), processors()
    figures = part()
    say(f"   {name}: {time.monotonic() - began:.0f} s")
    how = {
        **taken(kube),
        "load_before": round(before, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "stolen_percent": stolen(asked, processors()),
    }
    return {**figures, "how": how}


def taken(kube: Kube) -> dict[str, Any]:
    """When, with which commit, and on how many nodes it was measured."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "nodes": len(kube.request("GET", "/api/v1/nodes")["items"]),
    }


def processors() -> tuple[int, int]:
    """Ticks so far in which processors were busy, and how many of these the host has stolen."""
    user, nice, system, _idle, _wait, irq, soft, steal = map(
        int, Path("/proc/stat").read_text().split()[1:9]
    )
    return user + nice + system + irq + soft + steal, steal


def stolen(before: tuple[int, int], after: tuple[int, int]) -> int:
    """Percentage of stolen time, in which a virtual machine is slower, even if it is idle."""
    asked, others = (one - other for one, other in zip(after, before, strict=True))
    return round(100 * others / max(asked, 1))


def put_down(report: dict[str, Any], *, keep: bool) -> None:
    """Writes the report after each part, so that a later failure does not lose it."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(report, indent=1) + "\n")
    if not keep:
        return
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept.update(report)
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    document.write(kept, ROOT / "docs")
    say("   kept, with docs/benchmarks.md made anew")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="creations on each side")
    parser.add_argument("--again", type=int, default=5, help="of the same name again, each side")
    parser.add_argument("--put-back", type=int, default=5, help="of each repair")
    parser.add_argument("--operations", type=int, default=5, help="of each operation, each side")
    parser.add_argument("--settled", type=float, default=600, help="seconds of watching")
    parser.add_argument("--fleet", type=int, default=20, help="clusters for the memory; 1: skip")
    parser.add_argument("--fleet-size", type=int, default=100, help="clusters at a restart")
    parser.add_argument("--fleet-runs", type=int, default=5, help="restarts after each change")
    parser.add_argument("--gib", type=float, nargs="*", default=[0.1, 1.0, 4.0], help="backed up")
    parser.add_argument("--throughput", type=int, default=3, help="backups and restores, each side")
    parser.add_argument("--wait", type=int, default=QUIET_SECONDS, help="seconds for quiet")
    parser.add_argument("--only", nargs="*", help="parts; all by default")
    parser.add_argument(
        "--keep", action="store_true", help="put them into the report that is checked in"
    )
    return parser.parse_args()


def machine(kube: Kube) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "kubernetes": kube.request("GET", "/version")["gitVersion"],
    }


def quiet(seconds: int) -> float:
    """Waits until nothing else uses the machine; returns the load that is left."""
    deadline = time.monotonic() + seconds
    while (load := os.getloadavg()[0]) > QUIET_LOAD and time.monotonic() < deadline:
        say(f"waiting for quiet: the load is {load:.1f}")
        time.sleep(10)
    if load > QUIET_LOAD:
        say(f"the machine is not quiet (load {load:.1f}); the figures will show it")
    return load


if __name__ == "__main__":
    sys.exit(main())
