"""Section of the final comparison: the best rules and the tuned baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optsmith.report._charts import Scale, at, scale_for
from optsmith.report._history import STATUS
from optsmith.report._html import Content, Markup, code, section, tag
from optsmith.report._rows import Row, grouped, is_rule, name_of, optimizer_of
from optsmith.report._values import (
    MISSING,
    Goal,
    Quantity,
    decimals_for,
    finite,
    fixed,
    plural,
    shortest,
    significant,
)
from optsmith.report._winner import EDGE


def _spread_text(mean: Any, spread: Any, decimals: int) -> Content:
    if finite(mean) is None:
        return MISSING
    around = tag("span", f" ± {fixed(spread, decimals)}", class_="spread")
    return [fixed(mean, decimals), around if finite(spread) is not None else None]


def _pairs(rows: Sequence[Row], quantity: Quantity) -> list[tuple[Any, Any]]:
    """Return mean and spread of one metric per row."""
    found = []
    for row in rows:
        mean, spread = (row.get("metrics") or {}).get(quantity.name) or (None, None)
        found.append((quantity.shown(mean), quantity.shown(spread)))
    return found


def _whisker(mean: float | None, spread: float, x: Scale, ours: bool) -> Markup:
    """Return the mean as a dot and its spread as a line, on the scale of the column."""
    if mean is None:
        return tag("svg", class_="whisker", aria_hidden="true")
    if not x.holds(mean):
        far = "100%" if mean > x.high else "0%"
        return tag("svg", tag("text", "▸" if mean > x.high else "◂", x=far, y="50%", dy="0.35em",
                              class_="end" if mean > x.high else None),
                   class_="whisker", aria_hidden="true")  # fmt: skip
    left, right = x(mean - spread), x(mean + spread)
    return tag(
        "svg",
        tag("line", x1=at(left), x2=at(right), y1="50%", y2="50%"),
        tag("circle", cx=at(x(mean)), cy="50%", r=4),
        class_="whisker ours" if ours else "whisker",
        aria_hidden="true",
    )


def _scale(scores: Sequence[tuple[float | None, float | None]], goal: Goal) -> Scale:
    """Return a scale that resolves the better half; scores that are far worse are outside."""
    known = [(mean, spread or 0.0) for mean, spread in scores if mean is not None]
    means = sorted((mean for mean, _ in known), key=goal.cost)
    if not means:
        return Scale(0.0, 1.0)
    reach = 2.5 * abs(means[len(means) // 2] - means[0]) or math.inf
    near = [(m, s) for m, s in known if abs(m - means[0]) <= reach]
    scale = scale_for([m + side * s for m, s in near for side in (-1, 1)])
    return Scale(scale.low, scale.high)


class _Columns:
    """Properties that all rows share: metrics, decimals, and the scale of the scores."""

    def __init__(self, rows: Sequence[Row], goal: Goal) -> None:
        shown = goal.quantity.shown
        self.goal = goal
        self.scores = [(shown(row["score"]), shown(row["spread"])) for row in rows]
        self.decimals = decimals_for(*zip(*self.scores, strict=True))
        self.metrics = list(dict.fromkeys(m for row in rows for m in row.get("metrics") or {}))
        self.values = {m: _pairs(rows, goal.metric(m)) for m in self.metrics}
        self.metric_decimals = {
            m: decimals_for(*zip(*pairs, strict=True)) if goal.metric(m).factor == 1 else 2
            for m, pairs in self.values.items()
        }
        self.x = _scale(self.scores, goal)
        baselines = [
            mean
            for row, (mean, _) in zip(rows, self.scores, strict=True)
            if not is_rule(row) and mean is not None
        ]
        best = min(baselines, key=goal.cost, default=None)
        self.reference = None if best is None else self.x(best)

    def head(self) -> Markup:
        quantity = self.goal.quantity
        unit = f"{quantity.unit}, " if quantity.unit else ""
        scores = [quantity.name, tag("small", f"{unit}{self.goal.direction}")]
        metrics = [
            tag("th", m, tag("small", self.goal.metric(m).suffix), scope="col", class_="number")
            for m in self.metrics
        ]
        return tag(
            "thead",
            tag(
                "tr",
                tag("th", "optimizer", scope="col", class_="name"),
                tag("th", "schedule", scope="col"),
                tag("th", scores, scope="col", class_="number"),
                tag("td", class_="whiskers"),
                metrics,
                tag("th", "learning rate", scope="col", class_="number"),
                tag("th", "seeds", scope="col", class_="number"),
                tag("th", "step", tag("small", "ms"), scope="col", class_="number"),
                tag("th", "state", tag("small", "bytes per parameter"), scope="col",
                    class_="number"),
            ),
        )  # fmt: skip

    def cells(self, i: int, row: Row) -> list[Content]:
        """Return all cells after the name and the schedule."""
        mean, spread = self.scores[i]
        place = None if self.reference is None else f"--reference:{self.reference}%"
        if row["status"] == "ok":
            score: Content = _spread_text(mean, spread, self.decimals)
        else:
            words = STATUS.get(row["status"], str(row["status"]))
            score = tag("span", words, title=row.get("error") or None, class_="bad")
        edge = tag("abbr", "*", title=EDGE, class_="edge") if row.get("at_edge") else None
        whisker = _whisker(
            mean if row["status"] == "ok" else None, spread or 0.0, self.x, is_rule(row)
        )
        metrics = [
            tag("td", _spread_text(*self.values[m][i], self.metric_decimals[m]), class_="number")
            for m in self.metrics
        ]
        return [
            tag("td", score, class_="number"),
            tag("td", whisker, class_="whiskers", style=place),
            metrics,
            tag("td", _lr(row), edge, class_="number"),
            tag("td", shortest(row.get("n")), class_="number"),
            tag("td", significant(row.get("ms_per_step"), 2), class_="number"),
            tag("td", shortest(row.get("state_bytes")), class_="number"),
        ]


def _lr(row: Row) -> Content:
    """Return the learning rate; a row with a score but no rate is a recipe without one."""
    if row.get("lr") is None and row["status"] == "ok":
        return tag("abbr", "none", title="It has no learning rate.")
    return shortest(row.get("lr"))


def _banner(words: str, columns: int) -> Markup:
    words_in_view = tag("span", words)
    return tag("tr", tag("th", words_in_view, colspan=columns, scope="rowgroup"), class_="banner")


def _line(name: Content, i: int, row: Row, columns: _Columns, class_: str | None) -> Markup:
    return tag(
        "tr",
        tag("th", name, scope="row", class_="name"),
        tag("td", row.get("schedule") or MISSING),
        columns.cells(i, row),
        class_=class_,
    )


def final_table(rows: Sequence[Row], goal: Goal, winner: str = "") -> Markup:
    """Return the table: rules first, then the baselines, grouped by optimizer."""
    columns = _Columns(rows, goal)
    width = 8 + len(columns.metrics)
    rules, baselines = grouped(rows)
    bodies: list[Content] = []
    if rules:
        mark = tag("small", "winner of the search", class_="winner-mark")
        names = [[code(rows[i]["label"]), mark if rows[i]["label"] == winner else None]
                 for i in rules]  # fmt: skip
        lines = [
            _line(name, i, rows[i], columns, "ours") for name, i in zip(names, rules, strict=True)
        ]
        bodies.append(tag("tbody", _banner("Found by this search", width), lines))
    for number, group in enumerate(baselines):
        lines = [
            _line(optimizer_of(rows[i]), i, rows[i], columns, "lesser" if place else None)
            for place, i in enumerate(group)
        ]
        banner = None if number else _banner("Baselines, tuned the same way", width)
        bodies.append(tag("tbody", banner, lines, class_="group"))
    return tag("table", columns.head(), bodies, class_="final")


def final_section(final: Mapping[str, Any], goal: Goal, winner: str = "") -> Markup | None:
    """Return the section of the comparison, or None before the final evaluation."""
    rows = final.get("rows") or []
    if not rows:
        return None
    notes: list[Content] = [tag("p", "Scroll to the right for more columns.", class_="note narrow")]
    if any(row.get("at_edge") for row in rows):
        notes.append(tag("p", tag("span", "*", class_="edge"), f" {EDGE}", class_="note"))
    for row in rows:
        if row.get("error"):
            notes.append(tag("p", name_of(row), ": ", tag("code", row["error"]), class_="note"))
    seeds, steps = final.get("seeds"), final.get("steps")
    lead = "Trained again"
    lead += f" for {plural(steps, 'step', 'steps')}" if steps else ""
    lead += f" on {plural(seeds, 'seed', 'seeds')} that the search did not use" if seeds else ""
    return section(
        "final",
        "Final evaluation" if all(map(is_rule, rows)) else "Comparison with tuned baselines",
        tag(
            "div",
            final_table(rows, goal, winner),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label="Results; scrolls sideways",
        ),
        notes,
        lead=f"{lead}, each with its tuned learning rate: mean ± standard deviation.",
    )
