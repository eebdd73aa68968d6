"""Line charts as SVG that stands alone: without a script, in a notebook or as a file.

Text and axes have the colour of their surroundings, and the colours of the lines can be seen on
light and on dark backgrounds, because a notebook does not say which it has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from optsmith.report._charts import Scale, line, scale_for, stair, stretched, x_axis, y_axis
from optsmith.report._html import Content, Markup, tag

WIDTH, HEIGHT = 720, 270
LEFT, TOP, RIGHT, BOTTOM, ROW = 56, 28, 16, 52, 18
STYLES = 6
"""Number of line styles besides the first one; they repeat after that."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Attributes:
        name: Its name in the legend.
        points: Its points; coordinates are finite.
        low: Lower border of a band around it; empty: no band.
        high: Upper border.
    """

    name: str
    points: Points
    low: Points = ()
    high: Points = ()


def style_sheet(name: str) -> Markup:
    """Return a style sheet of the package as an element."""
    text = files("optsmith.report").joinpath(name).read_text(encoding="utf-8")
    return tag("style", Markup(text))


def style_of(index: int) -> str:
    """Return the CSS class of a line; the first one is the most visible."""
    return "ours" if index == 0 else f"s{(index - 1) % STYLES}"


def line_chart(
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    *,
    steps: bool = False,
    ratio_for_log: float = math.inf,
) -> Markup:
    """Return a chart of at least one line with a legend below it.

    Args:
        series: The lines; the first one is drawn on top of the others.
        x_title: Title of the x axis.
        y_title: Title of the y axis.
        steps: Whether values are constant until the next point.
        ratio_for_log: Ratio of the largest to the smallest value from which the y axis is
            logarithmic.
    """
    every = [point for s in series for point in (*s.points, *s.low, *s.high)]
    y = scale_for([value for _, value in every], ratio_for_log)
    last = max(place for place, _ in every)
    x = Scale(min(0.0, *(place for place, _ in every)), last if last > 0 else 1.0)
    marks: list[Content] = []
    for i, s in reversed(list(enumerate(series))):
        places = [(x(a), y(b)) for a, b in s.points]
        if s.low:
            marks.append(_area(s, x, y, f"area {style_of(i)}"))
        css = f"curve {style_of(i)}"
        marks.append(stair(places, places[-1][0], css) if steps else line(places, css))
    plot = tag(
        "svg",
        y_axis(y, y_title),
        x_axis(x, x_title, x.ticks()),
        stretched(marks),
        x=LEFT,
        y=TOP,
        width=WIDTH - LEFT - RIGHT,
        height=HEIGHT - TOP - BOTTOM,
        overflow="visible",
    )
    height = HEIGHT + ROW * len(series)
    return tag(
        "svg",
        style_sheet("figure.css"),
        plot,
        [_key(i, s.name) for i, s in enumerate(series)],
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        style=f"width:100%;min-width:{WIDTH * 2 // 3}px;max-width:{WIDTH}px;height:auto",
        class_="optsmith-figure",
        role="img",
        aria_label=f"{y_title} over {x_title}: {', '.join(s.name for s in series)}",
    )


def _area(series: Series, x: Scale, y: Scale, class_: str) -> Markup:
    """Return the band of a line whose values are constant until the next point."""
    lower, upper = ([(x(a), y(b)) for a, b in side] for side in (series.low, series.high))
    return line([*_corners(lower), *reversed(_corners(upper))], class_)


def _corners(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    corners = [points[0]]
    for a, b in points[1:]:
        corners += [(a, corners[-1][1]), (a, b)]
    return corners


def _key(index: int, name: str) -> list[Content]:
    y = HEIGHT + ROW * index
    css = f"curve {style_of(index)}"
    return [
        tag("line", x1=LEFT, x2=LEFT + 28, y1=y, y2=y, class_=css),
        tag("text", name, x=LEFT + 36, y=y, dy="0.32em"),
    ]
