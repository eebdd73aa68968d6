"""Rows of the final comparison: what they are called and which belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def is_rule(row: Row) -> bool:
    """Return whether a row is a rule of the search, not a baseline."""
    return bool(row["kind"] == "rule")


def optimizer_of(row: Row) -> str:
    """Return the name that a baseline has whatever its schedule: `torch:adam`."""
    label: str = row["label"]
    schedule = row.get("schedule")
    return label.removesuffix(f"+{schedule}") if schedule else label


def name_of(row: Row) -> str:
    """Return a row's name in words: `torch:adam, cosine`."""
    schedule = row.get("schedule")
    return f"{optimizer_of(row)}, {schedule}" if schedule and not is_rule(row) else row["label"]


def grouped(rows: Sequence[Row]) -> tuple[list[int], list[list[int]]]:
    """Return the places of the rules, and those of the baselines by optimizer; order is kept."""
    rules = [i for i, row in enumerate(rows) if is_rule(row)]
    baselines: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if not is_rule(row):
            baselines.setdefault(optimizer_of(row), []).append(i)
    return rules, list(baselines.values())
