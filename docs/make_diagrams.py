"""Draws the pictures of docs/ that show no measurement. No dependency: an SVG is text.

`--check` writes nothing and fails when a file on disk is another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parent
INK, FAINT, OURS, DATA, CORE = "#1f2937", "#9ca3af", "#dbeafe", "#dcfce7", "#fef3c7"
WIDTH: Final = 820


def text(x: float, y: float, words: str, *, anchor: str = "middle", size: int = 13) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, *lines: str, fill: str = "#fff") -> str:
    """The first line says what it is, smaller ones below what of it matters."""
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" '
    shape += f'stroke="{INK}"/>'
    first = y + height / 2 + 5 - 8 * (len(lines) - 1)
    words = (
        text(x + width / 2, first + 16 * row, line, size=11 if row else 13)
        for row, line in enumerate(lines)
    )
    return shape + "".join(words)


def arrow(x1: float, y1: float, x2: float, y2: float, words: str = "") -> str:
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" marker-end="url(#tip)"/>'
    return line + (text((x1 + x2) / 2, min(y1, y2) - 6, words, size=12) if words else "")


def drawing(height: int, parts: Iterator[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        f'<path d="M0,0 L9,4 L0,8 z" fill="{INK}"/></marker></defs>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def objects() -> Iterator[str]:
    """What one EtcdCluster becomes."""
    yield box(20, 20, 170, 54, "EtcdCluster", "size, version, TLS", fill="#fef3c7")
    yield arrow(190, 47, 268, 47, "watches")
    yield box(270, 20, 170, 54, "operator", "one step per pass", fill=OURS)
    yield arrow(355, 74, 355, 118)
    beside = (
        ("StatefulSet", "Parallel, OnDelete"),
        ("Services", "headless, client"),
        ("Secrets", "record, key, certificates"),
        ("disruption budget", "a quorum of its voters"),
        ("NetworkPolicy", "peers, tickets, clients"),
    )
    for column, lines in enumerate(beside):
        yield box(20 + 158 * column, 120, 148, 50, *lines)
    yield arrow(94, 170, 94, 208)
    for ordinal in range(3):
        x = 20 + 265 * ordinal
        yield box(x, 210, 250, 30, f"pod NAME-{ordinal}", fill="#f3f4f6")
        yield box(x, 240, 110, 50, "start", "init container", fill=OURS)
        yield box(x + 140, 240, 110, 50, "etcd", "its own image")
        yield arrow(x + 110, 265, x + 138, 265)
        yield arrow(x + 125, 290, x + 125, 328)
        yield box(
            x, 330, 250, 46, f"claim data-NAME-{ordinal}", "record: member, etcd cluster", fill=DATA
        )
    yield text(
        WIDTH / 2,
        404,
        "A claim belongs to no one: it outlives pod, StatefulSet, EtcdCluster, operator.",
    )


LANES: Final = {"volume": 90, "start": 290, "operator": 520, "API server": 730}


def start_ticket() -> Iterator[str]:
    """What comes before etcd in each pod, from top to bottom."""
    for name, x in LANES.items():
        fill = DATA if name == "volume" else OURS if name in ("start", "operator") else "#fff"
        yield f'<line x1="{x}" y1="50" x2="{x}" y2="478" stroke="{FAINT}" stroke-dasharray="4 4"/>'
        yield box(x - 60, 16, 120, 34, name, fill=fill)
    volume, start, operator, api = LANES.values()
    yield arrow(start, 86, volume, 86, "looks")
    yield box(30, 102, 330, 40, "this member's log: etcd runs, nobody is asked", fill=DATA)
    yield text(30, 174, "anything else: it waits", anchor="start")
    yield arrow(operator, 196, start, 196, "who are you?")
    yield arrow(start, 230, operator, 230, "challenge, and what is there")
    yield box(operator - 95, 246, 190, 36, "may it be this member?")
    yield arrow(operator, 312, api, 312, "ledger: one ticket per ID")
    yield arrow(operator, 346, api, 346, "record on the claim")
    yield arrow(operator, 382, start, 382, "ticket for that challenge")
    yield arrow(start, 416, volume, 416, "marker, configuration")
    yield arrow(start, 450, operator, 450, "receipt")
    yield text(start, 500, "etcd starts: new, or as a learner of those that are there")


def architecture() -> Iterator[str]:
    """What runs where, and who speaks to whom. Blue is our image."""
    yield box(20, 16, 780, 40, "API server", "custom resources, and the objects made from them")
    yield box(20, 110, 500, 140, fill=OURS)
    yield text(270, 130, "operator: one pass over one object")
    steps = (
        ("queue", "which object"),
        ("observe", "store, start, etcd"),
        ("decide", "the core: pure"),
        ("apply", "one step"),
    )
    for column, lines in enumerate(steps):
        yield box(34 + 124 * column, 146, 102, 54, *lines, fill=CORE if column == 2 else "#fff")
        if column:
            yield arrow(12 + 124 * column, 173, 32 + 124 * column, 173)
    yield text(270, 230, "then status, Events, log; nothing is remembered", size=11)
    yield arrow(85, 56, 85, 144)
    yield text(93, 90, "watches", anchor="start", size=12)
    yield arrow(457, 146, 457, 58)
    yield text(465, 90, "one write", anchor="start", size=12)
    yield box(580, 110, 220, 140, fill="#f3f4f6")
    yield text(690, 130, "pod of a member")
    yield box(592, 146, 90, 54, "start", "init container", fill=OURS)
    yield box(706, 146, 82, 54, "etcd", "own image")
    yield arrow(682, 173, 704, 173)
    yield text(690, 230, "no rights in Kubernetes", size=11)
    yield arrow(520, 220, 578, 220)
    yield text(549, 212, "asks,", size=11)
    yield text(549, 236, "tickets", size=11)
    yield arrow(690, 250, 690, 298)
    yield box(580, 300, 220, 54, "claim", "the member's data, and a record", fill=DATA)
    yield arrow(270, 250, 270, 298)
    yield text(278, 279, "makes them, and reads how they ended", anchor="start", size=12)
    yield box(20, 300, 500, 54, "Jobs", "backup, trial restore, restore, recovery", fill=OURS)
    yield arrow(520, 327, 578, 327, "fill")
    yield arrow(270, 354, 270, 396)
    yield box(20, 398, 500, 34, "object store, or a volume for backups", fill=DATA)
    yield text(690, 419, "blue: the operator's image", size=11)


def quorum_lost() -> Iterator[str]:
    """What to do without a quorum, as questions from top to bottom; what is lost is below each."""
    yield box(280, 16, 260, 46, "no quorum: nobody is served", "delete no claim", fill=CORE)
    yield arrow(410, 62, 410, 96)
    yield box(240, 98, 340, 46, "can a majority of the volumes come back?", "with a node, a zone")
    yield arrow(240, 121, 172, 121, "yes")
    yield box(20, 98, 150, 46, "bring them back", "nothing is lost", fill=DATA)
    yield arrow(410, 144, 410, 182)
    yield text(420, 168, "no, they are lost for good", anchor="start", size=12)
    yield box(240, 184, 340, 46, "which data is better?", "the operator does not choose")
    yield arrow(320, 230, 210, 270)
    yield arrow(500, 230, 610, 270)
    survivor = ("that of a surviving member: spec.recovery", "lost: what only the others had")
    yield box(60, 272, 300, 46, *survivor, fill=DATA)
    backup = ("that of a backup: EtcdRestore in place", "lost: what was written since")
    yield box(460, 272, 300, 46, *backup, fill=DATA)


DRAWINGS: Final = {
    "architecture.svg": lambda: drawing(448, architecture()),
    "objects.svg": lambda: drawing(424, objects()),
    "quorum-lost.svg": lambda: drawing(334, quorum_lost()),
    "start-ticket.svg": lambda: drawing(520, start_ticket()),
}


def main() -> int:
    stale = []
    for name, draw in DRAWINGS.items():
        path, drawn = DOCS / name, draw()
        if path.exists() and path.read_text() == drawn:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(drawn)
    if stale and "--check" in sys.argv:
        print(f"docs/{', docs/'.join(stale)}: run `make diagrams`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
