"""What the page shows of a study, as plain data."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

from optsmith._errors import RuleError, SimplifyWarning
from optsmith._files import write_atomically
from optsmith.evaluation import Evaluation, mean_and_spread
from optsmith.optim import Baseline, is_baseline
from optsmith.report._page import render
from optsmith.report._repeat import search_command
from optsmith.report._tree import tree_levels
from optsmith.rules import Rule
from optsmith.study import Study, flat


def write_report(study: Study, path: Path | None = None, command: str = "") -> Path:
    """Write the page of a study and return its path.

    Args:
        study: The study, finished or not.
        path: Where to; by default beside the study's journal, or here when it is in a database.
        command: The command that made it, if known.

    Raises:
        OptsmithError: It cannot be written there.
    """
    if path is None:
        journal = Path(study.location)
        path = (journal.parent if journal.is_file() else Path()) / f"{study.name}.html"
    write_atomically(path, render(report_data(study, command)))
    return path


def report_data(study: Study, command: str = "") -> dict[str, Any]:
    """Return what `render` takes."""
    settings, about = study.settings, study.about
    data = {
        "title": settings["task"],
        "finished": study.finished,
        "created": about["created"],
        "task": {
            "name": settings["task"],
            "description": about["description"],
            "applied": about.get("applied"),
            "usage": about.get("usage"),
            "objective": study.objective.name,
            "direction": study.objective.direction,
            "unit": study.objective.unit,
            "metrics": about.get("metrics", {}),
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
        "tree": tree_levels(study.summary.get("searcher", {})),
        "counts": study.summary.get("counts", {}),
        "settings": flat(settings),
        "command": command or search_command(settings),
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
    held_out = study.held_out(best)
    simplified = _simplified(best.rule)
    return {
        "rule": best.recipe,
        "simplified": None if simplified == best.recipe else simplified,
        "latex": best.rule.latex(),
        "length": best.rule.length,
        "lr": best.lr if held_out is None else held_out.lr,
        "at_edge": best.at_edge if held_out is None else held_out.at_edge,
        "score": best.score,
        "spread": best.spread,
        "seeds": len(best.scores),
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
            f"The best learning rate of {len(at_edge)} of {len(study.final.rows)} recipes lies at"
            " the edge of the grid: a better one may lie beyond (--extend-grid follows it)."
        )
    if not study.finished:
        found.append("The search is not finished; the same command continues it.")
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
