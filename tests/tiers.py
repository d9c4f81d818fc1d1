"""Runs the tiers of `make test`, and prints how long each took.

The tiers of a group run at once, groups one after the other. Every tier runs even if an earlier one
failed, so that one run shows everything that has to be fixed. What an interrupted run has left in
the local cluster (nodes cordoned or off, clusters that wait for them) goes with that cluster.
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

from localkube.cache import alone
from localkube.paths import STATE

ROOT = Path(__file__).parents[1]
PYTEST = (sys.executable, "-m", "pytest", "--durations=8", "--durations-min=1")
QUIETLY = (*PYTEST, "-q")
COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped)")
FAILURE = re.compile(r"(FAILED|ERROR) \S+::")


UNDER_TEST = STATE / "under-test"
"""Is there while tiers use the local cluster."""

Command = tuple[str, ...]


@dataclass(frozen=True)
class Tier:
    """`stages` follow one another; the commands of a stage run at once."""

    name: str
    stages: tuple[tuple[Command, ...], ...]


def _python(*words: str) -> Command:
    return (sys.executable, *words)


def _e2e(part: str, *more: str, report: str = "") -> Command:
    report = report or f"build/e2e/part-{part}.json"
    words = ("--verbose", f"--part={part}", f"--report={report}", *more)
    return (*PYTEST, *words, "tests/e2e", "-p", "no:cacheprovider")


def _verify(part: str) -> Command:
    """The long end-to-end tests; their report is checked in."""
    return _e2e(part, "-m", "verify", report="tests/e2e/report.json")


def _by_turns(folder: str, processes: int) -> list[Command]:
    """Every file of the folder, in so many processes."""
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).rglob("test_*.py"))]
    return [(*QUIETLY, *files[turn::processes]) for turn in range(processes)]


def _integration(*places: str) -> Command:
    return (*QUIETLY, *(f"tests/integration/{place}" for place in places))


def _patient(*stage: Command) -> tuple[Command, ...]:
    """Behind the end-to-end tests that run beside it and promise seconds."""
    return tuple(("nice", "-n", "10", *command) for command in stage)


UNIT = Tier("unit", (_patient(*_by_turns("tests/unit", 2)),))
MODEL = Tier("model", (_patient((*QUIETLY, "tests/model")),))
# Three nodes, for those of the e2e tier that drain them and switch them off.
_READY = ("make", "--no-print-directory", "NODES=3", "install", "test-tools")
CLUSTER = Tier("cluster", ((_READY,),))
E2E = Tier("e2e", ((_e2e("1"), _e2e("2"), _e2e("3")),))
# What the model says of Kubernetes, held against the same cluster.
TRACES = Tier("traces", (_patient(_integration("model/test_model_kube.py")),))
# One after the other, and most of it is waiting: the rest of the machine is free for others.
ALONE = Tier("e2e, alone", ((_e2e("alone"),),))
VERIFY = Tier("e2e, long", ((_verify("1"), _verify("2"), _verify("3")), (_verify("alone"),)))
INTEGRATION = Tier(
    "integration",
    (
        _patient(
            _integration("backup"),
            _integration("etcd", "crds", "helm", "image"),
            *_by_turns("tests/integration/start", 2),
            _integration("model/test_model_etcd.py", "shell"),
        ),
    ),
)


def _collected(*tiers: Tier) -> tuple[Command, ...]:
    """What they run, only imported: a name that is gone shows before a cluster is made."""
    commands = [command for tier in tiers for stage in tier.stages for command in stage]
    return tuple((*command, "--collect-only", "-qqq") for command in commands)


LINT = Tier(
    "lint",
    (
        (_python("-m", "ruff", "check", "."),),
        (_python("-m", "ruff", "format", "--check", "."),),
        (_python("-m", "mypy"),),
        ((str(Path(sys.executable).with_name("lint-imports")),),),
        (_python("docs/make_reference.py", "--check"),),
        (_python("docs/make_diagrams.py", "--check"),),
        _collected(INTEGRATION, E2E),
    ),
)
Groups = tuple[tuple[Tier, ...], ...]
ALL: Groups = ((LINT, CLUSTER), (E2E, TRACES), (ALONE, INTEGRATION, UNIT, MODEL))
BY_NAME: dict[str, Groups] = {
    "all": ALL,
    "lint": ((LINT,),),
    "unit": ((UNIT,),),
    "model": ((MODEL,),),
    "integration": ((CLUSTER,), (INTEGRATION, TRACES)),
    "e2e": ((CLUSTER,), (E2E,), (ALONE,)),
    "e2e-long": ((CLUSTER,), (VERIFY,)),
}


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


def main(name: str) -> int:
    groups = BY_NAME[name]
    if not any(CLUSTER in group for group in groups):
        return _run_all(groups)
    # A run beside this one would take its cluster for one that was left.
    with alone("tests.lock"):
        _clear_up()
        code = _run_all(groups)
        UNDER_TEST.unlink(missing_ok=True)
    return code


def _run_all(groups: Groups) -> int:
    began, results = time.monotonic(), list[Result]()
    for group in groups:
        with ThreadPoolExecutor(len(group)) as threads:
            results += threads.map(run, group)
        if CLUSTER in group and STATE.exists():
            UNDER_TEST.touch()
    if failures := [line for one in results for line in one.failures]:
        print("\n== failures", *failures, sep="\n")
    print("\n== tiers")
    for one in results:
        counts = ", ".join(f"{number} {word}" for word, number in one.counts.items())
        verdict = "ok" if one.ok else "FAILED"
        print(f"{one.tier:12} {one.seconds / 60:6.1f} min  {verdict:7} {counts}")
    print(f"{'all':12} {(time.monotonic() - began) / 60:6.1f} min")
    total = {word: sum(one.counts.get(word, 0) for one in results) for word in ("passed", "failed")}
    print(f"{total['passed']} passed, {total['failed']} failed")
    return 0 if all(one.ok for one in results) else 1


def _clear_up() -> None:
    if UNDER_TEST.exists():
        print("\n== the last run was broken off: its cluster is taken down", flush=True)
        subprocess.run(("make", "--no-print-directory", "cluster-down"), cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "all"))
