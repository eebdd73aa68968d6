"""What the parts of the best rule are worth: a table, and curves of training without them."""

from __future__ import annotations

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
from optsmith.report._evidence import change_text, interval_text
from optsmith.report._html import Content, Markup, code, tag
from optsmith.report._values import MISSING, Goal, finite, finites

Part = Mapping[str, Any]
"""An ablation as plain data."""

DRAWN = 5
"""Maximum number of curves."""

WINDOW = 9
"""Points of a curve over which a moving average is taken."""

FIRST = 0.1
"""Share of the run from which on curves are drawn: before, losses fall too fast to compare."""


def ablation(claim: Mapping[str, Any], goal: Goal) -> list[Content]:
    """Return the best rule without each of its parts: a table and curves; empty if not measured."""
    parts = claim.get("ablation") or []
    if not parts:
        return []
    return [
        tag("h3", "What the parts of the rule are worth"),
        tag("div", _table(parts, goal), class_="scroll", tabindex=0, role="region",
            aria_label="Ablation; scrolls sideways"),
        tag("p", "The rule that the search found, without one part at a time, or with a constant "
            "instead (→), on selection seeds.", class_="note"),
        _figure(parts, goal),
    ]  # fmt: skip


def _table(parts: Sequence[Part], goal: Goal) -> Markup:
    unit = goal.quantity.unit
    rows = [
        tag(
            "tr",
            tag("th", code(part["without"]), scope="row"),
            tag("td", change_text(part["paired"], unit), class_="number"),
            tag("td", interval_text(part["paired"], unit) or MISSING, class_="number spread"),
            tag("td", "makes no difference: removed" if part.get("removed") else "kept"),
        )
        for part in parts
    ]
    heads = [
        tag("th", "without", scope="col"),
        tag("th", goal.quantity.name, tag("small", goal.direction), scope="col", class_="number"),
        tag("th", "95 % interval", scope="col", class_="number"),
        tag("th", "", scope="col"),
    ]
    return tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="lines")


def _figure(parts: Sequence[Part], goal: Goal) -> Content:
    """Return the training signal without the parts that matter most, relative to the rule's."""
    drawn = most_important(parts, goal)
    curves = [relative(part, goal) for part in drawn]
    values = [0.0, *(value for points in curves for _, value in points)]
    steps = [step for points in curves for step, _ in points]
    if not steps:
        return None
    x, y = Scale(min(steps), max(steps)), scale_for(values)
    styles = [f"series s{i}" for i in range(len(drawn))]
    lines = [
        line([(x(step), y(value)) for step, value in points], style)
        for points, style in zip(curves, styles, strict=True)
    ]
    names = [f"without {part['without']}" for part in drawn]
    keys = [
        tag("li", line_key(style), code(part["without"]))
        for style, part in zip(styles, drawn, strict=True)
    ]
    unit = "points" if goal.quantity.unit == "%" else "%"
    return chart(
        "ablation-chart",
        "Training without parts of the rule",
        "The signal relative to that of the whole rule: " + "; ".join(names) + ".",
        y_axis(y, f"training signal relative to the whole rule, {unit}"),
        x_axis(x, "step", x.ticks()),
        stretched(line([(0, y(0)), (100, y(0))], "ours"), *lines),
        after=[
            tag("ul", tag("li", line_key("ours"), "the whole rule"), keys, class_="legend"),
            values_block(list(zip(names, curves, strict=True)), x),
        ],
    )


def most_important(parts: Sequence[Part], goal: Goal) -> list[Part]:
    """Return the parts with curves without which the score is worst, the most important first."""
    usable = [
        part
        for part in parts
        if finite(part["paired"].get("change")) is not None and relative(part, goal)
    ]
    worst_first = sorted(usable, key=lambda part: -goal.cost(part["paired"]["change"]))
    return worst_first[:DRAWN]


def relative(part: Part, goal: Goal) -> Points:
    """Return steps, and moving averages of the signal without a part relative to the rule's.

    In percent, or in points for fractions.
    """
    points = [tuple(finites(point)) for point in part.get("curve") or []]
    usable = [point for point in points if len(point) == 3]
    last = max((step for step, _, _ in usable), default=0.0)
    drawn = [point for point in usable if point[0] >= FIRST * last]
    found = []
    for i, (step, _, _) in enumerate(drawn):
        reach = min(i, len(drawn) - 1 - i, WINDOW // 2)  # fewer at the ends
        near = drawn[i - reach : i + reach + 1]
        without, whole = (sum(point[k] for point in near) / len(near) for k in (1, 2))
        if goal.quantity.unit == "%":
            found.append((step, 100 * (without - whole)))
        elif whole > 0:
            found.append((step, 100 * (without / whole - 1)))
    return found if len(found) > 1 else []
