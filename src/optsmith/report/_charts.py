"""Responsive SVG charts: scales, axes and marks.

Positions are in percent of the plot, sizes in pixels, so a chart fills any width while text and
dots keep their size, without a script. Only lines through many points need a nested SVG that is
stretched, with strokes that do not scale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from optsmith.report._html import Content, Markup, tag
from optsmith.report._values import count, shortest, significant

Points = list[tuple[float, float]]
"""The points of a curve."""

RUG = 9
"""Height in pixels of a tick at the border of the plot."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A map from values to percent of the plot.

    Attributes:
        low: The value at one end.
        high: The value at the other end; above `low`.
        log: Whether the scale is logarithmic.
        upward: Whether it is a y axis, with large values at the top, near 0 %.
    """

    low: float
    high: float
    log: bool = False
    upward: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value; values outside the range are clamped."""
        value = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = 100 * (value - low) / (high - low)
        return round(100 - share if self.upward else share, 2)

    def holds(self, value: float) -> bool:
        """Return whether a value is within the range."""
        return self.low <= value <= self.high

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values within the range, about `most` at most."""
        if self.log:
            for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
                found = self._powers(digits, 1)
                if 3 <= len(found) <= most:
                    return found
            decades = math.log10(self.high / self.low)
            if decades > 2:
                return self._powers((1,), math.ceil(decades / most))
        return self._multiples(most)

    def _powers(self, digits: Sequence[int], every: int) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        found = [d * 10.0**e for e in range(first, last + 1) if e % every == 0 for d in digits]
        return [value for value in found if self.holds(value)]

    def _multiples(self, most: int) -> list[float]:
        step = round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def round_step(least: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * d for d in (1, 2, 5, 10) if power * d >= least * (1 - 1e-9))


def scale_for(values: Iterable[float], ratio_for_log: float = math.inf) -> Scale:
    """Return a y scale for the values, with some padding.

    Args:
        values: At least one finite number.
        ratio_for_log: Ratio of the largest to the smallest value from which the scale is
            logarithmic, if all values are positive.
    """
    values = list(values)
    low, high = min(values), max(values)
    if low > 0 and high / low >= ratio_for_log:
        air = (high / low) ** 0.06
        return Scale(low / air, high * air, log=True, upward=True)
    air = 0.06 * (high - low) or 0.1 * abs(low) or 1.0
    return Scale(low - air, high + air, upward=True)


def tick_labels(ticks: Sequence[float], log: bool) -> list[str]:
    """Return one label per tick; on linear axes, with the decimals of the step."""
    if log:
        return [shortest(tick) for tick in ticks]
    if all(tick == int(tick) and abs(tick) < 1e5 for tick in ticks):
        return [count(tick) for tick in ticks]
    step = min((b - a for a, b in pairwise(ticks)), default=0.0)
    largest = max(map(abs, ticks), default=0.0)
    if not step or largest >= 1e5 or largest / step > 1e3 or step < 1e-4:
        return [significant(tick, 2) if tick else "0" for tick in ticks]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{tick:,.{decimals}f}".replace("-", "\N{MINUS SIGN}") for tick in ticks]


def at(percent: float) -> str:
    """Return a position as an SVG attribute."""
    return f"{percent:g}%"


def y_axis(scale: Scale, title: str) -> Markup:
    """Return the grid lines with their labels, and the title above them."""
    ticks = scale.ticks()
    parts: list[Content] = []
    for tick, label in zip(ticks, tick_labels(ticks, scale.log), strict=True):
        y = at(scale(tick))
        parts.append(tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label, x=-8, y=y, dy="0.32em", class_="tick end"))
    hint = " · log scale" if scale.log else ""
    parts.append(tag("text", title + hint, x=0, y=0, class_="axis above"))
    return tag("g", parts)


def x_axis(scale: Scale, title: str, ticks: Sequence[float]) -> Markup:
    """Return the base line with labels below it, and the title at its end."""
    parts: list[Content] = [tag("line", x1=0, x2="100%", y1="100%", y2="100%", class_="base")]
    for tick, label in zip(ticks, tick_labels(ticks, scale.log), strict=True):
        x = at(scale(tick))
        parts.append(tag("text", label, x=x, y="100%", dy=18, class_="tick middle"))
    parts.append(tag("text", title, x="100%", y="100%", dy=36, class_="axis end"))
    return tag("g", parts)


def dot(x: float, y: float, tip: str, radius: float = 3.5, class_: str = "dot") -> Markup:
    """Return a dot with a tooltip."""
    return tag("circle", tag("title", tip), cx=at(x), cy=at(y), r=radius, class_=class_)


def border_tick(x: float, at_top: bool, tip: str) -> Markup:
    """Return a tick at the border of the plot, for an item without a position inside it."""
    return tag(
        "rect",
        tag("title", tip),
        x=at(x),
        y="0" if at_top else "100%",
        width=2,
        height=RUG,
        transform=f"translate(-1 {0 if at_top else -RUG})",
        class_="rug",
    )


def line(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Return a line through positions of the plot."""
    path = "".join(f"{'L' if i else 'M'}{x:g} {y:g}" for i, (x, y) in enumerate(points))
    return tag("path", d=path, class_=class_, vector_effect="non-scaling-stroke")


def stair(points: Sequence[tuple[float, float]], until: float, class_: str) -> Markup:
    """Return a step line through positions of the plot, extended to `until`."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return line([*corners, (until, corners[-1][1])], class_)


def line_key(class_: str) -> Markup:
    """Return a sample of a line for a legend."""
    piece = tag("line", x1=0, x2="100%", y1="50%", y2="50%", class_=class_)
    return tag("svg", piece, class_="key-line", aria_hidden="true")


def values_block(series: Sequence[tuple[str, Points]], x: Scale) -> Markup:
    """Return the data of a line chart's tooltips, as JSON that a browser does not execute."""
    data = [
        {"name": name, "points": [(x(s), s, float(f"{v:.4g}")) for s, v in points]}
        for name, points in series
    ]
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(f'<script type="application/json">{text}</script>')


def stretched(*content: Content) -> Markup:
    """Return lines stretched to fill the plot."""
    return tag(
        "svg", content, viewBox="0 0 100 100", preserveAspectRatio="none", class_="stretched"
    )


def chart(
    anchor: str,
    title: str,
    description: str,
    *marks: Content,
    after: Content = None,
    kind: str = "",
) -> Markup:
    """Return a figure: a plot that can have the keyboard focus, and the content after it.

    Args:
        anchor: Id of the figure.
        title: Title of the figure.
        description: Text alternative for screen readers.
        marks: Content of the plot.
        after: Content after the plot, such as legends.
        kind: CSS classes of the figure; `labelled` leaves room for labels around the plot.
    """
    drawing = tag(
        "svg",
        tag("title", title, id=f"{anchor}-name"),
        tag("desc", description, id=f"{anchor}-text"),
        marks,
        role="img",
        aria_labelledby=f"{anchor}-name {anchor}-text",
    )
    plot = tag(
        "div",
        drawing,
        class_="plot",
        role="group",
        tabindex=0,
        aria_label=f"{title}; use the arrow keys to move between points",
    )
    return tag("figure", plot, after, class_=f"chart {kind}".strip(), id=anchor)
