"""Rows of the final comparison: names and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optsmith.evaluation import named_or

Row = Mapping[str, Any]

BEST_RULE = "best rule"


def is_rule(row: Row) -> bool:
    """Return whether a row is a rule of the search rather than a baseline."""
    return bool(row["kind"] == "rule")


def optimizer_of(row: Row) -> str:
    """Return the name of a baseline without its schedule: `torch:adam`."""
    label: str = row["label"]
    schedule = row.get("schedule")
    return label.removesuffix(f"+{schedule}") if schedule else label


def name_of(row: Row) -> str:
    """Return the display name of a row: `torch:adam, cosine`."""
    if is_rule(row):
        return str(row.get("shown") or row["label"])
    schedule = row.get("schedule")
    return f"{optimizer_of(row)}, {schedule}" if schedule else str(row["label"])


def brief_name_of(row: Row) -> str:
    """Return the display name of a row; BEST_RULE for a rule that is too long for a legend."""
    return named_or(BEST_RULE, name_of(row)) if is_rule(row) else name_of(row)


def recipe_name(recipe: Mapping[str, Any]) -> str:
    """Return the display name of the recommended recipe."""
    return name_of({**recipe, "label": recipe["recipe"]})


def grouped(rows: Sequence[Row]) -> tuple[list[int], list[list[int]]]:
    """Return the indices of the rules, and those of the baselines per optimizer, in order."""
    rules = [i for i, row in enumerate(rows) if is_rule(row)]
    baselines: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if not is_rule(row):
            baselines.setdefault(optimizer_of(row), []).append(i)
    return rules, list(baselines.values())
