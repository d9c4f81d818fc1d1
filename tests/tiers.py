"""Runs the tiers of `make test` one after the other and says how long each took.

Every tier runs even if one before it failed, so that one run shows all there is to mend.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q"]
COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped)")


Command = tuple[str, ...]


@dataclass(frozen=True)
class Tier:
    """`stages` follow one another; the commands of a stage run at once."""

    name: str
    stages: tuple[tuple[Command, ...], ...]


def _python(*words: str) -> Command:
    return (sys.executable, *words)


def _e2e(part: str) -> Command:
    words = ("-m", "pytest", "--verbose", "--durations=5", f"--part={part}", "tests/e2e")
    return _python(*words, "-p", "no:cacheprovider")


TIERS = (
    Tier(
        "lint",
        (
            (_python("-m", "ruff", "check", "."),),
            (_python("-m", "ruff", "format", "--check", "."),),
            (_python("-m", "mypy"),),
            ((str(Path(sys.executable).with_name("lint-imports")),),),
            (_python("docs/make_reference.py", "--check"),),
        ),
    ),
    Tier("unit", (((*PYTEST, "tests/unit"),),)),
    Tier("model", (((*PYTEST, "tests/model"),),)),
    # Three nodes, for those of the e2e tier that drain them and switch them off.
    Tier("cluster", ((("make", "--no-print-directory", "NODES=3", "install"),),)),
    Tier("integration", (((*PYTEST, "tests/integration"),),)),
    # Most of the time is the kubelet's, so two halves at once take hardly longer than one.
    Tier("e2e", ((_e2e("1"), _e2e("2")), (_e2e("alone"),))),
)
NEEDS = {"integration": ("cluster",), "e2e": ("cluster",)}


@dataclass(frozen=True)
class Result:
    tier: str
    seconds: float
    ok: bool
    counts: Counter[str]


def run(tier: Tier) -> Result:
    """All commands of the tier, their output passed on as it comes."""
    print(f"\n== {tier.name}", flush=True)
    began, ok, counts = time.monotonic(), True, Counter[str]()
    for stage in tier.stages:
        with ThreadPoolExecutor(len(stage)) as threads:
            for good, found in threads.map(carry_out, stage):
                ok = ok and good
                counts.update(found)
    return Result(tier.name, time.monotonic() - began, ok, counts)


def carry_out(command: Command) -> tuple[bool, dict[str, int]]:
    """Whether it succeeded, and what pytest counted."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        last = ""
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line if COUNTS.search(line) else last
    return process.returncode == 0, {word: int(number) for number, word in COUNTS.findall(last)}


def main(chosen: str) -> int:
    wanted = {chosen, *NEEDS.get(chosen, ())}
    results = [run(tier) for tier in TIERS if chosen == "all" or tier.name in wanted]
    print("\n== tiers")
    for one in results:
        counts = ", ".join(f"{number} {word}" for word, number in one.counts.items())
        verdict = "ok" if one.ok else "FAILED"
        print(f"{one.tier:12} {one.seconds / 60:6.1f} min  {verdict:7} {counts}")
    print(f"{'all':12} {sum(one.seconds for one in results) / 60:6.1f} min")
    total = {word: sum(one.counts.get(word, 0) for one in results) for word in ("passed", "failed")}
    print(f"{total['passed']} passed, {total['failed']} failed")
    return 0 if all(one.ok for one in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "all"))
