"""Section of the final comparison: the best rules and the tuned opponents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optsmith.report._differences import differences
from optsmith.report._evidence import change_text, interval_text
from optsmith.report._history import STATUS
from optsmith.report._html import Content, Markup, code, section, tag
from optsmith.report._raced import raced_list
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
        self.compared = any(row.get("change") for row in rows)

    @property
    def many(self) -> int:
        """Number of columns."""
        return 7 + len(self.metrics) + (2 if self.compared else 0)

    def _changes(self, row: Row) -> list[Content]:
        """Return the change against the best opponent, and its interval."""
        if not self.compared:
            return []
        paired = row.get("change")
        return [
            tag("td", change_text(paired, self.goal.quantity.unit), class_="number"),
            tag("td", interval_text(paired, self.goal.quantity.unit), class_="number spread"),
        ]

    def head(self) -> Markup:
        quantity = self.goal.quantity
        unit = f"{quantity.unit}, " if quantity.unit else ""
        scores = [quantity.name, tag("small", f"{unit}{self.goal.direction}")]
        changes = [
            tag("th", "change", scope="col", class_="number"),
            tag("th", "95 % interval", scope="col", class_="number"),
        ]
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
                changes if self.compared else None,
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
        if row["status"] == "ok":
            score: Content = _spread_text(mean, spread, self.decimals)
        else:
            words = STATUS.get(row["status"], str(row["status"]))
            score = tag("span", words, title=row.get("error") or None, class_="bad")
        edge = tag("abbr", "*", title=EDGE, class_="edge") if row.get("at_edge") else None
        metrics = [
            tag("td", _spread_text(*self.values[m][i], self.metric_decimals[m]), class_="number")
            for m in self.metrics
        ]
        return [
            tag("td", score, class_="number"),
            self._changes(row),
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


def final_table(rows: Sequence[Row], goal: Goal, marks: Mapping[str, str]) -> Markup:
    """Return the table: rules first, then the opponents, grouped by optimizer.

    Args:
        rows: The comparison, best first.
        goal: The goal of the search.
        marks: Remarks on recipes.
    """
    columns = _Columns(rows, goal)
    rules, baselines = grouped(rows)

    def mark(row: Row) -> Markup | None:
        words = marks.get(row["label"])
        return tag("small", words, class_="winner-mark") if words else None

    bodies: list[Content] = []
    if rules:
        lines = [
            _line([code(name_of(rows[i])), mark(rows[i])], i, rows[i], columns, "ours")
            for i in rules
        ]
        bodies.append(tag("tbody", _banner("Found by this search", columns.many), lines))
    for number, group in enumerate(baselines):
        lines = [
            _line([tag("span", optimizer_of(rows[i])), mark(rows[i])], i, rows[i], columns,
                  "lesser" if place else None)
            for place, i in enumerate(group)
        ]  # fmt: skip
        banner = None if number else _banner("Opponents, tuned the same way", columns.many)
        bodies.append(tag("tbody", banner, lines, class_="group"))
    return tag("table", columns.head(), bodies, class_="final")


def _marks(final: Mapping[str, Any], winner: str, recommended: str) -> dict[str, str]:
    """Return the remarks on recipes: best rule, best opponent, recommended."""
    found: dict[str, list[str]] = {}
    for recipe, words in (
        (winner, "best rule"),
        (final.get("opponent"), "best opponent"),
        (recommended, "recommended"),
    ):
        if recipe:
            found.setdefault(recipe, []).append(words)
    return {recipe: ", ".join(words) for recipe, words in found.items()}


def final_section(data: Mapping[str, Any], goal: Goal) -> Markup | None:
    """Return the section of the comparison, or None before the final evaluation."""
    final = data.get("final") or {}
    rows = final.get("rows") or []
    if not rows:
        return None
    notes: list[Content] = [tag("p", "Scroll to the right for more columns.", class_="note narrow")]
    if any(row.get("at_edge") for row in rows):
        notes.append(tag("p", tag("span", "*", class_="edge"), f" {EDGE}", class_="note"))
    for row in rows:
        if row.get("error"):
            notes.append(tag("p", name_of(row), ": ", tag("code", row["error"]), class_="note"))
    winner = (data.get("winner") or {}).get("rule") or ""
    recommended = (data.get("recommended") or {}).get("recipe") or ""
    return section(
        "final",
        "Final evaluation" if all(map(is_rule, rows)) else "Comparison with tuned opponents",
        differences(final, goal),
        tag(
            "div",
            final_table(rows, goal, _marks(final, winner, recommended)),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label="Results; scrolls sideways",
        ),
        notes,
        raced_list(data.get("raced") or [], goal),
        lead=_lead(final),
    )


def _lead(final: Mapping[str, Any]) -> str:
    seeds, steps = final.get("seeds"), final.get("steps")
    lead = "Trained again"
    lead += f" for {plural(steps, 'step', 'steps')}" if steps else ""
    lead += f" on {plural(seeds, 'seed', 'seeds')} that chose nothing" if seeds else ""
    lead += ", each with its tuned learning rate: mean ± standard deviation."
    return lead
