"""Writes docs/benchmarks.md and its plots, from the report alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import document_operations
import document_throughput
from document_plots import NAMES, phase_plot, strip_plot

Json = dict[str, Any]


def write(report: Json, docs: Path) -> None:
    for part in ("creation", "again", "again_cached"):
        if part in report:
            (docs / f"benchmarks-{part.replace('_', '-')}.svg").write_text(
                strip_plot(report[part]["seconds"])
            )
    if "creation" in report:
        (docs / "benchmarks-phases.svg").write_text(phase_plot(report["creation"]["phases"]))
    (docs / "benchmarks.md").write_text(page(report))


def summary(report: Json) -> str:
    """One line per target."""
    return "\n".join(
        f"{what:44} {value:>18}   target {target}" for what, value, target in rows(report)
    )


def rows(report: Json) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    if part := report.get("creation"):
        both = part["median"]
        found += [
            ("three Ready from apply, median", f"{both['ours']:.2f} s", "-"),
            ("bare StatefulSet, same runs, median", f"{both['bare']:.2f} s", "-"),
            ("the same with an init container, median", f"{both['gated']:.2f} s", "-"),
            *_mounted_rows(both),
            ("ratio", f"{part['ratio']:.2f}", f"<= {part['target_ratio']}"),
            ("worst of ours", f"{part['worst']['ours']:.2f} s", f"<= {part['target_seconds']} s"),
            *_tls_rows(part),
            ("event to our write, p50", ms(part["step_delay"]["p50"]), "<= 50 ms"),
            ("event to our write, p99", ms(part["step_delay"]["p99"]), "<= 250 ms"),
        ]
    found += _again_rows("same name again, three Ready, median", report.get("again"))
    found += _again_rows("the same, while DNS caches, median", report.get("again_cached"))
    if part := report.get("put_back"):
        worst = f"{part['worst_seconds']:.2f} s"
        found.append(("a child put back, worst", worst, f"<= {part['target_seconds']} s"))
    if part := report.get("settled"):
        minutes = f"settled for {part['seconds'] / 60:.0f} min"
        found += [
            (f"{minutes}: API writes", str(part["writes"]), "0"),
            (f"{minutes}: API reads", str(part["reads"]), "0"),
            (f"{minutes}: etcd calls", f"{part['etcd_calls_per_second']:.3f} /s", "<= 0.1 /s"),
        ]
    if part := report.get("memory"):
        for count, size in part["resident_mib_by_clusters"].items():
            target = f"<= {part['target_mib']} MiB" if count == "1" else "-"
            found.append((f"resident memory, {count} clusters", f"{size:.0f} MiB", target))
    found += document_operations.rows(report.get("operations") or {}) + _fleet_rows(report)
    if part := report.get("throughput"):
        found += document_throughput.rows(part)
    return found


def _tls_rows(part: Json) -> list[tuple[str, str, str]]:
    """Rows about TLS. There are none in a report that is older than the TLS default."""
    if "tls_seconds" not in part:
        return []
    more, target = f"{part['tls_seconds']:+.2f} s", f"<= {part['target_tls_seconds']} s"
    return [
        ("with TLS, same runs, median", f"{part['median']['tls']:.2f} s", "-"),
        ("what TLS adds", more, target),
    ]


def _fleet_rows(report: Json) -> list[tuple[str, str, str]]:
    if not (part := report.get("fleet")):
        return []
    delay = part["step_delay"]
    return [
        *_restart_rows(part),
        (f"event to our write, {part['clusters']} clusters, p50", ms(delay["p50"]), "<= 50 ms"),
        (f"event to our write, {part['clusters']} clusters, p99", ms(delay["p99"]), "<= 250 ms"),
    ]


def _restart_rows(part: Json) -> list[tuple[str, str, str]]:
    return [
        (
            f"restart, {part['clusters']} clusters: {what}",
            f"{one['median']['first correct decision']:.2f} s",
            f"<= {part['target_seconds']:g} s",
        )
        for what, one in part["changes"].items()
    ]


def ms(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds * 1000:.0f} ms"


def page(report: Json) -> str:
    machine = report["machine"]
    lines = [
        "# Benchmarks",
        "",
        "How fast the operator is, what it costs at rest, and where it misses its targets. Run",
        "`make bench` to measure your machine; it writes `build/bench/report.json`. This page",
        "is generated from tests/bench/report.json, which `--keep` writes; change that, not",
        f"this page. Machine: {machine['cores']} cores, Kubernetes {machine['kubernetes']},",
        f"kernel {machine['kernel']}.",
        "",
        "| what | measured | target |",
        "|---|---|---|",
        *(f"| {what} | {value} | {target} |" for what, value, target in rows(report)),
        "",
    ]
    for name, section in SECTIONS.items():
        if name in report:
            lines += [*section(report[name]), *_how(name, report[name]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _how(name: str, part: Json) -> list[str]:
    """How a part was measured, with the remarks that were added to the report by hand."""
    how = part["how"]
    stolen = how.get("stolen_percent", 0)
    shared = f" The host kept {stolen} % of the processors' time back for others." if stolen else ""
    return [
        f"`python tests/bench/run.py --only {name}`, {how['date']}, commit {how['commit']}, on",
        f"{count(how['nodes'], 'node')}, load {how['load_before']} before and",
        f"{how['load_after']} after.{shared}",
        *how.get("remarks", ()),
    ]


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _creation(part: Json) -> list[str]:
    runs, delay = len(part["seconds"]["ours"]), part["step_delay"]
    figures = (
        f"p50 {ms(delay['p50'])}, p99 {ms(delay['p99'])}, over {delay['steps']:.0f} steps, from"
    )
    return [
        "## Three members Ready, from apply",
        "",
        f"{runs} runs on each side, taking turns, each in a fresh namespace. The yardstick is the",
        "StatefulSet from etcd's website (Parallel, state `new`), with our image, probes,",
        "security context and volumes (WaitForFirstConsumer). Neither it nor the operator's",
        "cluster that it is compared with has TLS. The same runs also create a cluster with TLS,",
        "which is the default, and a bare StatefulSet with an init container that ends at once",
        "(`etcd --version`), which shows what any step before etcd costs. Times are those at",
        "which a watch reported the change, by one monotonic clock.",
        "",
        "![seconds from apply to three Ready](benchmarks-creation.svg)",
        "",
        *_missed(part),
        "Where the time goes (median of the time at which the last pod had got that far):",
        "",
        "![phases](benchmarks-phases.svg)",
        "",
        *_phases(part["phases"]),
        "",
        "The operator's own part is the time from the event that makes a step possible to",
        f"the step's write: {figures}",
        "its own histogram. Two intervals of one second, both the kubelet's (1.36.3; read in its",
        "source), decide the rest:",
        "",
        "- The end of an init container is seen at the next relist of all pods, up to a second",
        "  later (`PLEGOnDemandRelist` asks for one only after what the kubelet itself has done).",
        "- The readiness probe runs once a second. A pod that is changed is probed without",
        "  waiting for that, though not before the relist that follows etcd's start. The label",
        "  with its member, which is written as soon as it serves, is such a change.",
        "",
        "A bare StatefulSet that takes 15 s longer than the others has met a race of Kubernetes: a",
        "kubelet that asks for a claim before the API server's node authorizer knows of the pod is",
        "refused (`no relationship found between node and this object`), and asks again after",
        "10 to 15 s. The operator touches such a pod, and the kubelet asks at once.",
        "",
        "What helped: all first tickets are sent at once, and there is no startup probe (after",
        "one, the kubelet checks readiness only at its next interval). The network policies of the",
        "operator's clusters are enforced here, and the bare StatefulSet has none. Until 8023a7aa",
        "the engine lost packets of new connections, which the kernel repeats after a second, and",
        "creation took 4.7 to 6.0 s (medians of ten and five runs, at a5993ae7 and 5f8bbca5).",
        "What did not help: asking `start` earlier, fewer imports, listening before looking.",
        "`start` as a sidecar, with etcd waiting on a FIFO, took 4.5 s when the bare StatefulSet",
        "took 3.5.",
        "",
        *_mounted(part),
    ]


def _mounted(part: Json) -> list[str]:
    """What an image volume would save: from these runs, or from later ones on a machine that was
    too busy for the table (`image_volume`)."""
    run = part if "mounted" in part["median"] else part["image_volume"]
    how, median = run["how"], run["median"]
    saved = median["gated"] - median["mounted"]
    gain = f"{saved:.2f} s less than" if saved >= 0.01 else "no less than"
    return [
        "`start` could also run in etcd's own container, from a volume with the operator's image",
        "(on by default since Kubernetes 1.35), instead of an init container. A bare StatefulSet",
        "with that volume, the imports of `start` and a pause as long as a ticket takes needs",
        f"{gain} one with an init container: {median['mounted']:.2f} s and",
        f"{median['gated']:.2f} s, where a bare one took {median['bare']:.2f} s and the operator",
        f"{median['ours']:.2f} s ({run['ratio']:.2f}; {run['worst']['ours']:.2f} s at worst;",
        f"{how['date']}, at {how['commit']}, while the host took {how['stolen_percent']} % of the",
        "processors' time for others). [Why we do not do it](design.md#start-and-tickets).",
        "",
    ]


def _again_rows(what: str, part: Json | None) -> list[tuple[str, str, str]]:
    if part is None:
        return []
    return [
        (what, f"{part['median']['ours']:.2f} s", "-"),
        ("bare StatefulSet, same runs, median", f"{part['median']['bare']:.2f} s", "-"),
        ("ratio", f"{part['ratio']:.2f}", f"<= {part['target_ratio']}"),
    ]


def _mounted_rows(median: Json) -> list[tuple[str, str, str]]:
    """There are none in a report that is older than this yardstick."""
    if "mounted" not in median:
        return []
    return [("the same with an image volume instead", f"{median['mounted']:.2f} s", "-")]


def _missed(part: Json) -> list[str]:
    """Targets, relative to the bare StatefulSet, that were missed."""
    if part["ratio"] <= part["target_ratio"]:
        return []
    words = f"**The target, {part['target_ratio']:g} of the bare one, is missed**: it is"
    return [f"{words} {part['ratio']:.2f}.", ""]


def _phases(both: Json) -> list[str]:
    sides = [side for side in NAMES if side in both]
    heads = " | ".join(NAMES[side] for side in sides)
    lines = [f"| reached by | {heads} |", f"|---|{'---|' * len(sides)}"]
    names = {name: None for side in sides for name in both[side]}
    first = {name: min(both[side].get(name, 1e9) for side in both) for name in names}
    for name in sorted(names, key=lambda one: both["ours"].get(one, first[one])):
        cells = [f"{both[side][name]:.2f} s" if name in both[side] else "" for side in sides]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _again(part: Json) -> list[str]:
    return [
        "## The same name again",
        "",
        "A cluster is deleted together with its claims, and created again under the same name as",
        "soon as the claims are gone. The DNS of this cluster caches nothing, as kubeadm sets it",
        "up for names of a cluster.",
        "",
        "![seconds from apply to three Ready, same name](benchmarks-again.svg)",
        "",
        *_missed(part),
        *_out_of_reach(part),
    ]


def _out_of_reach(part: Json) -> list[str]:
    """That the target is below the time at which the last etcd of the bare StatefulSet begins."""
    wanted = part["target_ratio"] * part["median"]["bare"]
    scheduled, running = (
        part["phases"]["bare"][f"all pods {at}"] for at in ("scheduled", "runs etcd")
    )
    if wanted >= running:
        return []
    return [
        f"Where DNS caches nothing, no operator could meet it: it would be {wanted:.1f} s, and the",
        f"bare one's last pod has a node after {scheduled:.1f} s, and etcd after {running:.1f} s.",
        "",
    ]


def _again_cached(part: Json) -> list[str]:
    in_start = part["phases"]["ours"]["all pods in start"]
    return [
        "## The same name again, while DNS caches",
        "",
        f"The same, with a DNS that keeps answers for {part['cached_seconds']} s, as the plugin of",
        "CoreDNS does by default. A bare member looks its peers up before their names exist, or",
        "gets the addresses that they had before, and does so until the answer is forgotten.",
        "`start` lets etcd begin only once the pod's own name leads to the pod. All pods waited",
        f"there after {in_start:.1f} s; the rest is what was left of the time for which the old",
        "addresses were kept.",
        "",
        "![seconds from apply to three Ready, same name](benchmarks-again-cached.svg)",
        "",
        *_missed(part),
    ]


def _put_back(part: Json) -> list[str]:
    return [
        "## Put back",
        "",
        "| what was done | median | worst |",
        "|---|---|---|",
        *(
            f"| {what} | {ms(sorted(times)[len(times) // 2])} | {ms(max(times))} |"
            for what, times in part["seconds"].items()
        ),
        "",
    ]


def _settled(part: Json) -> list[str]:
    return [
        "## Settled",
        "",
        f"One cluster of three at rest, for {part['seconds']} seconds: every request of the",
        "operator's service account except watches, counted in the API server's audit log.",
        "",
        "| request | count |",
        "|---|---|",
        *(f"| {words} | {count} |" for words, count in part["by_verb"].items()),
        "",
        f"Of these, {part['lease_requests']} keep the Lease and {part['resync_lists']} are the",
        "resync that serves the whole fleet.",
        "",
    ]


def _memory(part: Json) -> list[str]:
    return [
        "## Memory",
        "",
        "Resident memory of the operator's process after a fresh start:",
        "",
        "| clusters | MiB |",
        "|---|---|",
        *(f"| {count} | {size:.0f} |" for count, size in part["resident_mib_by_clusters"].items()),
        "",
        *_too_large(part),
        "Most of it is imported code. The same interpreter, import by import:",
        "",
        "| after | MiB |",
        "|---|---|",
        *(f"| {what} | {size:.0f} |" for what, size in part["resident_mib_after_imports"].items()),
        "",
    ]


def _too_large(part: Json) -> list[str]:
    size, aim = part["resident_mib_by_clusters"].get("1", 0.0), part["target_mib"]
    return [f"**The aim, {aim} MiB with one cluster, is missed.**", ""] if size > aim else []


def _fleet(part: Json) -> list[str]:
    changes, delay = part["changes"], part["step_delay"]
    moments = list(next(iter(changes.values()))["median"])
    runs = len(next(iter(changes.values()))["seconds"][moments[0]])
    return [
        "## Operator restart with a fleet",
        "",
        f"{part['clusters']} settled clusters of three, without TLS, in a kube-apiserver of their",
        "own. Pods and members are simulated (tests/bench/fleet_pods.py, and etcd_standin.py,",
        "which an integration test compares with the real etcd). The operator is killed without",
        "notice, the last cluster in order of names is changed, and a new process begins as the",
        "same pod, as when the kubelet starts its container again. From the start of that",
        f"process, in seconds, median of {runs} (worst):",
        "",
        f"| changed meanwhile | {' | '.join(moments)} |",
        f"|---|{'---|' * len(moments)}",
        *(f"| {what} | {_with_worst(one, moments)} |" for what, one in changes.items()),
        "",
        "*Decision* is the write that answers the change, as seen by a watch. *Looked at* means",
        "that objects and members have been queried and a step has been decided. All",
        f"{part['clusters']} were created, at once, in {part['created_seconds']:.0f} s.",
        "",
        "Then the client Service of each was deleted, one after the other. From the event to the",
        f"answer to our write, by the operator's own histogram: p50 {ms(delay['p50'])}, p99",
        f"{ms(delay['p99'])}; from the deletion until a watch reported the new one",
        f"{ms(delay['seen_seconds'])} (median).",
        "",
    ]


def _with_worst(one: Json, moments: list[str]) -> str:
    return " | ".join(
        f"{one['median'][moment]:.2f} ({max(one['seconds'][moment]):.2f})" for moment in moments
    )


SECTIONS: dict[str, Callable[[Json], list[str]]] = {
    "creation": _creation,
    "again": _again,
    "again_cached": _again_cached,
    "put_back": _put_back,
    "operations": document_operations.section,
    "settled": _settled,
    "memory": _memory,
    "fleet": _fleet,
    "throughput": document_throughput.section,
}
