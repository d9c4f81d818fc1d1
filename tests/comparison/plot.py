"""The plot: one bar for each operation and side, at the median, with every run as a dot."""

from __future__ import annotations

from html import escape
from statistics import median

Times = dict[str, dict[str, list[float | None]]]

COLOURS = {
    "ours": "#2563eb",
    "ours-emptydir": "#93c5fd",
    "random": "#b45309",
    "random-fast": "#fcd34d",
}
WIDTH, LEFT, RIGHT = 760, 170, 90
BAR, BETWEEN, LEGEND = 13, 12, 30


def bars(times: Times, names: dict[str, str]) -> str:
    known = [one for sides in times.values() for each in sides.values() for one in each if one]
    top = max(known, default=1.0) * 1.05
    parts, y = _legend(names), float(LEGEND)
    for operation, sides in times.items():
        parts.append(_text(LEFT - 12, y + len(sides) * BAR / 2 + 4, operation, "end"))
        for side, each in sides.items():
            parts += _bar(side, each, y, top)
            y += BAR
        y += BETWEEN
    return _svg(y + 24, parts, top)


def _bar(side: str, each: list[float | None], y: float, top: float) -> list[str]:
    done = [one for one in each if one is not None]
    if not done:
        width = WIDTH - RIGHT - LEFT
        return [_rect(LEFT, y, width, COLOURS[side], 0.25), _text(LEFT + 6, y + 10, "never")]
    width = _x(median(done), top) - LEFT
    dots = [
        f'<circle cx="{_x(one, top):.1f}" cy="{y + BAR / 2 - 1:.1f}" r="2" fill="#111827"/>'
        for one in done
    ]
    label = f"{median(done):.1f} s"
    furthest = _x(max(done), top)
    return [_rect(LEFT, y, width, COLOURS[side]), *dots, _text(furthest + 8, y + 10, label)]


def _legend(names: dict[str, str]) -> list[str]:
    parts = []
    for place, (side, name) in enumerate(names.items()):
        x = 20 + place * 180
        parts += [_rect(x, 6, 11, COLOURS[side]), _text(x + 17, 16, name)]
    return parts


def _x(seconds: float, top: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / top


def _rect(x: float, y: float, width: float, colour: str, opacity: float = 1) -> str:
    return (
        f'<rect x="{x}" y="{y:.0f}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}" '
        f'fill-opacity="{opacity:g}"/>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(height: float, parts: list[str], top: float) -> str:
    step = next(one for one in (0.5, 1, 2, 5, 10, 20) if top / one <= 10)
    ticks = [step * number for number in range(int(top / step) + 1)]
    axis = [
        f'<line x1="{_x(tick, top):.1f}" y1="{LEGEND - 6}" x2="{_x(tick, top):.1f}" '
        f'y2="{height - 20:.0f}" stroke="#e5e7eb"/>'
        + _text(_x(tick, top), height - 6, f"{tick:g} s", "middle")
        for tick in ticks
    ]
    body = "\n".join(axis + parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'font-family="sans-serif" font-size="12" fill="#111827">\n'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )
