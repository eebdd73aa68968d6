"""Results as tables for the terminal and as JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.table import Table

from optsmith.evaluation import Comparison, Evaluation, Status, mean_and_spread
from optsmith.optim import is_baseline
from optsmith.study import Finding, Study
from optsmith.task import Metric

NO_LR = "none"
"""Shown for recipes without a learning rate."""


def result_console() -> Console:
    """Return the console for results: as wide as the terminal, or 120 columns for a file."""
    console = Console()
    return console if console.is_terminal else Console(width=120)


def print_study(study: Study, console: Console) -> None:
    """Print the result of a search."""
    if not study.best(1):
        console.print(_nothing(study), highlight=False, soft_wrap=True)
        return
    winner = study.best()
    if study.final.rows:
        console.print(comparison_table(study.final, winner=winner.recipe))
    console.print(f"\n{study.verdict or 'best rule:'}", highlight=False, soft_wrap=True)
    use = f'optsmith export "{winner.recipe}" -o my_optimizer.py'
    if study.about["usage"]:  # the task does not use rules as optimizers
        use = winner.recipe
    console.print(f"{use}   # lr {winner.lr:.4g}", highlight=False, soft_wrap=True)


def _nothing(study: Study) -> str:
    """Return the message for a search without a winner."""
    threshold = study.settings["protocol"]["threshold"]
    if threshold is None:
        return "no rule was accepted"
    return (
        f"no rule was accepted: none of the {len(study.records)} evaluated rules had a"
        f" {study.objective.name} better than {study.objective.brief(threshold)}, the threshold of"
        " the protocol"
    )


def comparison_table(comparison: Comparison, winner: str = "") -> Table:
    """Return one row per recipe; rules are bold, the winner is marked."""
    steps = max((e.steps for e in comparison.rows), default=0)
    seeds = max((len(e.scores) for e in comparison.rows), default=0)
    names = _metric_names(comparison)
    table = Table(
        title=f"{comparison.objective.name}, {steps} steps, mean ± spread over {seeds} seeds",
        title_justify="left",
    )
    table.add_column("", overflow="ellipsis", no_wrap=True)
    for name in (comparison.objective.name, *names, "lr", "ms/step", "state B"):
        table.add_column(name, justify="right", no_wrap=True)
    for e in comparison.rows:
        mark = "→ " if e.recipe == winner else ""
        table.add_row(
            mark + e.recipe,
            e.status.value if e.score is None else comparison.objective.text(e.score, e.spread),
            *(_metric(comparison.metric(name), e.metrics.get(name, ())) for name in names),
            _lr_cell(e),
            _number(e.ms_per_step, ".2f"),
            _number(e.state_bytes, ".0f"),
            style="" if is_baseline(e.recipe) else "bold",
        )
    notes = []
    if any(e.at_edge for e in comparison.rows):
        notes.append("* at the edge of the grid: a better learning rate may lie outside")
    if without := [e.recipe for e in comparison.rows if _lr_cell(e) == NO_LR]:
        notes.append(f"{NO_LR}: {', '.join(without)} has no learning rate")
    table.caption = "\n".join(notes) or None
    return table


def _lr_cell(evaluation: Evaluation) -> str:
    if evaluation.lr is None:  # without a score, no rate was found
        return "" if evaluation.score is None else NO_LR
    return f"{evaluation.lr:.4g}{'*' if evaluation.at_edge else ''}"


def _metric_names(comparison: Comparison) -> list[str]:
    """Return the metrics to show: secondary metrics only if there are no others."""
    names = {name: None for e in comparison.rows for name in e.metrics}
    return [name for name in names if not comparison.metric(name).secondary] or list(names)


def _metric(metric: Metric, values: tuple[float, ...]) -> str:
    return metric.text(*mean_and_spread(values)) if values else ""


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)


def study_json(study: Study) -> dict[str, Any]:
    """Return the result of a search as plain data."""
    best = study.best(int(study.settings["proposals"]))
    final = study.final
    return {
        "study": study.name,
        "finished": study.finished,
        "best": _finding_json(study.best()) if best else None,
        "top": [_finding_json(finding) for finding in best],
        "baselines": [evaluation_json(e) for e in final.baselines],
        "verdict": study.verdict,
        "counts": study.summary.get("counts", {}),
        "settings": dict(study.settings),
        "seconds": study.summary.get("seconds"),
        "peak_bytes": study.peak_bytes,
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    held_out = finding.held_out
    return {
        "rule": finding.recipe,
        "lr": finding.lr,
        "search_score": finding.search_score,
        "search_spread": _finite(finding.search.spread),
        "search_lr": finding.search.lr,
        "held_out_score": finding.held_out_score,
        "held_out_spread": None if held_out is None else _finite(held_out.spread),
        "held_out": None if held_out is None else evaluation_json(held_out),
    }


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as plain data, with its spread and without its curve."""
    data = evaluation.to_json()
    del data["curve"]
    data["spread"] = _finite(evaluation.spread)
    data["ok"] = evaluation.status is Status.OK
    return data


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
