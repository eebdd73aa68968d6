"""Table of a comparison for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.box import HEAVY_HEAD, SIMPLE
from rich.markup import escape
from rich.table import Table

from optsmith.evaluation import Claim, Comparison, Evaluation, mean_and_spread
from optsmith.optim import is_baseline
from optsmith.report import change_text, changes, interval_text, opponent_of
from optsmith.task import Metric

Changes = Mapping[str, Mapping[str, Any]]
"""Each recipe against the best opponent, as plain data."""

NO_LR = "none"
"""Shown for recipes without a learning rate."""

WIDE = 120
"""Columns of a terminal from which all columns of the table are shown."""

SHORTEST_NAME = 12
"""Columns that a recipe has at least."""


def comparison_table(
    comparison: Comparison,
    *,
    claim: Claim | None = None,
    recommended: str = "",
    width: int = WIDE,
    most: int | None = None,
    names: Callable[[str], str] = str,
) -> Table:
    """Return one row per recipe, compared with the best opponent; rules are bold.

    Args:
        comparison: The comparison.
        claim: The claim of a study, which names the best opponent.
        recommended: The recipe to mark.
        width: Width of the terminal; narrow ones have no spreads, no costs, one metric.
        most: Number of rows to show; those of the claim always are.
        names: Returns the text of a recipe as it is shown.
    """
    opponent, against = opponent_of(comparison, claim), changes(comparison, claim)
    claimed = {recommended, opponent, claim.rule if claim else ""}
    shown = _shown(comparison.rows, claimed, most)
    columns = _columns(comparison, shown, against, opponent, narrow=width < WIDE)
    table = Table(
        title=f"{comparison.objective.name}, {_counts(comparison, narrow=width < WIDE)}",
        title_justify="left",
        box=SIMPLE if width < WIDE else HEAVY_HEAD,
    )
    # Only names of recipes are cut off in a narrow terminal, not numbers.
    widths = [
        max(map(len, [*name.split("\n"), *cells]), default=0) for name, cells in columns.items()
    ]
    rest = max(SHORTEST_NAME, width - sum(widths) - 3 * len(widths) - 4)
    table.add_column("", overflow="ellipsis", no_wrap=True, max_width=rest)
    for name, least in zip(columns, widths, strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=least)
    for i, e in enumerate(shown):
        mark = "→ " if e.recipe == recommended else ""
        row = [mark + names(e.recipe), *(cells[i] for cells in columns.values())]
        table.add_row(*map(escape, row), style="" if is_baseline(e.recipe) else "bold")
    hidden = len(comparison.rows) - len(shown)
    table.caption = "\n".join(_notes(shown, opponent if against else "", hidden)) or None
    return table


def _columns(
    comparison: Comparison,
    rows: Sequence[Evaluation],
    against: Changes,
    opponent: str,
    *,
    narrow: bool,
) -> dict[str, list[str]]:
    """Return the cells after the recipe, by column; narrow terminals show less."""
    objective, columns = comparison.objective, {}

    def head(name: str) -> str:
        return name.replace(" ", "\n") if narrow else name

    columns[head(objective.name)] = [
        e.status.value
        if e.score is None
        else objective.text(e.score, math.nan if narrow else e.spread)
        for e in rows
    ]
    if against:
        columns["change (95 %)"] = [_change(e, against, opponent, objective.unit) for e in rows]
    for name in _metric_names(comparison)[: 1 if narrow else None]:
        metric = comparison.metric(name)
        columns[head(name)] = [_metric(metric, e.metrics.get(name, ()), narrow) for e in rows]
    columns["lr"] = [_lr_cell(e) for e in rows]
    if not narrow:
        columns["ms/step"] = [_number(e.ms_per_step, ".2f") for e in rows]
        columns["state B"] = [_number(e.state_bytes, ".0f") for e in rows]
    return columns


def _counts(comparison: Comparison, *, narrow: bool) -> str:
    """Return the steps and the seeds of the rows, in words."""
    steps = max((e.steps for e in comparison.rows), default=0)
    seeds = sorted({len(e.scores) for e in comparison.rows if e.scores}) or [0]
    many = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    shown = "mean" if narrow else "mean ± spread"
    return f"{steps} steps, {shown} over {many} seed{'' if many == '1' else 's'}"


def _shown(rows: Sequence[Evaluation], always: set[str], most: int | None) -> list[Evaluation]:
    """Return the best rows, and those that are always shown."""
    if most is None or len(rows) <= most:
        return list(rows)
    needed = [e for e in rows if e.recipe in always]
    others = [e for e in rows if e.recipe not in always][: max(0, most - len(needed))]
    return [e for e in rows if e in needed or e in others]


def _notes(rows: Sequence[Evaluation], opponent: str, hidden: int) -> list[str]:
    """Return the notes below the table."""
    notes = [f"and {hidden} more, which are in the report"] if hidden else []
    if opponent:
        notes.append(f"change: relative to {opponent}, paired by seed")
    if any(e.at_edge for e in rows):
        notes.append("* at the edge of the grid: a better learning rate may lie outside")
    if without := [e.recipe for e in rows if _lr_cell(e) == NO_LR]:
        notes.append(f"{NO_LR}: {', '.join(without)} has no learning rate")
    return notes


def _change(evaluation: Evaluation, against: Changes, opponent: str, unit: str) -> str:
    """Return the change against the best opponent, with its interval."""
    if evaluation.recipe == opponent:
        return "reference"
    paired = against.get(evaluation.recipe)
    if paired is None or evaluation.score is None:
        return ""
    interval, _, _ = interval_text(paired, unit).rpartition(" ")  # without the unit
    return change_text(paired, unit) + (f" ({interval})" if interval else "")


def _lr_cell(evaluation: Evaluation) -> str:
    if evaluation.lr is None:  # without a score, no rate was found
        return "" if evaluation.score is None else NO_LR
    return f"{evaluation.lr:.3g}{'*' if evaluation.at_edge else ''}"


def _metric_names(comparison: Comparison) -> list[str]:
    """Return the metrics to show: secondary metrics only if there are no others."""
    names = {name: None for e in comparison.rows for name in e.metrics}
    return [name for name in names if not comparison.metric(name).secondary] or list(names)


def _metric(metric: Metric, values: tuple[float, ...], narrow: bool) -> str:
    mean, spread = mean_and_spread(values)
    return metric.text(mean, math.nan if narrow else spread) if values else ""


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)
