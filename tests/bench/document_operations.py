"""The part of docs/benchmarks.md on operations on a running cluster."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def rows(part: Json) -> list[tuple[str, str, str]]:
    found = [
        (what, f"{one['ours']['median']:.2f} s", f"<= {one['target_seconds']:g} s")
        for what, one in part.items()
        if isinstance(one, dict) and "ours" in one
    ]
    for what, one in (part.get("under load") or {}).items():
        found += [
            (f"{what}, under load", f"{one['median']:.2f} s", f"<= {one['target_seconds']:g} s"),
            ("  longest gap between writes", f"{max(one['longest_gap_seconds']):.2f} s", "<= 1 s"),
            ("  leaders moved by us", str(max(one["leaders_moved"])), "<= 1"),
        ]
    return found


def section(part: Json) -> list[str]:
    runs = len(part["3 -> 5"]["ours"]["seconds"])
    lines = [
        "## Operations on a running cluster",
        "",
        f"Median of {runs}, on a cluster that has been settled for etcd's health interval.",
        "*By hand* is what an expert's script does on the bare StatefulSet with `kubectl` and",
        "`etcdctl`, without a pause to think. Neither side has TLS, except for the clusters under",
        "load, which have it as by default. One pod cycle (deleted, until it is",
        f"Ready again) took {part['pod_cycle_seconds']:.2f} s; the bare StatefulSet had a pod",
        "with a new claim running",
        f"after {part['bare_pod_back_seconds']:.2f} s.",
        "",
        "| operation | operator | by hand | target |",
        "|---|---|---|---|",
    ]
    for what, one in part.items():
        if isinstance(one, dict) and "ours" in one:
            ours, hand = _runs(one["ours"]), _runs(one["by_hand"]) if one["by_hand"] else "-"
            target = f"<= {one['target_seconds']:g} s"
            if one["ours"]["median"] > one["target_seconds"]:
                target += ", **missed**"
            lines.append(f"| {what} | {ours} | {hand} | {target} |")
    return [
        *lines,
        "",
        *_upgrade_by_hand(part),
        "Until `start` answers in it, a new member's pod takes as long as one of the bare",
        "StatefulSet. After that, the operator takes some 0.3 s for each learner (added, budget,",
        "ledger, record, ticket, each written before the next), and the kubelet up to a second",
        "until it sees that `start` has ended. Learners are added one by one, so that second",
        "counts for each. Adding two at once would need `--max-learners`, which is not safe:",
        "each member judges an addition by its own flag (3.7.3, `ValidateConfigurationChange`),",
        "so during the rolling restart that changes the flag members would disagree about the",
        "member list. 3 -> 7 also includes `unhealthy cluster`, with which etcd itself refuses",
        "changes for up to 5 s after a member has joined. If the leader no longer has the",
        "beginning of the log, as in every cluster with some history, a learner begins with a",
        "snapshot. etcd makes it once its leader has applied what is committed by then (3.7.3,",
        "`applyAll`). The learner's own announcement (`publish`), proposed with its first answer",
        "to the leader, may be part of that: then it is in the snapshot, is never applied, and",
        "the learner waits for it for 7 s and serves nobody. The same happens by hand. Other",
        "writes meanwhile did not help (6 of 20 learners waited with 200 to 440 a second, 5 of 8",
        "without).",
        "",
    ]


def _upgrade_by_hand(part: Json) -> list[str]:
    if not (side := part.get("upgrade by hand")):
        return []
    return [
        "The rolling update of the bare StatefulSet took for the same upgrade, without load,",
        f"{_runs(side)}.",
        "",
    ]


def _runs(side: Json) -> str:
    """The median, and the runs behind it."""
    each = " ".join(f"{one:.1f}" for one in sorted(side["seconds"]))
    return f"{side['median']:.2f} s ({each})"
