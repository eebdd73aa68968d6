"""The content of the report of a study, as plain data."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

from optsmith._errors import RuleError, SimplifyWarning
from optsmith._files import write_atomically
from optsmith.evaluation import Evaluation, mean_and_spread
from optsmith.optim import Baseline, is_baseline
from optsmith.report._command import search_command
from optsmith.report._page import render
from optsmith.report._tree import tree_levels
from optsmith.report._winner import parsed
from optsmith.rules import Rule
from optsmith.study import Study, flat


def write_report(study: Study, path: Path | None = None) -> Path:
    """Write the report of a study and return its path.

    Args:
        study: The study, finished or not.
        path: The file; by default next to the study's journal, or in the current directory if the
            study is in a database.

    Raises:
        OptsmithError: The file cannot be written.
    """
    if path is None:
        journal = Path(study.location)
        path = (journal.parent if journal.is_file() else Path()) / f"{study.name}.html"
    write_atomically(path, render(report_data(study)))
    return path


def report_data(study: Study) -> dict[str, Any]:
    """Return the data of a report, for `render`."""
    settings, about = study.settings, study.about
    data = {
        "title": settings["task"],
        "finished": study.finished,
        "created": about["created"],
        "task": {
            "name": settings["task"],
            "description": about["description"],
            "applied": about["applied"],
            "usage": about["usage"],
            "objective": study.objective.name,
            "direction": study.objective.direction,
            "unit": study.objective.unit,
            "metrics": about["metrics"],
            "threshold": settings["protocol"]["threshold"],
        },
        "winner": _winner(study),
        "verdict": study.verdict,
        "final": {
            "steps": settings["protocol"]["final_steps"],
            "seeds": settings["protocol"]["final_seeds"],
            "rows": [_row(e) for e in study.final.rows],
        },
        "history": [
            {
                "n": n,
                "candidate": record.candidate,
                "phase": record.phase,
                "fidelity": record.fidelity,
                "rule": record.rule,
                "length": record.length,
                **{key: record.data[key] for key in ("score", "status", "lr", "at_edge")},
            }
            for n, record in enumerate(study.records, start=1)
        ],
        "tree": tree_levels(study),
        "counts": study.summary.get("counts", {}),
        "settings": flat(settings),
        "command": search_command(study),
        "versions": about["versions"],
        "seconds": study.summary.get("seconds"),
        "peak_bytes": study.peak_bytes,
        "warnings": _warnings(study),
    }
    return {key: _finite(value) for key, value in data.items()}


def _winner(study: Study) -> dict[str, Any] | None:
    if not study.best(1):
        return None
    best = study.best()
    rule = parsed(best.recipe)
    simplified = best.recipe if rule is None else _simplified(rule)
    return {
        "rule": best.recipe,
        "simplified": None if simplified == best.recipe else simplified,
        "length": next(r.length for r in study.records if r.rule == best.recipe),
        "lr": best.lr,
        "at_edge": best.tuned.at_edge,
        "search": _score(best.search),
        "held_out": None if best.held_out is None else _score(best.held_out),
    }


def _score(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "score": evaluation.score,
        "spread": evaluation.spread,
        "seeds": len(evaluation.scores),
    }


def _simplified(rule: Rule) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimplifyWarning)
        try:
            return str(rule.simplify())
        except RuleError:
            return str(rule)


def _row(evaluation: Evaluation) -> dict[str, Any]:
    baseline = is_baseline(evaluation.recipe)
    return {
        "label": evaluation.recipe,
        "kind": "baseline" if baseline else "rule",
        "schedule": Baseline.parse(evaluation.recipe).schedule if baseline else "",
        "lr": evaluation.lr,
        "at_edge": evaluation.at_edge,
        "score": evaluation.score,
        "spread": evaluation.spread,
        "n": len(evaluation.scores),
        "metrics": {name: mean_and_spread(v) for name, v in evaluation.metrics.items()},
        "ms_per_step": evaluation.ms_per_step,
        "state_bytes": evaluation.state_bytes,
        "status": evaluation.status.value,
        "error": evaluation.error,
        "curve": evaluation.curve,
    }


def _warnings(study: Study) -> list[str]:
    found = []
    at_edge = [e.recipe for e in study.final.rows if e.at_edge]
    if at_edge:
        found.append(
            f"The best learning rate of {len(at_edge)} of {len(study.final.rows)} recipes is at"
            " the edge of the grid: a better one may lie outside (--extend-grid searches there)."
        )
    if not study.finished:
        found.append("The search is not finished; the same command resumes it.")
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
