"""The part of docs/benchmarks.md on backup and restore."""

from __future__ import annotations

from statistics import median
from typing import Any

Json = dict[str, Any]

WAYS = ("backup", "restore")
SIDES = {"ours": "operator", "by hand": "by hand", "curl": "with curl"}
AT = {"at rest": "at rest", **{side: f"during one, {words}" for side, words in SIDES.items()}}
PROGRAMS = ("programs", "etcd", "S3 server")


def rows(part: Json) -> list[tuple[str, str, str]]:
    """Rows of measurements that have a target, without sizes that were left out."""
    least, most = f">= {part['target_ratio']:g}", f"<= {part['target_memory_mib']} MiB"
    found = [
        (f"{way}, {one['gib']:g} GiB, of by hand", f"{one[way]['ratio']:.2f}", least)
        for way in WAYS
        for one in _sizes(part)
    ]
    peaks = [one[way]["job_mib"] for one in _sizes(part) for way in WAYS]
    memory = [("memory of the Jobs, worst", f"{max(peaks)} MiB", most)] if peaks else []
    return found + memory


def section(part: Json) -> list[str]:
    sizes = _sizes(part)
    runs = len(sizes[0]["backup"]["seconds"]["ours"]) if sizes else 0
    return [
        "## Backup and restore",
        "",
        f"{runs} runs on each side, in turns: the same etcd, S3 server and data, all in memory.",
        "*Operator* is the containers of its Jobs, run as processes, from their start to their",
        "end, without the time that a kubelet takes for a pod. *By hand* is",
        f"`etcdctl snapshot save` and `aws s3 cp` (AWS CLI {part['aws_cli']}), then",
        "`aws s3 cp` and the same",
        "`etcdutl`. *With curl* is the same in one piece that nobody checks, which is about as",
        "fast as this machine can copy. Only the operator checks etcd's hash on the way, signs",
        "each part by its SHA-256, and stores a manifest.",
        "",
        "| MiB/s | operator | by hand | ratio | with curl | ratio to that | memory of the Job |",
        "|---|---|---|---|---|---|---|",
        *(_speed(way, one) for way in WAYS for one in sizes),
        "",
        *_left_out(part),
        *_missed(part),
        "Where the time goes, in seconds of CPU time for a GiB: of the programs (the containers of",
        "the Job, with `etcdutl`, or what was run by hand) + of etcd + of the S3 server.",
        "",
        f"| | {' | '.join(SIDES.values())} |",
        f"|---|{'---|' * len(SIDES)}",
        *(_processor(way, one) for way in WAYS for one in sizes),
        "",
        "The parts that follow one another, in seconds from beginning to end:",
        "",
        f"| | {' | '.join(SIDES.values())} |",
        f"|---|{'---|' * len(SIDES)}",
        *(_parts(way, one) for way in WAYS for one in sizes),
        "",
        *(_whatever_its_size(sizes[0]) if sizes else ()),
        "",
        "Small writes, one after the other, to the cluster of one member that is backed up: p50",
        "and p99.",
        "",
        f"| | {' | '.join(AT.values())} |",
        f"|---|{'---|' * len(AT)}",
        *(_writes(one) for one in sizes),
        "",
    ]


def _sizes(part: Json) -> list[Json]:
    return [one for one in part["sizes"] if "left_out" not in one]


def _left_out(part: Json) -> list[str]:
    """Names the sizes for which the machine has no room."""
    found = [
        f"{one['gib']:g} GiB was left out: {one['left_out']}."
        for one in part["sizes"]
        if "left_out" in one
    ]
    return [*found, ""] if found else []


def _missed(part: Json) -> list[str]:
    ratio, memory = part["target_ratio"], part["target_memory_mib"]
    slow = [
        f"{way} of {one['gib']:g} GiB at {one[way]['ratio']:.2f}"
        for way in WAYS
        for one in _sizes(part)
        if one[way]["ratio"] < ratio
    ]
    large = [
        f"{way} of {one['gib']:g} GiB with {one[way]['job_mib']} MiB"
        for way in WAYS
        for one in _sizes(part)
        if one[way]["job_mib"] > memory
    ]
    told = []
    if slow:
        told.append(f"**The target, {ratio:g} of by hand, is missed**: {', '.join(slow)}.")
    if large:
        told.append(f"**More than {memory} MiB of memory**: {', '.join(large)}.")
    return [*told, ""] if told else []


def _speed(way: str, one: Json) -> str:
    found = one[way]
    ours, by_hand, curl = (f"{found['mib_per_second'][side]:.0f}" for side in SIDES)
    figures = f"{ours} | {by_hand} | {found['ratio']:.2f} | {curl} | {found['ratio_to_curl']:.2f}"
    return f"| {way}, {one['gib']:g} GiB | {figures} | {found['job_mib']} MiB |"


def _processor(way: str, one: Json) -> str:
    times = one[way]["cpu_seconds"]
    cells = [
        " + ".join(f"{times[side][name] / one['gib']:.2f}" for name in PROGRAMS) for side in SIDES
    ]
    return f"| {way}, {one['gib']:g} GiB | {' | '.join(cells)} |"


def _parts(way: str, one: Json) -> str:
    cells = [
        ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
        for parts in (one[way]["part_seconds"][side] for side in SIDES)
    ]
    return f"| {way}, {one['gib']:g} GiB | {' | '.join(cells)} |"


def _whatever_its_size(smallest: Json) -> list[str]:
    """Figures that do not depend on the size, from the smallest database."""
    backup, restore = smallest["backup"], smallest["restore"]["part_seconds"]["ours"]
    start = median(backup["seconds"]["ours"]) - backup["part_seconds"]["ours"]["once started"]
    return [
        f"Whatever the size, starting and ending a Python program takes {start:.2f} s of a",
        f"backup. A restore has two such programs; `finish` alone took {restore['finish']:.2f} s.",
    ]


def _writes(one: Json) -> str:
    cells = [
        f"{one['write_ms'][at]['p50']:.1f} ms, {one['write_ms'][at]['p99']:.1f} ms" for at in AT
    ]
    return f"| {one['gib']:g} GiB | {' | '.join(cells)} |"
