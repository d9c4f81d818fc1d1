"""`make comparison`: the same operations on our clusters and on those of the other approach.

It writes tests/comparison/report.json, and from that report alone docs/comparison.md with its plot.
Results that are not run again stay in the report. With --attempt the report goes to
build/comparison instead, and the page does not change.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [
    str(HERE),
    str(HERE.parent / "e2e"),
    str(HERE.parent / "bench"),
    str(ROOT / "operator"),
    str(ROOT / "stateful"),
    str(ROOT / "tests" / "cluster"),
]

import page  # noqa: E402
from harness.api import KUBECONFIG, LOCAL_KUBECONFIG, NAMESPACES, PODS, Json, Kube  # noqa: E402
from harness.operator import Operator  # noqa: E402
from harness.place import RESTRICTED  # noqa: E402
from harness.reach import Reach  # noqa: E402
from harness.waiting import eventually  # noqa: E402
from random_names.controller import LOOP_SECONDS  # noqa: E402
from run import machine, quiet, taken  # noqa: E402
from scenarios import SCENARIOS, WITHOUT_VOLUMES, Life  # noqa: E402
from sides import Ours, RandomNames, Side  # noqa: E402

REPORT = HERE / "report.json"
ATTEMPT = ROOT / "build" / "comparison" / "report.json"
FAST_SECONDS = 1.0
GONE_SECONDS = 120

Make = Callable[[str, str], Side]


def main() -> int:
    options = parse()
    kube = Kube()
    reach = Reach(kube)
    sides = makers(kube, reach, Operator(kube).image)
    at = circumstances(kube, options.wait)
    chosen = options.sides or page.SIDES
    target = ATTEMPT if options.attempt else REPORT
    for run in range(options.first, options.first + options.runs):
        for name in options.only or possible():
            for side in chosen if run % 2 == 0 else reversed(chosen):
                if side != "ours-emptydir" or name in WITHOUT_VOLUMES:
                    add(target, {**live(kube, sides[side], side, name, run), "at": at})
    reach.close()
    report = json.loads(target.read_text())
    print(f"\n{page.summary(report)}\n\nreport: {target.relative_to(ROOT)}")
    if not options.attempt:
        page.write(report, ROOT / "docs")
        print("docs/comparison.md is made anew")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of each scenario on each side")
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, help="these scenarios")
    parser.add_argument("--sides", nargs="*", choices=page.SIDES, help="these sides")
    parser.add_argument("--wait", type=int, default=60, help="seconds for quiet")
    parser.add_argument("--attempt", action="store_true", help="leave report and page as they are")
    return parser.parse_args()


def circumstances(kube: Kube, wait: int) -> Json:
    return {**machine(kube), **taken(kube), "load_before": quiet(wait)}


def possible() -> list[str]:
    """Scenarios that can run: only nodes of the local cluster can be powered off."""
    local = KUBECONFIG.resolve() == LOCAL_KUBECONFIG.resolve()
    return [name for name in SCENARIOS if local or name != "power-cut"]


def makers(kube: Kube, reach: Reach, image: str) -> dict[str, Make]:
    def ours(pod: Json) -> Make:
        return lambda namespace, name: Ours(kube, reach, namespace, name, pod=pod)

    def others(interval: float) -> Make:
        return lambda namespace, name: RandomNames(
            kube, reach, namespace, name, helper_image=image, interval=interval
        )

    return {
        "ours": ours({}),
        "ours-emptydir": ours({"emptyDir": {}}),
        "random": others(LOOP_SECONDS),
        "random-fast": others(FAST_SECONDS),
    }


def live(kube: Kube, make: Make, side: str, scenario: str, run: int) -> Json:
    with namespace(kube) as name:
        cluster = make(name, name)
        life = Life(cluster, run)
        try:
            life.create()
            SCENARIOS[scenario](life)
        finally:
            cluster.close()
    for what, measured in life.measured.items():
        print(f"  {run + 1} {side:13} {what:22} {page.in_words(measured)}", flush=True)
    return {"scenario": scenario, "side": side, "run": run, "measured": life.measured}


def add(report: Path, new: Json) -> None:
    """Adds a result to the report, in place of an earlier one of the same run."""
    old = json.loads(report.read_text())["lives"] if report.exists() else []
    lives = {place(one): one for one in [*old, new]}
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps({"lives": [lives[key] for key in sorted(lives)]}, indent=1) + "\n")


def place(one: Json) -> tuple[int, int, int]:
    return (
        list(SCENARIOS).index(one["scenario"]),
        one["run"],
        page.SIDES.index(one["side"]),
    )


@contextmanager
def namespace(kube: Kube) -> Iterator[str]:
    """A namespace whose name is also that of the cluster, so that a drain can select its pods."""
    name = f"compared-{secrets.token_hex(3)}"
    kube.create(NAMESPACES, {"metadata": {"name": name, "labels": RESTRICTED}})
    try:
        yield name
    finally:
        kube.delete(NAMESPACES, None, name)
        eventually("its pods are gone", lambda: not kube.list(PODS, name), seconds=GONE_SECONDS)


if __name__ == "__main__":
    began = time.monotonic()
    code: Any = main()
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(code)
