"""The chart of score against length, and the rules that no shorter rule beats."""

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
from optsmith.report._values import Objective, finite

GOLDEN = 0.618034


def front(entries: Sequence[Entry], objective: Objective) -> list[Entry]:
    """Return the rules that are better than every rule as short, shortest first."""

    def key(entry: Entry) -> tuple[Any, float, Any]:
        return entry["length"], objective.cost(entry["score"]), entry["n"]

    return improvements(sorted(entries, key=key), objective)


def _rows(best: Sequence[Entry], objective: Objective) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", str(entry["length"]), class_="number"),
            tag("td", objective.quantity.text(entry["score"]), class_="number"),
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
        tag("caption", "On the front"),
        tag("thead", tag("tr", heads)),
        tag("tbody", rows),
        class_="front",
    )


def front_section(history: Sequence[Entry], objective: Objective) -> Markup | None:
    """Return the length-against-score front, or None without an accepted rule."""
    entries = [e for e in accepted(history) if finite(e.get("length")) is not None]
    if not entries:
        return None
    best = front(entries, objective)
    on_front = {entry["n"] for entry in best}
    shown = objective.quantity.shown
    y = scale_for([shown(e["score"]) or 0.0 for e in entries], 5 if objective.minimize else 100)
    lengths = [entry["length"] for entry in entries]
    x = Scale(min(lengths) - 0.6, max(lengths) + 0.6)
    radius = radius_for(len(entries))
    marks: list[Content] = []
    for i, entry in enumerate(entries):
        if entry["n"] not in on_front:
            # Many rules share a length: moved a little aside, always the same way, they show.
            aside = 0.6 * ((i * GOLDEN) % 1 - 0.5)
            place = x(entry["length"] + aside), y(shown(entry["score"]) or 0.0)
            marks.append(dot(*place, tip(entry, objective), radius))
    places = [(x(e["length"]), y(shown(e["score"]) or 0.0)) for e in best]
    marks.append(stretched(stair(places, 100.0, "best")))
    for place, entry in zip(places, best, strict=True):
        marks.append(dot(*place, tip(entry, objective), radius + 1.5, "dot record"))
    ticks = [tick for tick in x.ticks(12) if tick == int(tick)]
    drawing = chart(
        "front-chart",
        "Score against length",
        f"The front goes from length {best[0]['length']} to length {best[-1]['length']}.",
        y_axis(y, objective.axis()),
        x_axis(x, "length: operators in the rule", ticks),
        marks,
    )
    return section(
        "front",
        "What length buys",
        tag("div", drawing, tag("div", _rows(best, objective), class_="scroll"), class_="pair"),
        lead="Each accepted rule by its length. The line joins the rules that no rule as short or "
        "shorter beats.",
    )
