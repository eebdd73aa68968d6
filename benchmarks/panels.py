"""Line charts with logarithmic axes, side by side, as SVG for light and dark pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDE, HIGH, LEFT, TOP, BOTTOM, GAP = 290, 270, 60, 36, 46, 24
COLOUR, MUTED = "#c2410c", "#888"

Scale = Callable[[float], float]
"""Map from a value to its position in the drawing."""


@dataclass(frozen=True)
class Line:
    """A line of a chart.

    Attributes:
        name: Label at its first point; may be empty.
        points: The points, in order.
        muted: Whether it is the reference that others are compared with.
    """

    name: str
    points: Sequence[tuple[float, float]]
    muted: bool = False


@dataclass(frozen=True)
class Panel:
    """A chart.

    Attributes:
        name: Label of the horizontal axis.
        lines: Lines of the chart.
    """

    name: str
    lines: Sequence[Line]


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Return the charts as SVG, with a common vertical scale."""
    values = [y for panel in panels for line in panel.lines for _, y in line.points]
    low, high = log10(min(values)) - 0.08, log10(max(values)) + 0.08
    width = LEFT + len(panels) * (WIDE + GAP)
    body = "".join(
        _panel(panel, LEFT + i * (WIDE + GAP), low, high, named=i == 0)
        for i, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HIGH + BOTTOM}"'
        f' font-family="sans-serif" font-size="13" fill="#777"><title>{escape(title)}</title>'
        f'<text x="{LEFT}" y="18">{escape(title)}</text>{body}</svg>\n'
    )


def _panel(panel: Panel, left: float, low: float, high: float, *, named: bool) -> str:
    first = min(x for line in panel.lines for x, _ in line.points)
    last = max(x for line in panel.lines for x, _ in line.points)
    right, bottom = left + WIDE, TOP + HIGH

    def across(x: float) -> float:
        return left + 12 + log10(x / first) / log10(last / first) * (WIDE - 24)

    def up(y: float) -> float:
        return bottom - (log10(y) - low) / (high - low) * HIGH

    marks = [m * 10.0**e for e in range(floor(low), ceil(high)) for m in (1, 2, 5)]
    grid = "".join(
        f'<path d="M{left} {up(m):.1f}H{right}" stroke="#8884"/>'
        + (
            f'<text x="{left - 8}" y="{up(m) + 4:.1f}" text-anchor="end">{m:g}</text>'
            if named
            else ""
        )
        for m in marks
        if low <= log10(m) <= high
    )
    names = "".join(
        f'<text x="{across(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>'
        for x in dict.fromkeys(x for line in panel.lines for x, _ in line.points)
    )
    lines = "".join(_line(line, across, up) for line in panel.lines)
    return (
        f'{grid}{names}<text x="{(left + right) / 2}" y="{bottom + 38}" text-anchor="middle">'
        f"{escape(panel.name)}</text>{lines}"
    )


def _line(line: Line, across: Scale, up: Scale) -> str:
    colour = MUTED if line.muted else COLOUR
    places = [(across(x), up(y)) for x, y in line.points]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
    x, y = places[0]
    away = 34 if line.muted else -12
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'
        f'<text x="{x:.0f}" y="{y + away:.0f}" fill="{colour}">{escape(line.name)}</text>'
    )
