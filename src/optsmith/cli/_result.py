"""Results as tables for the terminal and as JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console

from optsmith.cli._table import WIDE, comparison_table
from optsmith.evaluation import Evaluation, Status, shown
from optsmith.report import claim_data, study_arguments, threshold_of
from optsmith.study import Finding, Study

MOST_ROWS = 15
"""Rows of the table at the end of a search."""


def result_console() -> Console:
    """Return the console for results: as wide as the terminal, or 120 columns for a file."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def print_study(study: Study, console: Console) -> None:
    """Print the result of a search: table, verdict, and what to do next."""
    if not study.best(1) and study.final.best_baseline is None:
        console.print(_nothing(study), highlight=False, soft_wrap=True)
        return
    recommended, arguments = study.recommended, study_arguments(study)
    if study.final.rows:
        console.print(
            comparison_table(
                study.final,
                claim=study.claim,
                recommended=recommended.recipe,
                width=console.width,
                most=MOST_ROWS,
                names=shown,
            )
        )
    lr = "" if recommended.lr is None else f", lr {recommended.lr:.4g}"
    use = f"optsmith export {arguments} -o my_optimizer.py   # {shown(recommended.recipe)}{lr}"
    if study.about["usage"]:  # the task does not use rules as optimizers
        use = f"{recommended.recipe}{lr}"
    lines = ["", study.verdict] if study.verdict else [""]
    lines.append(f"  use it:   {use}")
    if study.best(1):
        lines.append(f"  cite it:  optsmith card {arguments}")
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)


def _nothing(study: Study) -> str:
    """Return the message for a search without a winner."""
    threshold = threshold_of(study)
    if not study.records:
        return "no rule was accepted: none was evaluated"
    if threshold is None:
        return "no rule was accepted"
    return (
        f"no rule was accepted: none of the {len(study.records)} evaluated rules had a"
        f" {study.objective.name} better than {study.objective.brief(threshold)}, the threshold of"
        " the protocol"
    )


def study_json(study: Study) -> dict[str, Any]:
    """Return the result of a search as plain data."""
    best = study.best(int(study.settings["proposals"]))
    final = study.final
    is_known = best or final.best_baseline
    return {
        "study": study.name,
        "finished": study.finished,
        "best": _finding_json(study.best()) if best else None,
        "top": [_finding_json(finding) for finding in best],
        "recommended": _recommended_json(study.recommended) if is_known else None,
        "known": study.best().known if best else "",
        "claim": claim_data(study.claim, study.objective, study.metrics),
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


def _recommended_json(finding: Finding) -> dict[str, Any]:
    return {
        "recipe": finding.recipe,
        "is_rule": finding.is_rule,
        "lr": finding.lr,
        "known": finding.known,
        "held_out_score": finding.held_out_score,
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
