"""docs/comparison.md and its plot, from the report, between before.md and after.md."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from plot import bars

Json = dict[str, Any]

HERE = Path(__file__).parent

SIDES = ("ours", "ours-emptydir", "random", "random-fast")
NAMES = {
    "ours": "operator",
    "ours-emptydir": "operator, emptyDir",
    "random": "random names",
    "random-fast": "random names, 1 s loop",
}
COLUMNS = (
    "scenario",
    "side",
    "seconds",
    "longest gap, s",
    "acknowledged writes lost",
    "writes refused",
    "resyncs",
    "copied",
)
HEAD = (f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|")
MIB = 2**20
EVERYWHERE = ("ours", "random", "random-fast")
LOCAL_ONLY = "power cut of a node"
WHOLE_RUNS = 3
QUIET_LOAD = 1.0


def write(report: Json, docs: Path) -> None:
    (docs / "comparison.svg").write_text(bars(times(report), NAMES))
    (docs / "comparison.md").write_text(page(report))


def by_operation(report: Json) -> dict[str, dict[str, list[Json]]]:
    """The results by operation and side, in the order of the scenarios."""
    found: dict[str, dict[str, list[Json]]] = {"create": {}}
    for life in report["lives"]:
        for operation, measured in life["measured"].items():
            found.setdefault(operation, {}).setdefault(life["side"], []).append(measured)
    return {
        operation: {side: sides[side] for side in SIDES if side in sides}
        for operation, sides in found.items()
    }


def times(report: Json) -> dict[str, dict[str, list[float | None]]]:
    """Seconds; None if the cluster was never as declared again."""
    return {
        operation: {side: [one["seconds"] for one in lives] for side, lives in sides.items()}
        for operation, sides in by_operation(report).items()
    }


def page(report: Json) -> str:
    rows = [
        f"| {operation} | {NAMES[side]} | {' | '.join(cells(lives))} |"
        for operation, sides in by_operation(report).items()
        for side, lives in sides.items()
    ]
    before, after = ((HERE / name).read_text() for name in ("before.md", "after.md"))
    table = "\n".join([*HEAD, *rows])
    notes = "\n".join(_notes(report))
    caveats = "\n".join(_caveats(report))
    parts = [before, _place(report), caveats, "![seconds](comparison.svg)", table, notes, after]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def cells(lives: list[Json]) -> list[str]:
    """Medians, with the range if it matters; of losses the worst run."""
    return [
        seconds(lives),
        _middle(lives, "longest_gap", "{:.2f}"),
        lost(lives),
        _middle(lives, "refused", "{:.0f}"),
        _middle(lives, "resyncs", "{:.0f}"),
        _middle(lives, "received", "{:.0f} MiB", MIB),
    ]


def seconds(lives: list[Json]) -> str:
    took = [one["seconds"] for one in lives]
    done = sorted(one for one in took if one is not None)
    if not done:
        return f"never (looked for {max(one['looked_for'] for one in lives):.0f} s)"
    said = f"{median(done):.1f}"
    if len(done) > 1:
        said += f" ({done[0]:.1f} to {done[-1]:.1f})"
    if len(done) < len(took):
        said += f"; never in {len(took) - len(done)} of {len(took)}"
    return said


def lost(lives: list[Json]) -> str:
    """The losses of the worst run."""
    known = [one for one in lives if "lost" in one]
    if not known:
        return ""
    worst = max(known, key=lambda one: (one["lost"], not one["served"]))
    if worst["lost"]:
        return f"**{worst['lost']} of {worst['acknowledged']}**"
    return "0" if worst["served"] else "0, but none is served"


def in_words(measured: Json) -> str:
    """The result of one run, for the terminal."""
    return "  ".join(part for part in (seconds([measured]), *cells([measured])[1:]) if part)


def summary(report: Json) -> str:
    return "\n".join(
        f"{operation:24} {NAMES[side]:24} {seconds(lives)}"
        for operation, sides in by_operation(report).items()
        for side, lives in sides.items()
    )


def _caveats(report: Json) -> list[str]:
    """Limits of these figures, found in the report itself."""
    operations = by_operation(report)
    said = []
    wanted = dict.fromkeys((*operations, LOCAL_ONLY))
    for side in EVERYWHERE:
        absent = [operation for operation in wanted if side not in operations.get(operation, {})]
        if absent:
            words = "no scenario" if len(absent) == len(wanted) else ", ".join(absent)
            said.append(f"- **Not measured**: {NAMES[side]}: {words}.")
    fewest = min(Counter((life["scenario"], life["side"]) for life in report["lives"]).values())
    if fewest < WHOLE_RUNS:
        said.append(
            f"- **Only {fewest} of {WHOLE_RUNS} runs** of some scenarios: no range to judge by."
        )
    if max(life["at"]["load_before"] for life in report["lives"]) > QUIET_LOAD:
        said.append(
            "- **The machine was busy** with other work, not equally for all sides: seconds are "
            "too\n  long, and small differences mean nothing. Losses do not come from that."
        )
    return said


def _notes(report: Json) -> list[str]:
    """Results that have no column."""
    operations = by_operation(report)
    said = [
        f"- First acknowledged write, seconds after the creation: {_firsts(operations['create'])}."
    ]
    for operation, sides in operations.items():
        absent = {side: lives for side, lives in sides.items() if "waited_for_node" in lives[0]}
        if absent:
            said.append(
                f"- {operation}: whole again only once the node was back: {_waited(absent)}."
            )
    said += [f"- Faster than this operator: {words}." for words in _faster(operations)]
    measured = [one for sides in operations.values() for lives in sides.values() for one in lives]
    wrong = sum(one.get("contradictions", 0) for one in measured)
    said.append(f"- Answers that contradict a linearizable store, on all sides together: {wrong}.")
    return said


def _faster(operations: dict[str, dict[str, list[Json]]]) -> list[str]:
    """Operations in which the other approach was faster, with any interval of its loop."""
    found = []
    for side in ("random", "random-fast"):
        quicker = []
        for operation, sides in operations.items():
            ours, theirs = (_median(sides.get(one, [])) for one in ("ours", side))
            if ours and theirs and theirs < ours:
                quicker.append(operation)
        if quicker:
            found.append(f"{NAMES[side]}, in: {', '.join(quicker)}")
    return found


def _median(lives: list[Json]) -> float | None:
    """The median; None if there was no run, or the cluster did not come back in every one."""
    took = [one["seconds"] for one in lives]
    return None if not took or None in took else median(took)


def _firsts(sides: dict[str, list[Json]]) -> str:
    return ", ".join(
        f"{NAMES[side]} {median(one['first_write'] for one in lives):.1f}"
        for side, lives in sides.items()
    )


def _waited(sides: dict[str, list[Json]]) -> str:
    return ", ".join(
        f"{NAMES[side]} {sum(one['waited_for_node'] for one in lives)} of {len(lives)}"
        for side, lives in sides.items()
    )


def _middle(lives: list[Json], key: str, form: str, unit: float = 1) -> str:
    known = [one[key] for one in lives if one.get(key) is not None]
    return form.format(median(known) / unit) if known else ""


def _place(report: Json) -> str:
    at = [life["at"] for life in report["lives"]]
    newest = max(at, key=lambda one: one["date"])
    loads = [one["load_before"] for one in at]
    dates = sorted({one["date"] for one in at})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    return (
        f"{when}, newest commit {newest['commit']}, {newest['cores']} cores for\n"
        f"{newest['nodes']} nodes and everything else, Kubernetes {newest['kubernetes']}, etcd "
        f"3.7.2; load {min(loads):.1f} to {max(loads):.1f}\nbefore the runs."
    )
