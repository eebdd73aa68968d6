"""Section of the Pareto front of score and length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optsmith.report._charts import (
    Scale,
    chart,
    dot,
    scale_for,
    stair,
    stretched,
    x_axis,
    y_axis,
)
from optsmith.report._history import Entry, accepted, improvements, radius_for, tip
from optsmith.report._html import Content, Markup, code, section, tag
from optsmith.report._values import Goal, finite

GOLDEN = 0.618034


def front(entries: Sequence[Entry], goal: Goal) -> list[Entry]:
    """Return the rules that are better than every rule as short or shorter, shortest first."""

    def key(entry: Entry) -> tuple[Any, float, Any]:
        return entry["length"], goal.cost(entry["score"]), entry["n"]

    return improvements(sorted(entries, key=key), goal)


def _rows(best: Sequence[Entry], goal: Goal) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", str(entry["length"]), class_="number"),
            tag("td", goal.quantity.text(entry["score"]), class_="number"),
            tag("td", code(entry["rule"]), class_="rule"),
        )
        for entry in best
    ]
    heads = [
        tag("th", "length", scope="col", class_="number"),
        tag("th", "score", scope="col", class_="number"),
        tag("th", "rule", scope="col"),
    ]
    return tag(
        "table",
        tag("caption", "Rules on the front"),
        tag("thead", tag("tr", heads)),
        tag("tbody", rows),
        class_="front",
    )


def front_section(history: Sequence[Entry], goal: Goal) -> Markup | None:
    """Return the section of the Pareto front, or None if no rule was accepted."""
    entries = [e for e in accepted(history) if finite(e.get("length")) is not None]
    if not entries:
        return None
    best = front(entries, goal)
    on_front = {entry["n"] for entry in best}
    shown = goal.quantity.shown
    y = scale_for([shown(e["score"]) or 0.0 for e in entries], 5 if goal.minimize else 100)
    lengths = [entry["length"] for entry in entries]
    x = Scale(min(lengths) - 0.6, max(lengths) + 0.6)
    radius = radius_for(len(entries))
    marks: list[Content] = []
    for i, entry in enumerate(entries):
        if entry["n"] not in on_front:
            # Deterministic jitter, because many rules have the same length.
            aside = 0.6 * ((i * GOLDEN) % 1 - 0.5)
            place = x(entry["length"] + aside), y(shown(entry["score"]) or 0.0)
            marks.append(dot(*place, tip(entry, goal), radius))
    places = [(x(e["length"]), y(shown(e["score"]) or 0.0)) for e in best]
    marks.append(stretched(stair(places, 100.0, "best")))
    for place, entry in zip(places, best, strict=True):
        marks.append(dot(*place, tip(entry, goal), radius + 1.5, "dot record"))
    ticks = [tick for tick in x.ticks(12) if tick == int(tick)]
    drawing = chart(
        "front-chart",
        "Score against length",
        f"The front ranges from length {best[0]['length']} to length {best[-1]['length']}.",
        y_axis(y, goal.axis()),
        x_axis(x, "length: operators in the rule", ticks),
        marks,
    )
    return section(
        "front",
        "Score against length",
        tag("div", drawing, tag("div", _rows(best, goal), class_="scroll"), class_="pair"),
        lead="Each accepted rule by its length. The line connects the Pareto front: the rules that "
        "no rule of the same length or shorter beats.",
    )
