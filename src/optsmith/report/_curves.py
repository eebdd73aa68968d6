"""Section of the learning curves: the winner, and each opponent with its best schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optsmith.report._charts import (
    Points,
    Scale,
    chart,
    line,
    line_key,
    scale_for,
    stretched,
    values_block,
    x_axis,
    y_axis,
)
from optsmith.report._html import Markup, section, tag
from optsmith.report._rows import Row, brief_name_of, grouped, is_rule
from optsmith.report._values import finite

PALETTE = 6
"""Number of line styles for opponents in the style sheet; they repeat after that."""


def drawn_rows(rows: Sequence[Row], winner: str = "") -> list[Row]:
    """Return the winner (or the best rule), and each opponent with its best schedule.

    Args:
        rows: The final comparison, best first.
        winner: The text of the winning rule.
    """
    usable = [row for row in rows if row["status"] == "ok" and len(_points(row)) > 1]
    rules, baselines = grouped(usable)
    rules.sort(key=lambda i: usable[i]["label"] != winner)
    return [usable[i] for i in [*rules[:1], *(group[0] for group in baselines)]]


def _points(row: Row) -> Points:
    return [
        (float(step), float(value))
        for step, value in row.get("curve") or []
        if finite(step) is not None and finite(value) is not None
    ]


def _styles(rows: Sequence[Row]) -> list[str]:
    numbers = iter(range(len(rows)))
    return ["ours" if is_rule(row) else f"series s{next(numbers) % PALETTE}" for row in rows]


def curves_section(final: Mapping[str, Any], winner: str = "") -> Markup | None:
    """Return the section of the learning curves, or None if there are no curves."""
    rows = drawn_rows(final.get("rows") or [], winner)
    if not rows:
        return None
    curves = [_points(row) for row in rows]
    values = [value for points in curves for _, value in points]
    steps = [step for points in curves for step, _ in points]
    # For a decreasing signal, such as a loss, a log scale shows differences near the end.
    falling = sum(points[-1][1] < points[0][1] for points in curves) > len(curves) / 2
    y = scale_for(values, 8 if falling else math.inf)
    x = Scale(min(0.0, *steps), max(1.0, *steps))
    styles = _styles(rows)
    lines = [
        line([(x(step), y(value)) for step, value in points], style)
        for points, style in zip(curves, styles, strict=True)
    ]
    keys = [
        tag("li", line_key(style), brief_name_of(row))
        for row, style in zip(rows, styles, strict=True)
    ]
    named = list(zip(map(brief_name_of, rows), curves, strict=True))
    drawing = chart(
        "curves-chart",
        "Learning curves",
        "The training signal of " + "; ".join(map(brief_name_of, rows)) + ".",
        y_axis(y, "training signal"),
        x_axis(x, "step", x.ticks()),
        # The winner is drawn last, on top of the others.
        stretched(reversed(lines)),
        after=[
            tag("ul", keys, class_="legend"),
            values_block(named, x),
        ],
    )
    return section(
        "curves",
        "Learning curves",
        drawing,
        lead="Mean over the seeds, for the winner and for each opponent with its best schedule.",
    )
