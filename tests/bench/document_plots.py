"""The plots of docs/benchmarks.md. No dependency: an SVG is text."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

COLOURS = {
    "ours": "#2563eb",
    "bare": "#9ca3af",
    "tls": "#7c3aed",
    "gated": "#d97706",
    "mounted": "#059669",
}
NAMES = {
    "ours": "operator",
    "bare": "bare StatefulSet",
    "tls": "operator, TLS",
    "gated": "bare, init container",
    "mounted": "bare, image volume",
}
WIDTH, ROW, LEFT, RIGHT = 760, 26, 190, 60


def strip_plot(seconds: Json) -> str:
    """Every run as a dot, the median as a bar."""
    top = max(max(times) for times in seconds.values()) * 1.1
    parts = []
    for row, (side, times) in enumerate(seconds.items()):
        y = 30 + row * 46
        parts.append(_text(LEFT - 12, y + 5, NAMES[side], "end"))
        parts += [
            f'<circle cx="{_x(one, top):.1f}" cy="{y}" r="5" fill="{COLOURS[side]}" '
            'fill-opacity="0.7"/>'
            for one in times
        ]
        middle = _x(sorted(times)[len(times) // 2], top)
        parts.append(f'<rect x="{middle - 1.5:.1f}" y="{y - 14}" width="3" height="28"/>')
    return _svg(30 + len(seconds) * 46 + 26, parts, top)


def phase_plot(both: Json) -> str:
    """One bar per side and phase, up to the time when the last pod had reached the phase."""
    shown = [
        "all pods scheduled",
        "all pods in start",
        "all pods has its ticket",
        "all pods runs etcd",
        "latched (status)",
        "all pods ready",
    ]
    top = max(both[side].get(name, 0) for side in both for name in shown) * 1.1
    parts, y = [], 14
    for name in shown:
        sides = [side for side in COLOURS if name in both.get(side, {})]
        parts.append(_text(LEFT - 12, y + len(sides) * ROW / 4 + 5, name, "end"))
        for side in sides:
            width = _x(both[side][name], top) - LEFT
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="11" fill="{COLOURS[side]}"/>'
            )
            parts.append(_text(LEFT + width + 6, y + 10, f"{both[side][name]:.2f}", "start"))
            y += 13
        y += 10
    return _svg(y + 30, parts, top)


def _x(seconds: float, top: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / top


def _svg(height: float, parts: list[str], top: float) -> str:
    step = next(one for one in (0.5, 1, 2, 5, 10, 20) if top / one <= 10)
    ticks = [step * number for number in range(int(top / step) + 1)]
    axis = [
        f'<line x1="{_x(tick, top):.1f}" y1="4" x2="{_x(tick, top):.1f}" y2="{height - 22}" '
        'stroke="#e5e7eb"/>' + _text(_x(tick, top), height - 6, f"{tick:g} s", "middle")
        for tick in ticks
    ]
    body = "\n".join(axis + parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#111827">{words}</text>'
