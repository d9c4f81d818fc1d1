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
FAILURE = re.compile(r"(FAILED|ERROR) \S+::")


Command = tuple[str, ...]


@dataclass(frozen=True)
class Tier:
    """`stages` follow one another; the commands of a stage run at once."""

    name: str
    stages: tuple[tuple[Command, ...], ...]


def _python(*words: str) -> Command:
    return (sys.executable, *words)


def _e2e(part: str) -> Command:
    words = ("-m", "pytest", "--verbose", f"--part={part}", f"--report=build/e2e/part-{part}.json")
    return _python(*words, "tests/e2e", "-p", "no:cacheprovider")


INTEGRATION = (("backup",), ("etcd",), ("start",), ("crds", "helm", "image"), ("model", "shell"))
"""Folders; each part runs in a process of its own."""


def _integration(folders: tuple[str, ...]) -> Command:
    return (*PYTEST, *(f"tests/integration/{folder}" for folder in folders))


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
    # Most of the time from here on is etcd's and the kubelet's: parts at once take hardly longer.
    Tier("integration", (tuple(_integration(part) for part in INTEGRATION),)),
    Tier("e2e", ((_e2e("1"), _e2e("2"), _e2e("3")), (_e2e("alone"),))),
)
NEEDS = {"integration": ("cluster",), "e2e": ("cluster",)}


@dataclass(frozen=True)
class Result:
    tier: str
    seconds: float
    ok: bool
    counts: Counter[str]
    failures: tuple[str, ...]
    """Which tests failed, and the first line of why."""


@dataclass(frozen=True)
class Ended:
    ok: bool
    counts: dict[str, int]
    failures: tuple[str, ...]


def run(tier: Tier) -> Result:
    """All commands of the tier, their output passed on as it comes."""
    print(f"\n== {tier.name}", flush=True)
    began, ended = time.monotonic(), list[Ended]()
    for stage in tier.stages:
        with ThreadPoolExecutor(len(stage)) as threads:
            ended += threads.map(carry_out, stage)
    return Result(
        tier.name,
        time.monotonic() - began,
        ok=all(one.ok for one in ended),
        counts=sum((Counter(one.counts) for one in ended), Counter[str]()),
        failures=tuple(line for one in ended for line in one.failures),
    )


def carry_out(command: Command) -> Ended:
    """Passes on what it prints, and keeps what pytest counted."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        last, failures = "", list[str]()
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line if COUNTS.search(line) else last
            failures += [line.rstrip()] if FAILURE.match(line) else []
    counts = {word: int(number) for number, word in COUNTS.findall(last)}
    return Ended(process.returncode == 0, counts, tuple(failures))


def main(chosen: str) -> int:
    wanted = {chosen, *NEEDS.get(chosen, ())}
    results = [run(tier) for tier in TIERS if chosen == "all" or tier.name in wanted]
    if failures := [line for one in results for line in one.failures]:
        print("\n== failures", *failures, sep="\n")
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
